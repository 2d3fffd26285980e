// SPDX-License-Identifier: Apache-2.0
// loops.h -- recurrence in a graph: which nodes form a loop (strongly connected through PastValue or FutureValue), the
// order of evaluation, and the instructions that run step by step.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/kernel.h"

namespace tutti::graph {

struct Lowered;

// PastValue and FutureValue: their input 0 may be computed after them.
bool is_delay(const std::string& operation);

// The strongly connected components of the nodes reachable from `roots`, inputs before users. Without loops the order
// is depth-first. `inputs(n)` lists the inputs of node n.
using Edges = std::function<std::span<const std::size_t>(std::size_t)>;
std::vector<std::vector<std::size_t>> strong_components(std::size_t nodes, std::span<const std::size_t> roots,
                                                        const Edges& inputs);

// Whether a component is a loop; `inputs` are those of its first member.
bool is_cycle(std::span<const std::size_t> component, std::span<const std::size_t> inputs);

// The members of a loop in the order of a step: delays do not wait for their input 0. Throws ConfigError for a cycle
// without a delay and for a loop with both directions in time.
std::vector<std::size_t> order_in_loop(const Graph& graph, const std::vector<std::size_t>& members);

// Operations on whole sequences (TimeReverse, Where, LSTM, ...) cannot be members of a loop.
bool runs_by_step(const std::string& operation);
// Operations that depend on sequences; a program with one of them uses packed order.
bool needs_sequences(const std::string& operation);

// Whether the operation takes input k sparse: it uses only its sequences, or makes its values dense itself.
bool only_layout(const std::string& operation, std::size_t k);

// A run of instructions that is executed step by step.
struct Loop {
  std::size_t first = 0, last = 0;  // [first, last)
  std::size_t axis = 0;
  bool backwards = false;  // FutureValue: from the last step to the first

  bool holds(std::size_t instruction) const { return first <= instruction && instruction < last; }
};

// Sorts the instructions so that those of a loop are contiguous and independent ones are outside, and lists the loops.
void group_loops(Lowered& code);

}  // namespace tutti::graph

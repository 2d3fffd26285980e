// SPDX-License-Identifier: Apache-2.0
// loops.h -- recurrence in a graph: which nodes form a loop (strongly connected through PastValue or FutureValue), in
// which order everything is evaluated, and which instructions run step by step.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/kernel.h"

namespace tutti::graph {

struct Lowered;

// PastValue and FutureValue: their input 0 may be made later than they are.
bool is_delay(const std::string& operation);

// The components of the nodes reachable from `roots`, inputs before users; without loops the order is that of a depth
// first walk. `inputs(n)` lists what node n reads.
using Edges = std::function<std::span<const std::size_t>(std::size_t)>;
std::vector<std::vector<std::size_t>> strong_components(std::size_t nodes, std::span<const std::size_t> roots,
                                                        const Edges& inputs);

// The members of a loop in the order in which a step runs them: delays do not wait for their input 0. Throws
// ConfigError for a circle without a delay and for a loop that runs forward and backward in time.
std::vector<std::size_t> order_in_loop(const Graph& graph, const std::vector<std::size_t>& members);

// Operations on sequences as a whole (TimeReverse, Where, LSTM, ...) cannot be members of a loop.
bool runs_by_step(const std::string& operation);
// Any operation that looks at sequences; programs that hold one work in packed order.
bool needs_sequences(const std::string& operation);

// Whether the operation only asks for the sequences of input k, never for its values: such an input may stay sparse.
bool only_layout(const std::string& operation, std::size_t k);

// A run of instructions that works step by step.
struct Loop {
  std::size_t first = 0, last = 0;  // [first, last)
  std::size_t axis = 0;
  bool backwards = false;  // FutureValue: from the last step to the first

  bool holds(std::size_t instruction) const { return first <= instruction && instruction < last; }
};

// Sorts the instructions so that those of a loop stand together, those that do not depend on it outside, and lists the
// loops.
void group_loops(Lowered& code);

}  // namespace tutti::graph

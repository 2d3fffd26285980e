// SPDX-License-Identifier: Apache-2.0
// shapes.h -- shape inference: the shape of one sample of each result, and whether it has a sample axis. Builders ask
// node by node (infer_shape); Network infers a whole graph, including dims of 0 (infer_graph).
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tutti/error.h"
#include "tutti/graph.h"

namespace tutti::graph {

// The dynamic axis of a value with a sample axis; "" is the default one.
struct Value {
  Shape shape;
  bool per_sample = false;
  std::string axis;
};

// The shape of the result of `node` for inputs of these shapes. Dims of 0 (unknown) propagate if the rule allows.
// Throws ConfigError at node.where. `names` of the inputs improve the message.
Shape infer_shape(const Node& node, std::span<const Shape> inputs, std::span<const std::string> names = {});

// Whether the result has a sample axis if any of its inputs has one (criteria and corpus statistics have none).
bool keeps_sample_axis(const Node& node);

// Goes through its operands side by side: all or none of them have a value per sample.
bool goes_side_by_side(const Node& node);
// A sum over samples, so that the results of parts add up.
bool sums_over_samples(const Node& node);

// What an input must be: 's' = a value per sample, 'a' = the same and the result has its dynamic axis (without an 'a'
// all inputs share one), '1' = one value for all samples, '.' = either.
char operand_kind(const Node&, std::size_t operand);
// Slice with axis = -1: a part of each sequence, on a dynamic axis of its own.
bool is_time_slice(const Node& node);
// Whether the result is on a new dynamic axis, which has the node's name.
bool makes_axis(const Node& node);

// The shape that the left operand of a product or sum needs, given the other one: fills in dims of 0 and, with
// inferInputRankToMap, adds missing axes. Returns the operand unchanged if nothing is to infer.
Shape infer_operand(const Node& node, std::size_t operand, std::span<const Shape> inputs);

// The nodes that the roots need, inputs before users; members of a loop through PastValue or FutureValue are
// contiguous. Any other cycle throws ConfigError.
std::vector<std::size_t> evaluation_order(const Graph& graph, const std::vector<std::size_t>& roots);

// The same without nodes needed only for statistics: their values are in the model and their inputs are not read.
std::vector<std::size_t> execution_order(const Graph& graph, const std::vector<std::size_t>& roots);
bool is_statistic(const Node& node);  // Mean, InvStdDev
// What a network evaluates: the nodes `reported`, and those that the graph tags.
std::vector<std::size_t> roots_of(const Graph& graph, std::vector<std::size_t> reported);

// The operands of an operation that are on different dynamic axes.
class MixedAxes : public ConfigError {
 public:
  MixedAxes(std::size_t node, std::size_t first, std::size_t second, std::string first_axis, std::string second_axis,
            const Graph&);
  std::size_t node, first, second;  // the operation and its operands
  std::string first_axis, second_axis;
};

// Shapes of all nodes in `order`; completes the dims of parameters in the graph. Entries of other nodes are empty.
std::vector<Value> infer_graph(Graph& graph, const std::vector<std::size_t>& order);

// Operands on different dynamic axes of which one was made by First, Last, Gather or a similar operation may have equal
// sequences. Adds a ReconcileDynamicAxis there, which compares them in each minibatch, and returns a warning for each.
// Axes that the user declared differently are not reconciled; shape inference rejects mixing them, and what is left
// after `most` places.
std::vector<Diagnostic> reconcile_axes(Graph&, std::size_t most = std::numeric_limits<std::size_t>::max());

// A warning for each ClassificationError of which no label is outside the topN largest elements.
std::vector<Diagnostic> find_error_rates_of_zero(const Graph&);

// Throws ConfigError at the node: what is wrong with it, and what helps.
[[noreturn]] void fail(const Node& node, const std::string& what, const std::string& fix);

bool has_unknown(const Shape&);  // a dim of 0

// Attribute `dims` as a shape.
Shape declared_shape(const Node& node);

// An axis attribute (counted from 1, negative from the end) as an index from 0; checks the range.
std::size_t axis_index(const Node& node, const std::string& attribute, double otherwise, std::size_t rank);

// The part of `axis` that a Slice keeps: [first, last).
struct Range {
  std::size_t first = 0, last = 0;
};
Range slice_range(const Node& node, std::size_t dim);

}  // namespace tutti::graph

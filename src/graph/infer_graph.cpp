// SPDX-License-Identifier: Apache-2.0
// Shape inference over a graph: evaluation order, dims of 0 filled in from the users of a parameter, dynamic axes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>

#include "graph/initialize.h"
#include "graph/loops.h"
#include "graph/shapes.h"

namespace tutti::graph {
namespace {

// Sizes in bytes, of a minibatch too, are to fit into 64 bits.
void check_size(const Node& node, const Shape& shape) {
  constexpr double most = 1ULL << 40;
  double elements = 1;
  for (const auto d : shape.dims) elements *= static_cast<double>(d);
  if (elements > most)
    throw ConfigError(node.where,
                      fmt::format("{} '{}' has {} elements: {}", node.operation, node.name, elements, to_string(shape)),
                      fmt::format("no value can have more than {:.0f}", most));
}

void store_dims(Node& node, const Shape& shape) {
  node.attributes["dims"] = std::vector<double>(shape.dims.begin(), shape.dims.end());
}

// Hands a completed shape down to the parameter behind `index`; through operations that only move dims around.
// Whether the parameter changed.
bool complete_operand(Graph& graph, std::vector<Value>& values, std::size_t index, const Shape& shape) {
  Node& node = graph.nodes[index];
  if (node.operation == "LearnableParameter") {
    store_dims(node, shape);
  } else if (node.operation == "Pass" || node.operation == "Trace") {
    if (!complete_operand(graph, values, node.inputs[0], shape)) return false;
  } else if (node.operation == "TransposeDimensions") {
    const std::array<Shape, 1> through = {shape};
    if (!complete_operand(graph, values, node.inputs[0], infer_shape(node, through))) return false;
  } else {
    return false;
  }
  values[index].shape = shape;
  return true;
}

// A value of which nothing is known yet: what a loop delays, before the loop has been walked.
constexpr const char* unknown_axis = "?";
bool unknown(const Value& v) { return v.axis == unknown_axis; }
Value unknown_value() { return {Shape{{0}}, true, unknown_axis}; }

std::string joint_axis(const Graph& graph, const Node& node, const std::vector<Value>& values) {
  const std::string* axis = nullptr;
  std::size_t from = 0;
  bool open = false;
  for (const auto i : node.inputs) {
    if (!values[i].per_sample) continue;
    open = open || unknown(values[i]);
    if (unknown(values[i])) continue;
    if (axis && *axis != values[i].axis)
      throw MixedAxes(static_cast<std::size_t>(&node - graph.nodes.data()), from, i, *axis, values[i].axis, graph);
    axis = &values[i].axis, from = i;
  }
  return axis ? *axis : open ? std::string(unknown_axis) : std::string();
}

// The input that determines the dynamic axis of the result; none = all inputs share one.
std::optional<std::size_t> axis_giver(const Node& node) {
  if (makes_axis(node)) return 0;
  for (std::size_t k = 0; k < node.inputs.size(); ++k)
    if (operand_kind(node, k) == 'a') return k;
  return std::nullopt;
}

// The dynamic axis of a result.
std::string result_axis(const Graph& graph, const Node& node, const std::vector<Value>& values) {
  const auto from = axis_giver(node);
  if (!from) return joint_axis(graph, node, values);
  const Value& giver = values[node.inputs[*from]];
  if (!giver.per_sample)
    fail(node, fmt::format("'{}' is no sequence", graph.nodes[node.inputs[*from]].name),
         "it needs a value that depends on an input");
  return makes_axis(node) ? node.name : giver.axis;
}

void infer_leaf(Node& node, Value& value) {
  value.shape = declared_shape(node);
  check_size(node, value.shape);
  value.per_sample = node.operation == "InputValue";
  if (value.per_sample) value.axis = text(node, "dynamicAxis");
  if (value.per_sample && has_unknown(value.shape))
    throw ConfigError(node.where, fmt::format("InputValue '{}' has a dimension of 0", node.name),
                      "an input needs its dimensions; only those of parameters are inferred");
  const std::string file = text(node, "initFromFilePath");
  if (node.operation == "LearnableParameter" && !file.empty() && has_unknown(value.shape) && value.shape.rank() <= 2) {
    const TextMatrix matrix = read_text_matrix(file, node);
    value.shape.dims.resize(2, 1);
    if (value.shape.dims[0] == 0) value.shape.dims[0] = matrix.rows;
    if (value.shape.dims[1] == 0) value.shape.dims[1] = matrix.columns;
    store_dims(node, value.shape);
  }
}

}  // namespace

MixedAxes::MixedAxes(std::size_t node, std::size_t first, std::size_t second, std::string first_axis,
                     std::string second_axis, const Graph& graph)
    : ConfigError(
          graph.nodes[node].where,
          fmt::format("{} '{}': '{}' and '{}' lie on different dynamic axes ('{}' and '{}')",
                      graph.nodes[node].operation, graph.nodes[node].name, graph.nodes[first].name,
                      graph.nodes[second].name, first_axis, second_axis),
          "declare both inputs with the same dynamicAxis, or use ReconcileDynamicAxis where their sequences have "
          "the same lengths"),
      node(node),
      first(first),
      second(second),
      first_axis(std::move(first_axis)),
      second_axis(std::move(second_axis)) {}

bool is_statistic(const Node& node) { return node.operation == "Mean" || node.operation == "InvStdDev"; }

namespace {

// Members of a loop stand together, in the order in which a step runs them.
std::vector<std::size_t> ordered(const Graph& graph, const std::vector<std::size_t>& roots, bool through_statistics) {
  const auto inputs = [&](std::size_t i) {
    const Node& node = graph.nodes[i];
    return !through_statistics && is_statistic(node) ? std::span<const std::size_t>()
                                                     : std::span<const std::size_t>(node.inputs);
  };
  std::vector<std::size_t> order;
  for (const auto& component : strong_components(graph.nodes.size(), roots, inputs)) {
    if (!is_cycle(component, inputs(component[0]))) {
      order.push_back(component[0]);
      continue;
    }
    const auto members = order_in_loop(graph, component);
    order.insert(order.end(), members.begin(), members.end());
  }
  return order;
}

}  // namespace

std::vector<std::size_t> evaluation_order(const Graph& graph, const std::vector<std::size_t>& roots) {
  return ordered(graph, roots, true);
}

std::vector<std::size_t> execution_order(const Graph& graph, const std::vector<std::size_t>& roots) {
  return ordered(graph, roots, false);
}

std::vector<std::size_t> roots_of(const Graph& graph, std::vector<std::size_t> reported) {
  std::vector<std::size_t> roots = std::move(reported);
  for (const auto* set : {&graph.criteria, &graph.evaluations, &graph.outputs})
    roots.insert(roots.end(), set->begin(), set->end());
  if (roots.empty())  // as where a script loads a model and adds nodes that only an action names
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) roots.push_back(i);
  for (const auto* set : {&graph.features, &graph.labels}) roots.insert(roots.end(), set->begin(), set->end());
  return roots;
}

namespace {

// One operand cannot have a value per sample and another one for all.
void check_side_by_side(const Graph& graph, const Node& node, const std::vector<Value>& values) {
  const std::size_t first = node.inputs[0];
  for (const auto i : node.inputs)
    if (values[i].per_sample != values[first].per_sample)
      fail(node,
           fmt::format("one of '{}' and '{}' has a value per sample, the other one value for all samples",
                       graph.nodes[first].name, graph.nodes[i].name),
           keeps_sample_axis(node)
               ? "both must depend on an input"
               : "both must depend on an input; Minus and ElementTimes take a constant for all samples");
}

void check_operands(const Graph& graph, const Node& node, const std::vector<Value>& values) {
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const Value& value = values[node.inputs[k]];
    const std::string& name = graph.nodes[node.inputs[k]].name;
    const char kind = operand_kind(node, k);
    if (kind == 's' && !value.per_sample)
      fail(node, fmt::format("'{}' has one value for all samples", name), "it needs a value that depends on an input");
    if (kind == '1' && value.per_sample)
      fail(node, fmt::format("'{}' has a value for each sample", name),
           "it needs one value for all samples, such as a parameter");
  }
  if (goes_side_by_side(node)) check_side_by_side(graph, node, values);
}

// Shape, axis and completed parameters of one node; whether a parameter was completed, so that users before that place
// saw an older shape. With `partial` some of what it reads is not known yet.
bool infer_node(Graph& graph, std::size_t index, std::vector<Value>& values, bool partial) {
  Node& node = graph.nodes[index];
  bool changed = false, sampled = false;
  std::vector<Shape> shapes;
  std::vector<std::string> names;
  for (const auto i : node.inputs) {
    shapes.push_back(values[i].shape);
    names.push_back(graph.nodes[i].name);
    sampled = sampled || values[i].per_sample;
  }
  if (find_operation(node.operation) && !partial)
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      Shape completed = infer_operand(node, k, shapes);
      if (completed == shapes[k]) continue;
      check_size(graph.nodes[node.inputs[k]], completed);
      changed = complete_operand(graph, values, node.inputs[k], completed) || changed;
      shapes[k] = completed;
    }
  // What a loop makes may still get axes. A product's result does not depend on those that it sums over.
  if (partial && node.operation == "Times")
    for (auto k = static_cast<std::size_t>(std::max(0.0, number(node, "outputRank", 1))); k < shapes[0].rank(); ++k)
      shapes[0].dims[k] = 0;
  values[index].shape = infer_shape(node, shapes, names);
  check_size(node, values[index].shape);
  if (!partial) check_operands(graph, node, values);
  values[index].axis = result_axis(graph, node, values);
  values[index].per_sample = sampled && keeps_sample_axis(node);
  if (!values[index].per_sample) values[index].axis.clear();
  return changed;
}

// Inference over a graph that may hold loops: walks over the nodes until nothing changes. What follows from a delay
// whose input has not been reached yet is tentative: mistakes there do not count, and no parameter is completed from
// it.
class Inference {
 public:
  Inference(Graph& graph, const std::vector<std::size_t>& order)
      : graph_(graph),
        order_(order),
        values_(graph.nodes.size()),
        seen_(graph.nodes.size()),
        tentative_(graph.nodes.size()) {}

  std::vector<Value> run() {
    converge();
    if (std::find(tentative_.begin(), tentative_.end(), true) != tentative_.end()) {
      for (const auto index : order_) check_known(index);
      tentative_.assign(tentative_.size(), false);
      converge();
    }
    return std::move(values_);
  }

 private:
  void converge() {
    // A loop needs a walk for each of its delays.
    for (std::size_t walks = 0; walk() && walks < 2 * order_.size() + 4; ++walks) {
    }
  }

  bool walk() {
    bool changed = false;
    for (const auto index : order_) changed = visit(index) || changed;
    return changed;
  }

  bool visit(std::size_t index) {
    Node& node = graph_.nodes[index];
    const bool known_before = seen_[index];
    seen_[index] = true;
    if (node.inputs.empty()) {
      if (find_operation(node.operation)) infer_leaf(node, values_[index]);
      if (!find_operation(node.operation) || find_operation(node.operation)->min_inputs > 0) infer_shape(node, {});
      return false;
    }
    bool partial = false;
    for (const auto i : node.inputs) {
      if (!seen_[i]) values_[i] = unknown_value(), tentative_[i] = true;
      partial = partial || tentative_[i];
    }
    const Value before = values_[index];
    bool changed = false;
    try {
      changed = infer_node(graph_, index, values_, partial);
    } catch (const MixedAxes&) {
      throw;  // axes are known for good, or not at all
    } catch (const ConfigError& e) {
      if (!partial) throw;
      values_[index] = unknown_value();
      if (!e.diagnostics().empty()) doubt_ = e.diagnostics()[0].message;
    }
    tentative_[index] = partial;
    const bool same = before.shape == values_[index].shape && before.axis == values_[index].axis;
    return changed || (partial && !known_before) || (known_before && !same);
  }

  void check_known(std::size_t index) const {
    if (!unknown(values_[index])) return;
    const Node& node = graph_.nodes[index];
    throw ConfigError(node.where,
                      fmt::format("the dimensions or sequences of {} '{}', which is part of a loop, cannot be inferred",
                                  node.operation, node.name),
                      "a loop needs an operand with samples, and its delays may need dims: PastValue (dims, x)" +
                          (doubt_.empty() ? "" : fmt::format("; on the way: {}", doubt_)));
  }

  Graph& graph_;
  const std::vector<std::size_t>& order_;
  std::vector<Value> values_;
  std::vector<bool> seen_, tentative_;
  std::string doubt_;  // the last mistake that did not count yet
};

}  // namespace

std::vector<Value> infer_graph(Graph& graph, const std::vector<std::size_t>& order) {
  std::vector<Value> values = Inference(graph, order).run();
  for (const auto index : order)
    if (has_unknown(values[index].shape))
      throw ConfigError(
          graph.nodes[index].where,
          fmt::format("the dimensions {} of {} '{}' could not be inferred", to_string(values[index].shape),
                      graph.nodes[index].operation, graph.nodes[index].name),
          "write the dimensions out instead of 0");
  return values;
}

namespace {

// The first place where different axes meet, if nothing else is wrong before it.
std::optional<MixedAxes> find_mixed_axes(const Graph& graph) {
  Graph copy = graph;  // what is inferred here must not fix dims before the network is whole
  std::vector<std::size_t> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  try {
    infer_graph(copy, evaluation_order(copy, all));
  } catch (const MixedAxes& e) {
    return e;
  } catch (const ConfigError&) {
    // Reported when the network is built.
  }
  return std::nullopt;
}

std::string free_name(const Graph& graph, const std::string& wanted) {
  const auto taken = [&](const std::string& name) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.name == name; });
  };
  std::string name = wanted;
  for (int n = 2; taken(name); ++n) name = fmt::format("{}_{}", wanted, n);
  return name;
}

}  // namespace

std::vector<Diagnostic> reconcile_axes(Graph& graph, std::size_t most) {
  std::vector<Diagnostic> warnings;
  std::set<std::string> made;  // axes that operations open bear the names of those
  for (const Node& n : graph.nodes)
    if (makes_axis(n)) made.insert(n.name);
  if (made.empty()) return warnings;
  while (warnings.size() < most) {
    const auto mixed = find_mixed_axes(graph);
    if (!mixed) break;
    if (!made.contains(mixed->first_axis) && !made.contains(mixed->second_axis)) break;
    Node equal;
    equal.operation = "ReconcileDynamicAxis";
    equal.inputs = {mixed->second, mixed->first};
    equal.where = graph.nodes[mixed->node].where;
    equal.name = free_name(graph, graph.nodes[mixed->second].name + ".reconciled");
    auto& inputs = graph.nodes[mixed->node].inputs;
    std::replace(inputs.begin(), inputs.end(), mixed->second, graph.nodes.size());
    graph.nodes.push_back(std::move(equal));
    warnings.push_back({graph.nodes[mixed->node].where, mixed->diagnostics()[0].message,
                        "use ReconcileDynamicAxis (value, layout) to state that their sequences have equal lengths; "
                        "without it the run stops at the first minibatch where they differ"});
  }
  return warnings;
}

std::vector<Diagnostic> find_error_rates_of_zero(const Graph& graph) {
  std::vector<std::size_t> rates;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (graph.nodes[n].operation == "ClassificationError" && number(graph.nodes[n], "topN", 1) > 1) rates.push_back(n);
  if (rates.empty()) return {};
  Graph copy = graph;
  std::vector<Value> values;
  try {
    values = infer_graph(copy, evaluation_order(copy, rates));
  } catch (const ConfigError&) {
    return {};  // reported when the network is built
  }
  std::vector<Diagnostic> warnings;
  for (const std::size_t n : rates) {
    const Node &rate = graph.nodes[n], &scores = graph.nodes[rate.inputs.at(1)];
    const double top = number(rate, "topN", 1);
    const auto classes = static_cast<double>(values[rate.inputs[1]].shape.elements());
    if (top >= classes)
      warnings.push_back(
          {rate.where,
           fmt::format("'{}' is always 0: topN = {}, and '{}' has {} elements", rate.name, top, scores.name, classes),
           "a smaller topN, or remove the node"});
  }
  return warnings;
}

}  // namespace tutti::graph

// SPDX-License-Identifier: Apache-2.0
// Shape inference over a graph: evaluation order, dims of 0 filled in from the users of a parameter, dynamic axes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/shapes.h"
#include "graph/text_matrix.h"

namespace tutti::graph {
namespace {

bool complete(const Shape& s) { return std::find(s.dims.begin(), s.dims.end(), std::size_t{0}) == s.dims.end(); }

void store_dims(Node& node, const Shape& shape) {
  node.attributes["dims"] = std::vector<double>(shape.dims.begin(), shape.dims.end());
}

// Hands a completed shape down to the parameter behind `index`; through operations that only move dims around.
// Whether the parameter changed.
bool complete_operand(Graph& graph, std::vector<Value>& values, std::size_t index, const Shape& shape) {
  Node& node = graph.nodes[index];
  if (node.operation == "LearnableParameter") {
    store_dims(node, shape);
  } else if (node.operation == "Pass") {
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

std::string joint_axis(const Graph& graph, const Node& node, const std::vector<Value>& values) {
  const std::string* axis = nullptr;
  std::size_t from = 0;
  for (const auto i : node.inputs) {
    if (!values[i].per_sample) continue;
    if (axis && *axis != values[i].axis)
      throw ConfigError(
          node.where,
          fmt::format("{} '{}': '{}' and '{}' lie on different dynamic axes ('{}' and '{}')", node.operation, node.name,
                      graph.nodes[from].name, graph.nodes[i].name, *axis, values[i].axis),
          "declare both inputs with the same dynamicAxis");
    axis = &values[i].axis, from = i;
  }
  return axis ? *axis : std::string();
}

void infer_leaf(Node& node, Value& value) {
  value.shape = declared_shape(node);
  value.per_sample = node.operation == "InputValue";
  if (value.per_sample) value.axis = text(node, "dynamicAxis");
  if (value.per_sample && !complete(value.shape))
    throw ConfigError(node.where, fmt::format("InputValue '{}' has a dimension of 0", node.name),
                      "an input needs its dimensions; only those of parameters are inferred");
  const std::string file = text(node, "initFromFilePath");
  if (node.operation == "LearnableParameter" && !file.empty() && !complete(value.shape) && value.shape.rank() <= 2) {
    const TextMatrix matrix = read_text_matrix(file, node);
    value.shape.dims.resize(2, 1);
    if (value.shape.dims[0] == 0) value.shape.dims[0] = matrix.rows;
    if (value.shape.dims[1] == 0) value.shape.dims[1] = matrix.columns;
    store_dims(node, value.shape);
  }
}

}  // namespace

bool is_statistic(const Node& node) { return node.operation == "Mean" || node.operation == "InvStdDev"; }

namespace {

std::vector<std::size_t> ordered(const Graph& graph, const std::vector<std::size_t>& roots, bool through_statistics) {
  enum class Mark { unseen, open, done };
  std::vector<Mark> marks(graph.nodes.size(), Mark::unseen);
  std::vector<std::size_t> order;
  // Depth first with an explicit stack: networks can be thousands of nodes deep.
  std::vector<std::pair<std::size_t, std::size_t>> stack;
  for (const auto root : roots) {
    if (marks[root] == Mark::unseen) stack.emplace_back(root, 0), marks[root] = Mark::open;
    while (!stack.empty()) {
      auto& [index, next] = stack.back();
      const Node& node = graph.nodes[index];
      if (next == node.inputs.size() || (!through_statistics && is_statistic(node))) {
        marks[index] = Mark::done;
        order.push_back(index);
        stack.pop_back();
        continue;
      }
      const std::size_t input = node.inputs[next++];
      if (marks[input] == Mark::open)
        throw ConfigError(node.where,
                          fmt::format("'{}' depends on itself through '{}'", node.name, graph.nodes[input].name),
                          "recurrent networks are not available in this version");
      if (marks[input] == Mark::unseen) stack.emplace_back(input, 0), marks[input] = Mark::open;
    }
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

namespace {

// One walk over the nodes; whether a parameter was completed, so that users before that place saw an older shape.
bool infer_once(Graph& graph, const std::vector<std::size_t>& order, std::vector<Value>& values) {
  bool changed = false;
  for (const auto index : order) {
    Node& node = graph.nodes[index];
    if (node.inputs.empty()) {
      if (find_operation(node.operation)) infer_leaf(node, values[index]);
      if (!find_operation(node.operation) || find_operation(node.operation)->min_inputs > 0) infer_shape(node, {});
      continue;
    }
    std::vector<Shape> shapes;
    std::vector<std::string> names;
    bool sampled = false;
    for (const auto i : node.inputs) {
      shapes.push_back(values[i].shape);
      names.push_back(graph.nodes[i].name);
      sampled = sampled || values[i].per_sample;
    }
    if (find_operation(node.operation))
      for (std::size_t k = 0; k < shapes.size(); ++k) {
        Shape completed = infer_operand(node, k, shapes);
        if (completed == shapes[k]) continue;
        changed = complete_operand(graph, values, node.inputs[k], completed) || changed;
        shapes[k] = completed;
      }
    values[index].shape = infer_shape(node, shapes, names);
    values[index].axis = joint_axis(graph, node, values);
    values[index].per_sample = sampled && keeps_sample_axis(node);
    if (!values[index].per_sample) values[index].axis.clear();
  }
  return changed;
}

}  // namespace

std::vector<Value> infer_graph(Graph& graph, const std::vector<std::size_t>& order) {
  std::vector<Value> values(graph.nodes.size());
  while (infer_once(graph, order, values)) {
  }
  for (const auto index : order)
    if (!complete(values[index].shape))
      throw ConfigError(
          graph.nodes[index].where,
          fmt::format("the dimensions {} of {} '{}' could not be inferred", to_string(values[index].shape),
                      graph.nodes[index].operation, graph.nodes[index].name),
          "write the dimensions out instead of 0");
  return values;
}

}  // namespace tutti::graph

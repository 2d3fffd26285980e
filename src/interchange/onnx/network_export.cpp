// SPDX-License-Identifier: Apache-2.0
#include "interchange/onnx/network_export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "graph/loops.h"
#include "interchange/onnx/loop_export.h"
#include "tutti/error.h"

namespace tutti::interchange {
namespace {

constexpr std::size_t most_refused = 10;

std::string axis_name(const std::string& axis) { return axis.empty() ? "time" : "time of " + axis; }

std::string dimension_text(const Dimension& d) {
  const auto* number = std::get_if<std::int64_t>(&d);
  return number ? fmt::format("{}", *number) : std::get<std::string>(d);
}

std::string value_text(const std::string& name, const std::vector<Dimension>& dims) {
  std::vector<std::string> texts;
  for (const auto& d : dims) texts.push_back(dimension_text(d));
  return fmt::format("{} [{}]", name, fmt::join(texts, ", "));
}

// The result does not depend on the values of this input, and a batch of ONNX has one layout.
bool is_ignored(const graph::Node& node, std::size_t input) {
  return node.operation == "ReconcileDynamicAxis" && input == 1;
}

}  // namespace

NetworkExport::NetworkExport(const graph::Graph& graph, std::vector<graph::Value> values,
                             std::span<const Tensor> tensors, onnx::GraphProto& to)
    : graph_(graph), values_(std::move(values)), tensors_(tensors), to_(to), names_(to), name_(graph.nodes.size()) {
  list_elementwise_translations(translations_);
  list_shape_translations(translations_);
  list_image_translations(translations_);
  list_sequence_translations(translations_);
  list_recurrent_translations(translations_);
  for (const auto& node : graph.nodes) names_.reserve(node.name);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) inputs_.push_back(needed_inputs(n));
}

std::vector<std::size_t> NetworkExport::needed_inputs(std::size_t n) const {
  std::vector<std::size_t> inputs;
  const graph::Node& node = graph_.nodes[n];
  for (std::size_t k = 0; k < node.inputs.size() && !graph::is_statistic(node); ++k)
    if (!is_ignored(node, k)) inputs.push_back(node.inputs[k]);
  return inputs;
}

OnnxSummary NetworkExport::run(const std::vector<std::size_t>& outputs) {
  outputs_ = outputs;
  const auto edges = [&](std::size_t n) { return std::span(std::as_const(inputs_[n])); };
  components_ = graph::strong_components(graph_.nodes.size(), outputs, edges);
  bool sequences = false;
  for (const auto& component : components_)
    for (const std::size_t n : component) {
      const graph::Node& node = graph_.nodes[n];
      sequences = sequences || graph::needs_sequences(node.operation) || graph::is_time_slice(node);
    }
  builder_.emplace(to_, names_, sequences ? 2 : 1);
  OnnxSummary summary;
  for (const auto& component : components_) translate(component);
  if (!refused_.empty()) {
    std::string text = fmt::format("{} nodes have no counterpart in ONNX:", refused_.size());
    for (std::size_t i = 0; i < std::min(refused_.size(), most_refused); ++i) text += "\n  " + refused_[i];
    if (refused_.size() > most_refused) text += fmt::format("\n  and {} more", refused_.size() - most_refused);
    throw Error(text + "\nfix: export the nodes before them (--output NODE)");
  }
  for (const auto& in : to_.input()) summary.inputs.push_back(in.name());
  for (auto& in : summary.inputs) {
    const auto node = std::ranges::find(graph_.nodes, in, &graph::Node::name);
    in = value_text(in, dimensions(static_cast<std::size_t>(node - graph_.nodes.begin())));
  }
  for (const std::size_t n : outputs) {
    const std::string& name = graph_.nodes[n].name;
    builder_->begin_node(name);
    if (name_[n] != name) builder_->op("Identity", {name_[n]}, std::vector{name}, {});
    describe_value(*to_.add_output(), name, dimensions(n));
    summary.outputs.push_back(value_text(name, dimensions(n)));
  }
  remove_unused(to_);
  return summary;
}

std::vector<Dimension> NetworkExport::dimensions(std::size_t n) const {
  std::vector<Dimension> dims;
  const graph::Value& value = values_[n];
  if (value.per_sample && builder_->batch_axes() == 2) dims.emplace_back(axis_name(value.axis));
  if (value.per_sample) dims.emplace_back(std::string("batch"));
  for (const std::int64_t d : onnx_dims(value.shape)) dims.emplace_back(d);
  return dims;
}

OnnxOperand NetworkExport::operand(std::size_t n, const std::string& name) const {
  return {name, values_[n].shape, values_[n].per_sample, values_[n].axis};
}

void NetworkExport::translate(const std::vector<std::size_t>& component) {
  try {
    if (graph::is_cycle(component, inputs_[component[0]]))
      translate_loop(component);
    else
      translate_node(component[0]);
  } catch (const NotInOnnx& e) {
    refused_.push_back(e.message);
    for (const std::size_t n : component) name_[n] = graph_.nodes[n].name;
  }
}

const Tensor* NetworkExport::parameter(std::size_t n) const {
  if (!inputs_[n].empty()) return nullptr;
  const auto tensor = std::ranges::lower_bound(tensors_, graph_.nodes[n].name, {}, &Tensor::name);
  return tensor != tensors_.end() && tensor->name == graph_.nodes[n].name ? &*tensor : nullptr;
}

void NetworkExport::add_leaf(std::size_t n) {
  const graph::Node& node = graph_.nodes[n];
  name_[n] = node.name;
  if (node.operation == "InputValue") return describe_value(*to_.add_input(), node.name, dimensions(n));
  const Tensor* tensor = parameter(n);
  if (!tensor) throw Error(fmt::format("the model has no values of '{}'", node.name));
  names_.parameter(node.name, onnx_dims(values_[n].shape), tensor->values);
}

std::vector<std::string> NetworkExport::names_of_inputs(std::size_t n) const {
  std::vector<std::string> names;
  for (const std::size_t in : inputs_[n]) names.push_back(name_[in]);
  return names;
}

// Translates the node into the graph of the builder; `names` are those of its inputs there.
std::string NetworkExport::result_of(std::size_t n, OnnxBuilder& builder, const std::vector<std::string>& names) {
  const graph::Node& node = graph_.nodes[n];
  const auto translation = translations_.find(node.operation);
  if (translation == translations_.end())
    throw NotInOnnx{fmt::format("'{}' ({}){}", node.name, node.operation,
                                graph::sums_over_samples(node) ? ": a criterion, or a sum over all samples" : "")};
  std::vector<OnnxOperand> in;
  for (std::size_t k = 0; k < names.size(); ++k) in.push_back(operand(inputs_[n][k], names[k]));
  NodeExport one(builder, *this, node, values_[n], std::move(in));
  return translation->second(one);
}

void NetworkExport::translate_node(std::size_t n) {
  const graph::Node& node = graph_.nodes[n];
  if (inputs_[n].empty()) return add_leaf(n);
  builder_->begin_node(node.name);
  const std::string result = result_of(n, *builder_, names_of_inputs(n));
  // Operations that do nothing pass the name on.
  const auto in = names_of_inputs(n);
  name_[n] =
      std::ranges::find(in, result) != in.end() || result == node.name ? result : builder_->named(result, node.name);
}

void NetworkExport::translate_loop(const std::vector<std::size_t>& members) { LoopExport(*this, members).run(); }

bool NetworkExport::used_outside(std::size_t node, const std::set<std::size_t>& loop) const {
  if (std::ranges::find(outputs_, node) != outputs_.end()) return true;
  for (const auto& component : components_)
    for (const std::size_t user : component)
      if (!loop.contains(user) && std::ranges::find(inputs_[user], node) != inputs_[user].end()) return true;
  return false;
}

}  // namespace tutti::interchange

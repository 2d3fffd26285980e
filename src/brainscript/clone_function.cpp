// SPDX-License-Identifier: Apache-2.0
// BS.Network.CloneFunction: the part of a network between some nodes as a function that can be applied to others.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "brainscript/evaluator.h"

namespace tutti::brainscript {
namespace {

enum class Parameters { learnable, constant, shared };

struct Part {
  std::vector<std::size_t> inputs;
  Value outputs;                                  // a node, an array or a record of nodes
  std::vector<std::size_t> inside;                // what is copied for each application, in the order of the network
  std::map<std::size_t, std::size_t> parameters;  // the part's own ones, made once
  Parameters mode = Parameters::learnable;
};

std::vector<std::size_t> nodes_of(const Call& c, const Value& v, const char* what) {
  std::vector<Value> values;
  if (auto* r = std::get_if<Record*>(&v))
    for (const auto& [name, t] : (*r)->members) values.push_back(c.ev.force(t, &c.site, c.scope));
  else
    values = c.elements(v);
  std::vector<std::size_t> all;
  for (const auto& e : values) {
    if (!std::holds_alternative<NodeRef>(e))
      c.fail(fmt::format("{} must be nodes, not {}", what, c.ev.describe(e)),
             "BS.Network.CloneFunction (net.features, net.z, parameters='constant')");
    all.push_back(std::get<NodeRef>(e).index);
  }
  return all;
}

// Frozen layers behave in training as they do afterwards: batch normalisation uses its running statistics.
void freeze(graph::Node& node) {
  if (node.operation != "BatchNormalization") return;
  node.attributes["normalizationTimeConstant"] = std::numeric_limits<double>::infinity();
  node.attributes["blendTimeConstant"] = std::numeric_limits<double>::infinity();
}

void find_inside(const Call& c, Part& part) {
  const auto& all = c.ev.nodes().graph.nodes;
  std::vector<bool> seen(all.size(), false);
  std::vector<std::size_t> open;
  const auto visit = [&](std::size_t n) {
    if (seen[n] || std::find(part.inputs.begin(), part.inputs.end(), n) != part.inputs.end()) return;
    seen[n] = true;
    open.push_back(n);
  };
  for (const auto n : nodes_of(c, part.outputs, "the outputs")) visit(n);
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    if (all[n].operation == "InputValue")
      c.fail(fmt::format("the outputs depend on '{}', which is not one of the inputs", all[n].name),
             "name every input that the part reads");
    if (all[n].operation == "LearnableParameter")
      part.parameters[n] = n;
    else
      part.inside.push_back(n);
    for (const auto in : all[n].inputs) visit(in);
  }
  std::sort(part.inside.begin(), part.inside.end());
}

// A copy of the node, under a name of this call.
graph::Node copied(const Call& c, std::size_t original) {
  graph::Node node = c.ev.nodes().graph.nodes[original];
  node.name = c.ev.heap().path(c.path, node.name)->str();
  node.where = Evaluator::place(c.site, c.scope);
  return node;
}

void copy_parameters(const Call& c, Part& part) {
  if (part.mode == Parameters::shared) return;
  for (auto& [original, copy] : part.parameters) {
    graph::Node node = copied(c, original);
    if (part.mode == Parameters::constant) node.attributes["learningRateMultiplier"] = 0.0;
    copy = c.ev.nodes().add(std::move(node)).index;
  }
}

Value mapped(const Call& c, const Value& outputs, const std::map<std::size_t, std::size_t>& copies) {
  Heap& heap = c.ev.heap();
  const auto ready = [&](Thunk* t) {
    return heap.ready(NodeRef{copies.at(std::get<NodeRef>(c.ev.force(t, &c.site, c.scope)).index)}, t->name);
  };
  if (auto* a = std::get_if<Array*>(&outputs)) {
    Array* results = heap.array();
    results->first = (*a)->first;
    for (Thunk* t : (*a)->elements) results->elements.push_back(ready(t));
    return results;
  }
  if (auto* r = std::get_if<Record*>(&outputs)) {
    Record* results = heap.record();
    for (const auto& [name, t] : (*r)->members) results->add(name, ready(t));
    results->build_index();
    return results;
  }
  return NodeRef{copies.at(std::get<NodeRef>(outputs).index)};
}

Value apply_clone(const Call& c, const Part& part) {
  std::map<std::size_t, std::size_t> copies = part.parameters;
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    const Path* path = c.ev.heap().path(c.path, "input");
    copies[part.inputs[i]] = c.ev.as_node(c[i], fmt::format("input {}", i + 1), c.site, c.scope, path).index;
  }
  const auto* only = std::get_if<NodeRef>(&part.outputs);
  for (const auto n : part.inside) {
    graph::Node node = copied(c, n);
    node.inputs.clear();
    if (only && only->index == n) node.name = c.path->str();
    if (part.mode == Parameters::constant) freeze(node);
    copies[n] = c.ev.nodes().add(std::move(node)).index;
  }
  // In a second pass, because recurrent nodes refer to later ones.
  auto& nodes = c.ev.nodes().graph.nodes;
  for (const auto n : part.inside)
    for (const auto in : nodes[n].inputs) nodes[copies.at(n)].inputs.push_back(copies.at(in));
  return mapped(c, part.outputs, copies);
}

}  // namespace

Value clone_function(const Call& c) {
  static const std::map<std::string, Parameters> modes = {
      {"learnable", Parameters::learnable}, {"constant", Parameters::constant}, {"shared", Parameters::shared}};
  auto part = std::make_shared<Part>();
  const auto found = modes.find(c.text(2));
  if (found == modes.end()) c.fail(fmt::format("parameters='{}' is none of learnable, constant, shared", c.text(2)));
  part->mode = found->second;
  part->inputs = nodes_of(c, c[0], "the inputs");
  part->outputs = c[1];
  find_inside(c, *part);
  copy_parameters(c, *part);
  Native native;
  native.name = "cloned function";
  for (const auto n : part->inputs) native.params.push_back({c.ev.nodes().graph.nodes[n].name, {}});
  native.run = [part](const Call& call) { return apply_clone(call, *part); };
  const Native* made = c.ev.heap().native(std::move(native));
  return c.ev.heap().function({nullptr, nullptr, made, made->name});
}

}  // namespace tutti::brainscript

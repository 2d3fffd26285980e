// SPDX-License-Identifier: Apache-2.0
// BS.Network.CloneFunction: the part of a network between some nodes as a function that can be applied to others.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "brainscript/loaded_network.h"
#include "graph/shapes.h"

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

std::vector<Value> elements(Evaluator& ev, const Call& c, const Value& v) {
  if (auto* r = std::get_if<Record*>(&v)) {
    std::vector<Value> all;
    for (const auto& [name, t] : (*r)->members) all.push_back(ev.force(t, c.site, c.scope));
    return all;
  }
  auto* a = std::get_if<Array*>(&v);
  if (!a) return {v};
  std::vector<Value> all;
  for (Thunk* t : (*a)->elements) all.push_back(ev.force(t, c.site, c.scope));
  return all;
}

std::vector<std::size_t> nodes_of(Evaluator& ev, const Call& c, const Value& v, const char* what) {
  std::vector<std::size_t> all;
  for (const auto& e : elements(ev, c, v)) {
    if (!std::holds_alternative<NodeRef>(e))
      Evaluator::fail(*c.site, c.scope, fmt::format("{} must be nodes, not {}", what, ev.describe(e)),
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

void find_inside(Evaluator& ev, const Call& c, Part& part) {
  const auto& all = ev.nodes().graph.nodes;
  std::vector<bool> seen(all.size(), false);
  std::vector<std::size_t> open;
  const auto visit = [&](std::size_t n) {
    if (seen[n] || std::find(part.inputs.begin(), part.inputs.end(), n) != part.inputs.end()) return;
    seen[n] = true;
    open.push_back(n);
  };
  for (const auto n : nodes_of(ev, c, part.outputs, "the outputs")) visit(n);
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    if (all[n].operation == "InputValue")
      Evaluator::fail(*c.site, c.scope,
                      fmt::format("the outputs depend on '{}', which is not one of the inputs", all[n].name),
                      "name every input that the part reads");
    if (all[n].operation == "LearnableParameter")
      part.parameters[n] = n;
    else
      part.inside.push_back(n);
    for (const auto in : all[n].inputs) visit(in);
  }
  std::sort(part.inside.begin(), part.inside.end());
}

void copy_parameters(Evaluator& ev, const Call& c, Part& part) {
  if (part.mode == Parameters::shared) return;
  for (auto& [original, copy] : part.parameters) {
    graph::Node node = ev.nodes().graph.nodes[original];
    node.name = ev.heap().path(c.path, node.name)->str();
    node.where = Evaluator::place(*c.site, c.scope);
    if (part.mode == Parameters::constant) node.attributes["learningRateMultiplier"] = 0.0;
    copy = ev.nodes().add(std::move(node)).index;
  }
}

Value mapped(Evaluator& ev, const Call& c, const Value& outputs, const std::map<std::size_t, std::size_t>& copies) {
  const auto one = [&](const Value& v) { return NodeRef{copies.at(std::get<NodeRef>(v).index)}; };
  if (auto* a = std::get_if<Array*>(&outputs)) {
    Array* results = ev.heap().array();
    results->first = (*a)->first;
    for (Thunk* t : (*a)->elements) results->elements.push_back(ev.heap().ready(one(ev.force(t, c.site, c.scope))));
    return results;
  }
  if (auto* r = std::get_if<Record*>(&outputs)) {
    Record* results = ev.heap().record();
    for (const auto& [name, t] : (*r)->members)
      results->add(name, ev.heap().ready(one(ev.force(t, c.site, c.scope)), name));
    results->build_index();
    return results;
  }
  return one(outputs);
}

Value apply_clone(Evaluator& ev, const Call& c, const Part& part) {
  std::map<std::size_t, std::size_t> copies = part.parameters;
  for (std::size_t i = 0; i < part.inputs.size(); ++i)
    copies[part.inputs[i]] = ev.as_node(ev.force(c.args[i], c.site, c.scope), fmt::format("input {}", i + 1), *c.site,
                                        c.scope, ev.heap().path(c.path, "input"))
                                 .index;
  const auto* only = std::get_if<NodeRef>(&part.outputs);
  for (const auto n : part.inside) {
    graph::Node node = ev.nodes().graph.nodes[n];
    node.inputs.clear();
    node.name = only && only->index == n ? c.path->str() : ev.heap().path(c.path, node.name)->str();
    node.where = Evaluator::place(*c.site, c.scope);
    if (part.mode == Parameters::constant) freeze(node);
    copies[n] = ev.nodes().add(std::move(node)).index;
  }
  // In a second pass, because recurrent nodes refer to later ones.
  for (const auto n : part.inside) {
    std::vector<std::size_t> inputs = ev.nodes().graph.nodes[n].inputs;
    for (auto& in : inputs) in = copies.at(in);
    ev.nodes().graph.nodes[copies.at(n)].inputs = std::move(inputs);
  }
  return mapped(ev, c, part.outputs, copies);
}

}  // namespace

Value clone_function(Evaluator& ev, const Call& c) {
  static const std::map<std::string, Parameters> modes = {
      {"learnable", Parameters::learnable}, {"constant", Parameters::constant}, {"shared", Parameters::shared}};
  auto part = std::make_shared<Part>();
  const std::string mode = ev.text(ev.force(c.args[2], c.site, c.scope), "'parameters'", *c.site, c.scope);
  const auto found = modes.find(mode);
  if (found == modes.end())
    Evaluator::fail(*c.site, c.scope, fmt::format("parameters='{}' is none of learnable, constant, shared", mode));
  part->mode = found->second;
  part->inputs = nodes_of(ev, c, ev.force(c.args[0], c.site, c.scope), "the inputs");
  part->outputs = ev.force(c.args[1], c.site, c.scope);
  find_inside(ev, c, *part);
  copy_parameters(ev, c, *part);
  Native native;
  native.name = "cloned function";
  for (const auto n : part->inputs) native.params.push_back({ev.nodes().graph.nodes[n].name, {}});
  native.run = [part](Evaluator& evaluator, const Call& call) { return apply_clone(evaluator, call, *part); };
  Function f;
  f.native = ev.heap().native(std::move(native));
  f.name = f.native->name;
  return ev.heap().function(std::move(f));
}

}  // namespace tutti::brainscript

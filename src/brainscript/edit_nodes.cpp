// SPDX-License-Identifier: Apache-2.0
// Editing commands on nodes: copies, links, properties, names, values.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "brainscript/edit_commands.h"
#include "brainscript/node_names.h"
#include "graph/text_matrix.h"

namespace tutti::brainscript::mel {
namespace {

using ndl::lower;

bool is_parameter(const graph::Node& n) { return n.operation == "LearnableParameter"; }

double number_of(const Argument& a) {
  double value = 0;
  const auto [end, error] = std::from_chars(a.text.data(), a.text.data() + a.text.size(), value);
  if (error != std::errc() || end != a.text.data() + a.text.size())
    fail(a.where, fmt::format("'{}' is not a number", a.text));
  return value;
}

double elements_of(const graph::Node& n) {
  double product = 1;
  for (const double d : graph::numbers(n, "dims")) product *= d;
  return product;
}

// The initial values of the node, and nothing else.
void copy_value(const graph::Node& from, graph::Node& to, const Span& where) {
  const bool holds = is_parameter(from) || from.start;
  if (!holds) return;
  if (from.operation != to.operation || elements_of(from) != elements_of(to))
    fail(where, fmt::format("'{}' cannot take the values of '{}'", to.name, from.name),
         "copy=value needs the same operation and as many values");
  if (is_parameter(to)) {
    const std::vector<std::string> own = {"dims", "learningRateMultiplier"};
    auto attributes = from.attributes;
    for (const auto& key : own) {
      attributes.erase(key);
      if (const auto kept = to.attributes.find(key); kept != to.attributes.end()) attributes.insert(*kept);
    }
    to.attributes = std::move(attributes);
  } else if (const auto done = from.attributes.find("precomputed"); done != from.attributes.end()) {
    to.attributes[done->first] = done->second;
  }
  to.start = from.start;
}

enum class CopyMode { all, value };
CopyMode copy_mode(const Statement& s) {
  const Argument* mode = option(s, "copy");
  if (!mode) mode = option(s, "copyFlag");
  if (!mode || lower(mode->text) == "all") return CopyMode::all;
  if (lower(mode->text) == "value") return CopyMode::value;
  fail(mode->where, fmt::format("there is no copy={}", mode->text), "copy=all or copy=value");
}

// Overwrites nodes that exist: their values, and with CopyMode::all also links between nodes that are copied together.
void copy(Model& from, Model& to, const std::vector<Pair>& pairs, CopyMode mode, const Span& where) {
  std::map<std::size_t, std::size_t> copies;
  std::vector<std::pair<graph::Node, std::size_t>> done;
  for (const auto& p : pairs) {
    const graph::Node source = from.graph().nodes[p.node];
    auto at = find_node(to.graph(), p.name);
    if (&from == &to && at == p.node) fail(where, fmt::format("'{}' would be copied onto itself", p.name));
    if (!at && mode == CopyMode::value)
      fail(where, fmt::format("the model '{}' has no node '{}' to copy values to", to.name, p.name),
           "copy=all makes new nodes");
    if (!at) {
      at = to.graph().nodes.size();
      to.graph().nodes.push_back(source);
      to.graph().nodes[*at].name = p.name;
      to.graph().nodes[*at].inputs.assign(source.inputs.size(), no_input);
    }
    graph::Node& target = to.graph().nodes[*at];
    if (mode == CopyMode::value) {
      copy_value(source, target, where);
      continue;
    }
    target.operation = source.operation;
    target.attributes = source.attributes;
    target.start = source.start;
    target.where = where.pos();
    target.inputs.resize(source.inputs.size(), no_input);
    copies[p.node] = *at;
    done.emplace_back(source, *at);
  }
  for (const auto& [source, at] : done)
    for (std::size_t i = 0; i < source.inputs.size(); ++i)
      if (const auto found = copies.find(source.inputs[i]); found != copies.end())
        to.graph().nodes[at].inputs[i] = found->second;
}

std::vector<std::size_t> sub_tree(const graph::Graph& g, std::vector<std::size_t> open) {
  std::set<std::size_t> seen(open.begin(), open.end());
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    for (const auto in : g.nodes[n].inputs)
      if (in != no_input && seen.insert(in).second) open.push_back(in);
  }
  return {seen.begin(), seen.end()};
}

using Set = std::vector<std::size_t> graph::Graph::*;
const std::map<std::string, Set>& set_properties() {
  static const std::map<std::string, Set> all = {
      {"feature", &graph::Graph::features},        {"label", &graph::Graph::labels},
      {"finalcriterion", &graph::Graph::criteria}, {"criteria", &graph::Graph::criteria},
      {"criterion", &graph::Graph::criteria},      {"evaluation", &graph::Graph::evaluations},
      {"eval", &graph::Graph::evaluations},        {"output", &graph::Graph::outputs}};
  return all;
}

// The multiplier that learningRateMultiplier=x or needGradient=flag means, or nothing for other properties.
std::optional<double> multiplier(const Argument& property, const Argument& value) {
  const std::string name = lower(property.text);
  if (name == "learningratemultiplier") {
    const double m = number_of(value);
    if (m < 0) fail(value.where, "a learning rate multiplier must not be negative", "0 freezes the parameter");
    return m;
  }
  if (name == "needgradient" || name == "needsgradient" || name == "computegradient") return truth_of(value) ? 1 : 0;
  return std::nullopt;
}

void set_multiplier(const Editor& ed, Model& model, const std::vector<std::size_t>& nodes, double m,
                    const Statement& s) {
  bool any = false;
  for (const auto n : nodes)
    if (auto& node = model.graph().nodes[n]; is_parameter(node)) {
      node.attributes["learningRateMultiplier"] = m;
      any = true;
    }
  if (!any) ed.notice(s.where, "no parameter is among these nodes: nothing changes", "L1.* includes those of L1");
}

[[noreturn]] void no_property(const Argument& property, const std::string& known) {
  fail(property.where, fmt::format("there is no property '{}'", property.text), "there are: " + known);
}

// The statistics do not change, in training either.
void freeze_statistics(graph::Node& node, const Argument& node_text, const Argument& value) {
  if (node.operation != "BatchNormalization")
    fail(node_text.where, fmt::format("'{}' ({}) has no statistics to freeze", node.name, node.operation),
         "name BatchNormalization nodes");
  if (!truth_of(value))
    fail(value.where, "frozen statistics are thawed in training",
         "batchNormalizationTimeConstant in the SGD block sets how they are averaged");
  node.attributes["normalizationTimeConstant"] = std::numeric_limits<double>::infinity();
  node.attributes["blendTimeConstant"] = std::numeric_limits<double>::infinity();
}

}  // namespace

void copy_nodes(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  const Selection from = ed.models.select(args[0]);
  Model* to = nullptr;
  const auto pairs = ed.models.pairs(from, args[0], args[1], to);
  copy(*from.model, *to, pairs, copy_mode(s), s.where);
}

void copy_sub_tree(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  const Selection from = ed.models.select(args[0]);
  Model& to = ed.models.model(args[1].text, args[1].where);
  std::vector<Pair> pairs;
  for (const auto n : sub_tree(from.model->graph(), from.nodes))
    pairs.push_back({n, args[2].text + from.model->graph().nodes[n].name});
  copy(*from.model, to, pairs, copy_mode(s), s.where);
}

// The pairs of a command whose two arguments name nodes of one model; `model` is set to it. `otherwise`: the error
// when they name two.
std::vector<Pair> pairs_within(Editor& ed, const Statement& s, std::string_view otherwise, Model*& model) {
  const auto args = positional(s);
  const Selection from = ed.models.select(args[0]);
  auto pairs = ed.models.pairs(from, args[0], args[1], model);
  if (model != from.model) fail(s.where, std::string(otherwise), "Copy brings nodes to another model");
  return pairs;
}

void copy_inputs(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  Model* to = nullptr;
  for (const auto& p : pairs_within(ed, s, "inputs are copied within one model", to)) {
    const auto at = find_node(to->graph(), p.name);
    if (!at) fail(args[1].where, fmt::format("the model '{}' has no node '{}'", to->name, p.name));
    to->graph().nodes[*at].inputs = to->graph().nodes[p.node].inputs;
  }
}

void set_input(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  const Selection nodes = ed.models.select(args[0]);
  const std::size_t input = ed.models.one(args[2], *nodes.model);
  const double number = number_of(args[1]);
  for (const auto n : nodes.nodes) {
    auto& node = nodes.model->graph().nodes[n];
    const auto index = static_cast<std::size_t>(number);
    if (number < 0 || static_cast<double>(index) != number || index >= node.inputs.size())
      fail(args[1].where, fmt::format("'{}' ({}) has no input {}", node.name, node.operation, args[1].text),
           fmt::format("its inputs count from 0, and there {} {}", node.inputs.size() == 1 ? "is" : "are",
                       node.inputs.size()));
    node.inputs[index] = input;
  }
}

void set_inputs(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  const Selection nodes = ed.models.select(args[0]);
  if (nodes.nodes.size() != 1) fail(args[0].where, fmt::format("'{}' stands for several nodes", args[0].text));
  std::vector<std::size_t> inputs;
  for (std::size_t i = 1; i < args.size(); ++i) inputs.push_back(ed.models.one(args[i], *nodes.model));
  auto& node = nodes.model->graph().nodes[nodes.nodes[0]];
  if (const auto* known = graph::find_operation(node.operation)) {
    const auto least = static_cast<std::size_t>(known->min_inputs);
    if (inputs.size() < least ||
        (known->max_inputs >= 0 && inputs.size() > static_cast<std::size_t>(known->max_inputs)))
      fail(s.where, fmt::format("'{}' ({}) does not take {} inputs", node.name, node.operation, inputs.size()));
  }
  node.inputs = std::move(inputs);
}

void set_property(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  const Selection nodes = ed.models.select(args[0]);
  graph::Graph& g = nodes.model->graph();
  if (const auto m = multiplier(args[1], args[2])) return set_multiplier(ed, *nodes.model, nodes.nodes, *m, s);
  const std::string name = lower(args[1].text);
  if (name == "recurrent") return ed.notice(s.where, "the property 'recurrent' has no effect: loops are found");
  if (name == "freezeparameters" || name == "batchnormevalmode") {
    for (const auto n : nodes.nodes) freeze_statistics(g.nodes[n], args[0], args[2]);
    return;
  }
  const auto set = set_properties().find(name);
  if (set == set_properties().end())
    no_property(
        args[1],
        "learningRateMultiplier, needGradient, feature, label, criterion, evaluation, output, freezeParameters");
  const bool member = truth_of(args[2]);
  auto& members = g.*set->second;
  for (const auto n : nodes.nodes) {
    const bool is = std::find(members.begin(), members.end(), n) != members.end();
    if (member && !is) members.push_back(n);
    if (!member) std::erase(members, n);
  }
}

void set_property_for_sub_tree(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  const Selection roots = ed.models.select(args[0]);
  const auto m = multiplier(args[1], args[2]);
  if (!m) no_property(args[1], "learningRateMultiplier, needGradient");
  set_multiplier(ed, *roots.model, sub_tree(roots.model->graph(), roots.nodes), *m, s);
}

void delete_nodes(Editor& ed, const Statement& s) {
  for (const auto& a : positional(s)) {
    const Selection found = ed.models.select(a);
    for (const auto n : found.nodes) found.model->remove(n);
  }
}

void rename_nodes(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  Model* to = nullptr;
  for (const auto& p : pairs_within(ed, s, "a node keeps its model", to)) {
    const auto other = find_node(to->graph(), p.name);
    if (other && *other != p.node) fail(args[1].where, fmt::format("the model has a node '{}' already", p.name));
    to->graph().nodes[p.node].name = p.name;
  }
}

void revise_parameter(Editor& ed, const Statement& s) {
  const auto args = positional(s);
  const Selection found = ed.models.select(args[0]);
  for (const auto n : found.nodes) {
    graph::Node& node = found.model->graph().nodes[n];
    if (!is_parameter(node)) {
      ed.notice(s.where, fmt::format("'{}' ({}) is not a parameter, so the command does not change it", node.name,
                                     node.operation));
      continue;
    }
    node.where = s.where.pos();
    const graph::TextMatrix matrix = graph::read_text_matrix(args[1].text, node);
    const auto dims = graph::numbers(node, "dims");
    if (static_cast<double>(matrix.values.size()) != elements_of(node) ||
        (!dims.empty() && static_cast<double>(matrix.rows) != dims[0]))
      fail(args[1].where,
           fmt::format("'{}' holds {} rows of {} numbers, '{}' is [{}]", args[1].text, matrix.rows, matrix.columns,
                       node.name, fmt::join(dims, " x ")),
           "one row of the matrix per line");
    node.start = std::make_shared<std::vector<float>>(matrix.values);
  }
}

}  // namespace tutti::brainscript::mel

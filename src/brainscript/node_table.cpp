// SPDX-License-Identifier: Apache-2.0
// The nodes of a network under construction: unique names, constants, nodes of loaded models.
#include <fmt/format.h>

#include "brainscript/evaluator.h"
#include "brainscript/node_sets.h"

namespace tutti::brainscript {

NodeRef NodeTable::add(graph::Node node) {
  if (node.name.empty()) node.name = "_";
  wanted_.push_back(node.name);
  int& last = names_[node.name];
  if (last++ > 0) {
    // Two expressions can have the same path (a function's body and its argument); the later one gets a number.
    const std::string wanted = node.name;
    do node.name = fmt::format("{}_{}", wanted, last++);
    while (names_.contains(node.name));
    names_[wanted] = last - 1;
    names_[node.name] = 1;
  }
  graph.nodes.push_back(std::move(node));
  return {graph.nodes.size() - 1};
}

void NodeTable::rename(NodeRef ref, const std::string& name) {
  const std::string old = graph.nodes[ref.index].name;
  for (auto& node : graph.nodes)
    if (node.name == name) node.name = old;
  graph.nodes[ref.index].name = name;
}

NodeRef NodeTable::constant(double value, const std::string& name, const SourcePos& where) {
  graph::Node node;
  node.operation = "LearnableParameter";
  node.name = name;
  node.where = where;
  node.attributes = {
      {"dims", std::vector<double>{1}}, {"init", "fixedValue"}, {"value", value}, {"learningRateMultiplier", 0.0}};
  return add(std::move(node));
}

NodeRef NodeTable::add_loaded(graph::Node node) {
  const NodeRef made = add(std::move(node));
  loaded_.insert(made.index);
  return made;
}

void NodeTable::drop_unused() {
  if (loaded_.empty()) return;
  std::vector<std::size_t> kept;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (keep_loaded || !loaded_.contains(n)) kept.push_back(n);
  for (const auto* set : {&graph.criteria, &graph.evaluations, &graph.outputs})
    kept.insert(kept.end(), set->begin(), set->end());
  const auto moves = select_nodes(graph, kept);
  // A node with a numbered name, because a loaded node had its name, gets the name once that is free.
  std::set<std::string> taken;
  for (const auto& node : graph.nodes) taken.insert(node.name);
  for (const auto n : moves) {
    graph::Node& node = graph.nodes[n.after];
    if (node.name.starts_with(wanted_[n.before] + "_") && taken.insert(wanted_[n.before]).second) {
      taken.erase(node.name);
      node.name = wanted_[n.before];
    }
  }
}

}  // namespace tutti::brainscript

// SPDX-License-Identifier: Apache-2.0
// node_sets.h -- the special sets of a graph and their names in all languages; nodes by name; parts of a graph.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/graph.h"

namespace tutti::brainscript {

using NodeSet = std::vector<std::size_t> graph::Graph::*;
constexpr std::array<NodeSet, 5> node_sets = {&graph::Graph::criteria, &graph::Graph::evaluations,
                                              &graph::Graph::features, &graph::Graph::labels, &graph::Graph::outputs};
// What BrainScript calls them, in the same order.
constexpr std::array<std::string_view, 5> set_members = {"criterionNodes", "evaluationNodes", "featureNodes",
                                                         "labelNodes", "outputNodes"};
std::string_view member_of(NodeSet);

// The set that a tag means: feature, label, criterion = criteria, evaluation = eval or output; null for other words.
NodeSet set_of_word(std::string_view);
std::vector<std::string> set_words();
// The set that such a word with "Nodes" behind it means; "nodes" will do, too.
NodeSet set_of_member(std::string_view name);

// The node of that name, else one whose name differs in upper and lower case only, else OutputNodes.z: the output node
// that is called z or x.z. (The original gives nodes of a macro such names when the result is assigned to a set.)
std::optional<std::size_t> find_node(const graph::Graph&, const std::string& name);

// These nodes and all they need, in the order of the graph. Inputs that are not set may be out of range.
std::vector<std::size_t> with_inputs(const graph::Graph&, std::vector<std::size_t> nodes);

// Removes all nodes but these and whatever they need, and brings the rest into the order that model files
// and networks expect: inputs before users, except input 0 of a delay. Used where a graph was edited. Returns the index
// of each remaining node before and after, in the new order.
struct NodeMove {
  std::size_t before = 0, after = 0;
};
std::vector<NodeMove> select_nodes(graph::Graph&, const std::vector<std::size_t>& kept);

}  // namespace tutti::brainscript

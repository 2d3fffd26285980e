// SPDX-License-Identifier: Apache-2.0
// node_order.h -- selects nodes of a graph and brings them into the order that model files and networks expect: inputs
// before users, except input 0 of a delay. Used where a graph was edited.
#pragma once

#include <array>
#include <vector>

#include "tutti/graph.h"

namespace tutti::brainscript {

constexpr std::array<std::vector<std::size_t> graph::Graph::*, 5> node_sets = {
    &graph::Graph::criteria, &graph::Graph::evaluations, &graph::Graph::features, &graph::Graph::labels,
    &graph::Graph::outputs};

// Removes all nodes but those with kept[n] and whatever they need, and sorts the rest. Returns the index of each
// remaining node before and after, in the new order.
struct NodeMove {
  std::size_t before = 0, after = 0;
};
std::vector<NodeMove> select_nodes(graph::Graph&, const std::vector<bool>& kept);

}  // namespace tutti::brainscript

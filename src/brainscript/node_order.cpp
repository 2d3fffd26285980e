// SPDX-License-Identifier: Apache-2.0
#include "brainscript/node_order.h"

#include <algorithm>

#include "graph/loops.h"

namespace tutti::brainscript {
namespace {

// A depth-first walk with its own stack; graphs may be deeper than the machine's.
std::vector<std::size_t> inputs_first(const graph::Graph& graph, const std::vector<bool>& kept) {
  std::vector<std::size_t> roots, order;
  for (std::size_t n = 0; n < kept.size(); ++n)
    if (kept[n]) roots.push_back(n);
  std::vector<bool> seen(kept.size(), false);
  std::vector<std::pair<std::size_t, std::size_t>> stack;  // a node, its next input
  for (const auto root : roots) {
    if (!seen[root]) stack.emplace_back(root, 0), seen[root] = true;
    while (!stack.empty()) {
      auto& [n, next] = stack.back();
      if (next == graph.nodes[n].inputs.size()) {
        order.push_back(n);
        stack.pop_back();
        continue;
      }
      const bool may_follow = next == 0 && graph::is_delay(graph.nodes[n].operation);
      const std::size_t in = graph.nodes[n].inputs[next++];
      if (!seen[in] && !may_follow) seen[in] = true, stack.emplace_back(in, 0);
    }
  }
  return order;
}

void keep_inputs(const graph::Graph& graph, std::vector<bool>& kept) {
  std::vector<std::size_t> open;
  for (std::size_t n = 0; n < kept.size(); ++n)
    if (kept[n]) open.push_back(n);
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    for (const auto in : graph.nodes[n].inputs)
      if (!kept[in]) kept[in] = true, open.push_back(in);
  }
}

}  // namespace

std::vector<NodeMove> select_nodes(graph::Graph& graph, const std::vector<bool>& wanted) {
  std::vector<bool> kept = wanted;
  keep_inputs(graph, kept);
  std::vector<NodeMove> moves;
  std::vector<std::size_t> index_of(kept.size());
  std::vector<graph::Node> nodes;
  for (const auto n : inputs_first(graph, kept)) {
    index_of[n] = nodes.size();
    moves.push_back({n, nodes.size()});
    nodes.push_back(std::move(graph.nodes[n]));
  }
  for (auto& node : nodes)
    for (auto& in : node.inputs) in = index_of[in];
  for (const auto set : node_sets) {
    std::erase_if(graph.*set, [&](std::size_t n) { return !kept[n]; });
    for (auto& n : graph.*set) n = index_of[n];
  }
  graph.nodes = std::move(nodes);
  return moves;
}

}  // namespace tutti::brainscript

// SPDX-License-Identifier: Apache-2.0
#include "brainscript/node_sets.h"

#include <algorithm>

#include "config/text.h"
#include "graph/loops.h"

namespace tutti::brainscript {
namespace {

using config::to_lower;

struct Word {
  std::string_view word;
  NodeSet set;
};
constexpr std::array<Word, 7> words = {{{"criteria", &graph::Graph::criteria},
                                        {"criterion", &graph::Graph::criteria},
                                        {"eval", &graph::Graph::evaluations},
                                        {"evaluation", &graph::Graph::evaluations},
                                        {"feature", &graph::Graph::features},
                                        {"label", &graph::Graph::labels},
                                        {"output", &graph::Graph::outputs}}};

// A depth-first walk with its own stack; graphs may be deeper than the machine's.
std::vector<std::size_t> inputs_first(const graph::Graph& graph, const std::vector<std::size_t>& roots) {
  std::vector<std::size_t> order;
  std::vector<bool> seen(graph.nodes.size(), false);
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

}  // namespace

NodeSet set_of_word(std::string_view word) {
  const auto found = std::ranges::find(words, word, &Word::word);
  return found == words.end() ? nullptr : found->set;
}

std::vector<std::string> set_words() {
  std::vector<std::string> all;
  for (const Word& w : words) all.emplace_back(w.word);
  return all;
}

NodeSet set_of_member(std::string_view name) {
  const std::string key = to_lower(name);
  return key.ends_with("nodes") ? set_of_word(std::string_view(key).substr(0, key.size() - 5)) : nullptr;
}

std::string_view member_of(NodeSet set) {
  return set_members[static_cast<std::size_t>(std::ranges::find(node_sets, set) - node_sets.begin())];
}

std::vector<std::size_t> with_inputs(const graph::Graph& graph, std::vector<std::size_t> open) {
  std::vector<bool> seen(graph.nodes.size(), false);
  for (const auto n : open) seen[n] = true;
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    for (const auto in : graph.nodes[n].inputs)
      if (in < seen.size() && !seen[in]) seen[in] = true, open.push_back(in);
  }
  std::vector<std::size_t> all;
  for (std::size_t n = 0; n < seen.size(); ++n)
    if (seen[n]) all.push_back(n);
  return all;
}

std::optional<std::size_t> find_node(const graph::Graph& graph, const std::string& name) {
  const std::string key = to_lower(name);
  std::optional<std::size_t> found;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].name == name) return n;
    if (!found && to_lower(graph.nodes[n].name) == key) found = n;
  }
  const std::size_t dot = key.find('.');
  if (found || dot == std::string::npos) return found;
  const auto set = set_of_member(key.substr(0, dot));
  if (!set) return std::nullopt;
  const std::string last = key.substr(dot);
  for (const auto n : graph.*set)
    if (("." + to_lower(graph.nodes[n].name)).ends_with(last)) return n;
  return std::nullopt;
}

std::vector<NodeMove> select_nodes(graph::Graph& graph, const std::vector<std::size_t>& wanted) {
  constexpr auto gone = static_cast<std::size_t>(-1);
  std::vector<NodeMove> moves;
  std::vector<std::size_t> index_of(graph.nodes.size(), gone);
  std::vector<graph::Node> nodes;
  for (const auto n : inputs_first(graph, with_inputs(graph, wanted))) {
    index_of[n] = nodes.size();
    moves.push_back({n, nodes.size()});
    nodes.push_back(std::move(graph.nodes[n]));
  }
  for (auto& node : nodes)
    for (auto& in : node.inputs) in = index_of[in];
  for (const auto set : node_sets) {
    std::erase_if(graph.*set, [&](std::size_t n) { return index_of[n] == gone; });
    for (auto& n : graph.*set) n = index_of[n];
  }
  graph.nodes = std::move(nodes);
  return moves;
}

}  // namespace tutti::brainscript

// SPDX-License-Identifier: Apache-2.0
#include "graph/reconcile_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "graph/shapes.h"

namespace tutti::graph {
namespace {

// The first place where different axes meet, if nothing else is wrong before it.
std::optional<MixedAxes> find_mixed_axes(const Graph& graph) {
  Graph copy = graph;  // what is inferred here must not fix dims before the network is whole
  std::vector<std::size_t> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  try {
    infer_graph(copy, evaluation_order(copy, all));
  } catch (const MixedAxes& e) {
    return e;
  } catch (const ConfigError&) {
    // Reported when the network is built.
  }
  return std::nullopt;
}

std::string free_name(const Graph& graph, const std::string& wanted) {
  const auto taken = [&](const std::string& name) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.name == name; });
  };
  std::string name = wanted;
  for (int n = 2; taken(name); ++n) name = fmt::format("{}_{}", wanted, n);
  return name;
}

}  // namespace

std::vector<Diagnostic> reconcile_axes(Graph& graph) {
  std::vector<Diagnostic> warnings;
  std::set<std::string> made;  // axes that operations open bear the names of those
  for (const Node& n : graph.nodes)
    if (makes_axis(n)) made.insert(n.name);
  if (made.empty()) return warnings;
  while (const auto mixed = find_mixed_axes(graph)) {
    if (!made.contains(mixed->first_axis) && !made.contains(mixed->second_axis)) break;
    Node equal;
    equal.operation = "ReconcileDynamicAxis";
    equal.inputs = {mixed->second, mixed->first};
    equal.where = graph.nodes[mixed->node].where;
    equal.name = free_name(graph, graph.nodes[mixed->second].name + ".reconciled");
    auto& inputs = graph.nodes[mixed->node].inputs;
    std::replace(inputs.begin(), inputs.end(), mixed->second, graph.nodes.size());
    graph.nodes.push_back(std::move(equal));
    warnings.push_back({graph.nodes[mixed->node].where, mixed->diagnostics()[0].message,
                        "use ReconcileDynamicAxis (value, layout) to state that their sequences have equal lengths; "
                        "without it the run stops at the first minibatch where they differ"});
  }
  return warnings;
}

}  // namespace tutti::graph

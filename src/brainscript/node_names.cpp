// SPDX-License-Identifier: Apache-2.0
#include "brainscript/node_names.h"

#include <array>

#include "brainscript/ndl.h"

namespace tutti::brainscript {
namespace {

struct SetName {
  const char* name;
  std::vector<std::size_t> graph::Graph::*nodes;
};
constexpr std::array<SetName, 7> set_names = {{{"featurenodes", &graph::Graph::features},
                                               {"labelnodes", &graph::Graph::labels},
                                               {"criterionnodes", &graph::Graph::criteria},
                                               {"criterianodes", &graph::Graph::criteria},
                                               {"evalnodes", &graph::Graph::evaluations},
                                               {"evaluationnodes", &graph::Graph::evaluations},
                                               {"outputnodes", &graph::Graph::outputs}}};

}  // namespace

std::vector<std::size_t> graph::Graph::*find_node_set(const std::string& name) {
  const std::string key = ndl::lower(name);
  for (const auto& s : set_names)
    if (s.name == key) return s.nodes;
  return nullptr;
}

std::optional<std::size_t> find_node(const graph::Graph& graph, const std::string& name) {
  const std::string key = ndl::lower(name);
  std::optional<std::size_t> found;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].name == name) return n;
    if (!found && ndl::lower(graph.nodes[n].name) == key) found = n;
  }
  const std::size_t dot = key.find('.');
  if (found || dot == std::string::npos) return found;
  const auto set = find_node_set(key.substr(0, dot));
  if (!set) return std::nullopt;
  const std::string last = key.substr(dot);
  for (const auto n : graph.*set)
    if (("." + ndl::lower(graph.nodes[n].name)).ends_with(last)) return n;
  return std::nullopt;
}

}  // namespace tutti::brainscript

// SPDX-License-Identifier: Apache-2.0
// loaded_network.h -- trained models inside a description: BS.Network.Load, CloneFunction, Edit (semantics 2.7).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brainscript/evaluator.h"

namespace tutti::brainscript {

// The special sets of a network, in the order of `set_members`.
using NodeSets = std::array<std::vector<std::size_t>, 5>;
constexpr std::array<std::string_view, 5> set_members = {"criterionNodes", "evaluationNodes", "featureNodes",
                                                         "labelNodes", "outputNodes"};
NodeSets sets_of(const graph::Graph&);
void set_sets(graph::Graph&, NodeSets);

// A model as it was loaded. Its nodes enter the new network when something first asks for them, with all they need.
struct LoadedNetwork {
  std::string path;
  SourcePos where;  // of the call that loaded it
  graph::Graph graph;
  std::vector<std::optional<std::size_t>> place;  // by node: its index in the new network
  // After Edit: the sets as nodes of the new network.
  std::optional<NodeSets> edited;
};

// The node of the loaded graph as one of the new network.
NodeRef bring_in(LoadedNetwork&, std::size_t node, NodeTable&);
// All of it, as the network that is built.
void adopt_whole(LoadedNetwork&, NodeTable&);

// net.name: a node by its name, where '.', '[' and ']' may be written as '_', a special set, or the start of longer
// names.
Value network_member(Evaluator&, const NetworkView&, const Expr& member, Record* scope);
Value network_element(Evaluator&, const NetworkView&, const Value& index, const Expr& e, Record* scope);

// Natives.
Value load_network(Evaluator&, const Call&);
Value clone_function(Evaluator&, const Call&);
Value edit_network(Evaluator&, const Call&);

}  // namespace tutti::brainscript

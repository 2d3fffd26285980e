// SPDX-License-Identifier: Apache-2.0
// builder.h -- from a command block (Train=[...]) to a graph: BrainScriptNetworkBuilder or SimpleNetworkBuilder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/config.h"
#include "tutti/graph.h"

namespace tutti {

struct BuildContext {
  Problems* problems = nullptr;
  config::Notices* notices = nullptr;
  bool force_constant_seed = false;
  // The next seed of BrainScript networks. Carry one variable through all builds of a run and they number on, as the
  // original's process-wide counter does; without it every build begins at 1.
  std::int64_t* seed = nullptr;
  // Reads a trained model for BS.Network.Load: its graph, every parameter with its values (Node::start). Throws Error.
  // Called on the thread that builds. Without it networks cannot load models.
  std::function<graph::Graph(const std::string& path)> load_model;
};

// Whether the block names a network builder (its own or inherited).
bool has_network_builder(const config::Record& command);
bool has_own_network_builder(const config::Record& command);
// Builds with the first builder present, in the order of semantics 2.1. Random parameters carry their seed as the
// attribute randomSeed. Mistakes land in context.problems.
graph::Graph build_network(const config::Record& command, const BuildContext& context);

}  // namespace tutti

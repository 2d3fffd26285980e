// SPDX-License-Identifier: Apache-2.0
// builder.h -- builds a graph from a command block (Train=[...]) with BrainScriptNetworkBuilder, SimpleNetworkBuilder,
// NDLNetworkBuilder or KerasNetworkBuilder.
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
  // The next seed of BrainScript networks. CNTK counts seeds per process; pass the same variable to all builds of a run
  // to get the same numbers. Without it every build starts at 1.
  std::int64_t* seed = nullptr;
  // Loads a trained model for BS.Network.Load: its graph, with the values of every parameter in Node::start. Throws
  // Error. Called on the building thread. Without it, networks cannot load models.
  std::function<graph::Graph(const std::string& path)> load_model;
};

// Whether the block names a network builder, either its own or an inherited one.
bool has_network_builder(const config::Record& command);
bool has_own_network_builder(const config::Record& command);
// Builds with the first builder present, in CNTK's order. Random parameters carry their seed in the
// attribute randomSeed. Mistakes are added to context.problems.
graph::Graph build_network(const config::Record& command, const BuildContext& context);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// model_graph.h -- from the nodes of a file to a graph: what depends on the inputs of a node is converted here.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "cntk/model.h"
#include "cntk/node_types.h"

namespace tutti::cntk {

struct FileNode {
  graph::Node node;  // inputs are places in FileNodes::nodes
  const NodeType* type = nullptr;
  std::size_t offset = 0;  // in the file
};

struct FileNodes {
  std::uint64_t version = 0;
  bool double_precision = false;
  std::vector<FileNode> nodes;
  std::unordered_map<std::string, std::size_t> place;  // by name
  std::vector<std::size_t> features, labels, criteria, evaluations, outputs;
};

// `path` names the file in errors.
Model to_model(FileNodes, const std::string& path);

}  // namespace tutti::cntk

// SPDX-License-Identifier: Apache-2.0
// node_types.h -- the classes of nodes in CNTK's files: what each is in our graphs, and how its record is read.
#pragma once

#include <cstdint>
#include <string_view>

#include "cntk/byte_reader.h"
#include "tutti/graph.h"

namespace tutti::cntk {

struct FileFormat {
  std::uint64_t version = 0;
  bool double_precision = false;  // of this node
};

struct NodeType {
  std::string_view names;      // of the class, separated by blanks
  std::string_view operation;  // ours; empty = the same as the name
  // Reads what follows the name of the node, and sets attributes and values; null = nothing follows.
  void (*read)(ByteReader&, const FileFormat&, graph::Node&);
  // Why the graph goes without such nodes; empty = it has them.
  std::string_view left_out = {};
};

const NodeType* find_type(std::string_view name);

}  // namespace tutti::cntk

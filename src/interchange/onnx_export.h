// SPDX-License-Identifier: Apache-2.0
// onnx_export.h -- networks as ONNX files. Called by `trainer export`. A build without protobuf or ONNX's schema has
// versions of these functions that say so (no_onnx.cpp).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "interchange/tensor_file.h"
#include "tutti/graph.h"

namespace tutti::interchange {

bool has_onnx();

// What the written file takes and gives, for the user: "query [time, batch, 943]".
struct OnnxSummary {
  std::vector<std::string> inputs, outputs;
};

// Writes the part of the graph that the nodes `outputs` need. `graph` has its dims inferred; `values` holds all its
// parameters and statistics, sorted by name. The same network gives the same bytes. Throws Error: nodes without a
// counterpart in ONNX, by name and operation; a network beyond 2 GB, the format's limit.
OnnxSummary write_onnx(const std::string& path, const graph::Graph& graph, std::span<const Tensor> values,
                       const std::vector<std::size_t>& outputs);

}  // namespace tutti::interchange

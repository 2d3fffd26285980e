// SPDX-License-Identifier: Apache-2.0
// The file around the graph: versions, producer, size.
#include "interchange/onnx_export.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>

#include "interchange/onnx/network_export.h"
#include "train/file.h"
#include "tutti/error.h"

namespace tutti::interchange {
namespace {

// Operators as of ONNX 1.8 (2020): what onnxruntime 1.7 and all later ones run.
constexpr std::int64_t operator_set = 13, format_version = 7;

}  // namespace

bool has_onnx() { return true; }

OnnxSummary write_onnx(const std::string& path, const graph::Graph& graph, std::span<const Tensor> tensors,
                       const std::vector<std::size_t>& outputs) {
  graph::Graph copy = graph;
  auto values = graph::infer_graph(copy, graph::evaluation_order(copy, outputs));
  onnx::ModelProto model;
  model.set_ir_version(format_version);
  model.set_producer_name("tutti");
  model.add_opset_import()->set_version(operator_set);
  model.mutable_opset_import(0)->set_domain("");
  model.mutable_graph()->set_name("network");
  const OnnxSummary summary = NetworkExport(copy, std::move(values), tensors, *model.mutable_graph()).run(outputs);
  const std::size_t size = model.ByteSizeLong();
  if (size > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw Error(
        fmt::format("the network needs {} bytes, and a file of ONNX holds at most 2 GB\nfix: export it as "
                    "safetensors",
                    size));
  const std::string unfinished = path + ".tmp";
  create_directories(directory_of(path));
  {
    std::ofstream file(unfinished, std::ios::binary);
    if (!file) throw Error(fmt::format("creating '{}': {}\nfix: name another file", unfinished, std::strerror(errno)));
    if (!model.SerializeToOstream(&file) || !file.flush())
      throw Error(
          fmt::format("writing '{}': {}\nfix: free space, or name another file", unfinished, std::strerror(errno)));
  }
  File::open(unfinished).sync();
  rename_durably(unfinished, path);
  return summary;
}

}  // namespace tutti::interchange

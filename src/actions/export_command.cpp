// SPDX-License-Identifier: Apache-2.0
// `trainer export MODEL --onnx F | --safetensors F | --npz F`: a network, or its values, for other programs.
#include <fmt/format.h>

#include "actions/model_commands.h"
#include "interchange/onnx_export.h"
#include "interchange/tensor_file.h"
#include "train/model_file.h"
#include "tutti/error.h"

namespace tutti::actions {
namespace {

std::vector<interchange::Tensor> tensors_of(const ModelView& view) {
  std::vector<interchange::Tensor> tensors;
  for (const ModelValue& v : view.values) tensors.push_back({v.name, v.shape, v.values});
  return tensors;
}

std::string export_network(const std::string& path, const CommandWords& words, const graph::Graph& graph,
                           std::span<const interchange::Tensor> tensors) {
  const std::string to = words.value("--onnx");
  const auto outputs = chosen_nodes(graph, path, listed_names(words.value("--output")), "--output");
  refuse_same_file(path, to);
  const interchange::OnnxSummary summary = interchange::write_onnx(to, graph, tensors, outputs);
  std::string text = fmt::format("'{}': the network of '{}' as ONNX\n", to, path);
  for (const std::string& in : summary.inputs) text += fmt::format("  input   {}\n", in);
  for (const std::string& out : summary.outputs) text += fmt::format("  output  {}\n", out);
  return text;
}

std::string export_model(const std::string& path, const CommandWords& words) {
  std::string text;
  Network network(model_graph(path), NetworkOptions{});
  network.initialize_parameters();
  const auto tensors = tensors_of(view_model(network));
  const auto write = [&](const char* option, const char* what, auto* write_file) {
    if (!words.has(option)) return;
    if (tensors.empty())
      throw Error(fmt::format(
          "the model '{}' has no parameters\nfix: --onnx FILE, which also exports networks without parameters", path));
    const std::string to = words.value(option);
    refuse_same_file(path, to);
    write_file(to, tensors);
    text += fmt::format("'{}': {} tensors of '{}' as {}\n", to, tensors.size(), path, what);
  };
  if (words.has("--onnx")) text += export_network(path, words, network.graph(), tensors);
  write("--safetensors", "safetensors", interchange::write_safetensors);
  write("--npz", "npz", interchange::write_npz);
  return text;
}

std::string run_export(const CommandWords& words) {
  const std::string& path = words.files[0];
  const bool onnx = words.has("--onnx");
  if (!onnx && !words.has("--safetensors") && !words.has("--npz"))
    throw ConfigError({}, "'export' is given no file to write", "add --onnx FILE, --safetensors FILE or --npz FILE");
  if (words.has("--output") && !onnx)
    throw ConfigError({}, "--output has no effect without --onnx", "weights are exported all together");
  return export_model(path, words);
}

}  // namespace

ModelCommand export_command() {
  return {{"export",
           "MODEL",
           1,
           "writes a model for other programs (docs/export.md); several formats at once are fine",
           {{"--onnx", "FILE", "the network and its weights, as ONNX"},
            {"--output", "NODE,...", "with --onnx: the nodes whose values it computes; default: the output nodes"},
            {"--safetensors", "FILE", "all parameters and statistics, as safetensors"},
            {"--npz", "FILE", "the same as an archive of NumPy arrays"}}},
          run_export};
}

}  // namespace tutti::actions

// SPDX-License-Identifier: Apache-2.0
#include "actions/evaluation_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "actions/compute_type.h"
#include "actions/node_names.h"
#include "reader/stream_dims.h"
#include "train/model_file.h"
#include "tutti/builder.h"

namespace tutti::actions {

bool file_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

void check_minibatch_sizes(config::Fields& f, const config::Schedule<std::int64_t>& sizes) {
  for (const auto m : sizes.values)
    if (m < 1 || m > 2'147'483'647)
      f.problem("minibatchSize", fmt::format("{} samples at a time", m), "from 1 to 2147483647");
}

std::int64_t last_model_epoch(const std::string& model_path) {
  const std::filesystem::path path(model_path);
  const std::string stem = path.filename().string() + ".";
  std::int64_t last = -1;
  std::error_code ignored;
  const auto directory = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stem)) continue;
    std::int64_t epoch = -1;
    const auto [end, error] = std::from_chars(name.data() + stem.size(), name.data() + name.size(), epoch);
    if (error == std::errc() && end == name.data() + name.size()) last = std::max(last, epoch);
  }
  return last;
}

namespace {

// The block names a file, such as a vocabulary, that an earlier action of this run writes.
void await_files(const config::Record& block, const std::set<std::string>& to_come) {
  for (const auto& key : block.keys()) {
    if (block.is_block(key))
      await_files(block.block(key), to_come);
    else if (const auto value = block.find_own(key); value && to_come.contains(value->text))
      throw ModelToCome{value->text};
  }
}

}  // namespace

std::unique_ptr<Reader> open_reader(const ActionContext& context, const char* block, const char* action,
                                    int trace_level) {
  if (!context.command.is_block(block)) {
    context.problems->add(Diagnostic{context.command.where(),
                                     fmt::format("'{}' has no {}", context.command_name, block),
                                     fmt::format("add {} = [ readerType = \"CNTKTextFormatReader\" ... ]", block)});
    return nullptr;
  }
  if (context.models_to_come) await_files(context.command.block(block), *context.models_to_come);
  auto reader = make_reader(context.command.block(block),
                            {action, trace_level, context.problems, context.notices, context.only_check});
  check(context, [&] {
    try {
      if (reader) reader->sweep_samples();
    } catch (const ConfigError& e) {
      throw reader::with_place_of_dim(e, context.command.block(block));
    }
  });
  return reader;
}

OptionsText reader_options(const ActionContext& context, const char* block, const char* action) {
  Problems ignored;  // make_reader has reported them
  config::Notices said_already;
  const auto type = effective_reader(context.command.block(block), {action, 0, &ignored, &said_already});
  for (const auto& usual : reader_types())
    if (usual.name == type.name)
      return options_text(fmt::format("{} ({})", block, type.name), type.describe, usual.describe);
  return {};
}

std::string model_to_read(const ActionContext& context, std::string model_path) {
  const auto actions = context.command.strings("action");
  const bool trains = actions.empty() || std::any_of(actions.begin(), actions.end(), [](const std::string& action) {
                        const ActionEntry* entry = find_action(action);
                        return entry && entry->names.front() == "train";
                      });
  return has_own_network_builder(context.command) && !trains ? std::string() : model_path;
}

void check_model_to_read(const ActionContext& context, const std::string& model_path, bool exact) {
  if (model_path.empty()) {
    if (!has_network_builder(context.command))
      context.problems->add(Diagnostic{context.command.where(),
                                       fmt::format("'{}' names no model", context.command_name),
                                       "add modelPath = \"...\""});
    return;
  }
  if (file_exists(model_path) || context.is_model_to_come(model_path)) return;
  if (!exact && last_model_epoch(model_path) >= 0) return;
  const auto where = context.command.find("modelPath");
  std::string fix = "train first, or correct modelPath";
  const auto last = last_model_epoch(model_path);
  if (last >= 0)
    fix = fmt::format("training is not finished; the model after epoch {} is {}.{}", last, model_path, last);
  context.problems->add(
      Diagnostic{where ? where->where : SourcePos{}, fmt::format("there is no model '{}'", model_path), fix});
}

std::function<graph::Graph(const std::string&)> model_loader(const ActionContext& context) {
  if (context.models_to_come)
    return [context](const std::string& path) {
      if (context.is_model_to_come(path)) throw ModelToCome{path};
      return load_trained(path);
    };
  if (!context.all_ranks) return [](const std::string& path) { return load_trained(path); };
  return [world = context.world](const std::string& path) { return load_trained(path, *world); };
}

std::unique_ptr<Network> evaluation_network(const ActionContext& context, const std::string& model_path,
                                            std::vector<std::string> nodes) {
  graph::Graph graph;
  if (model_path.empty()) {
    Problems problems;
    config::Notices said_already;
    graph = build_network(context.command,
                          {&problems, &said_already, context.constant_seed, nullptr, model_loader(context)});
    problems.throw_if_any();
  } else {
    graph = context.all_ranks ? load_graph(model_path, *context.world) : load_graph(model_path);
  }
  if (auto unknown = unknown_nodes(context.command, "evalNodeNames", nodes, graph); !unknown.empty())
    throw ConfigError(std::move(unknown));
  if (nodes.empty()) {
    for (auto n : graph.evaluations) nodes.push_back(graph.nodes[n].name);
    for (auto n : graph.criteria) nodes.push_back(graph.nodes[n].name);
  }
  NetworkOptions options;
  options.evaluations = std::move(nodes);
  options.device = context.device;
  options.compute_type = compute_type_of(context.command);
  auto network = std::make_unique<Network>(std::move(graph), options);
  if (model_path.empty()) {
    network->initialize_parameters();
    return network;
  }
  auto view = view_model(*network);
  if (context.all_ranks)
    load_values(model_path, view, *context.world);
  else
    load_values(model_path, view);
  return network;
}

}  // namespace tutti::actions

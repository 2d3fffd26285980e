// SPDX-License-Identifier: Apache-2.0
#include "actions/node_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <regex>

#include "actions/evaluation_network.h"
#include "train/model_file.h"
#include "tutti/builder.h"

namespace tutti::actions {
namespace {

// The place of the name inside the setting's value, else the whole value.
SourcePos place_of_name(const config::Record& block, const char* key, const std::string& name) {
  const auto value = block.find(key);
  if (!value) return block.where();
  SourcePos where = value->where;
  if (!where.source) return where;
  const std::string_view text = std::string_view(where.source->text).substr(where.offset, where.length);
  if (const auto at = text.find(name); at != std::string_view::npos) where.offset += at, where.length = name.size();
  return where;
}

std::string suggest_node(const std::string& name, const graph::Graph& graph) {
  std::vector<std::string> all, special;
  for (const auto& n : graph.nodes) all.push_back(n.name);
  if (const std::string near = nearest(name, all); !near.empty()) return fmt::format("did you mean '{}'?", near);
  for (const auto* set : {&graph.criteria, &graph.evaluations, &graph.outputs})
    for (const auto n : *set)
      if (std::find(special.begin(), special.end(), graph.nodes[n].name) == special.end())
        special.push_back(graph.nodes[n].name);
  return special.empty()
             ? "action = dumpNode prints all nodes"
             : fmt::format("criteria, evaluations and outputs of the network: {}", fmt::join(special, ", "));
}

std::shared_ptr<const graph::Graph> described_graph(const ActionContext& context) {
  Problems problems;
  config::Notices said_already;
  auto graph =
      build_network(context.command, {&problems, &said_already, context.constant_seed, nullptr, model_loader(context)});
  problems.throw_if_any();
  return std::make_shared<graph::Graph>(std::move(graph));
}

// Null if it is not known before the run.
std::shared_ptr<const graph::Graph> graph_to_read(const ActionContext& context, const std::string& model_path) {
  if (model_path.empty()) return has_network_builder(context.command) ? described_graph(context) : nullptr;
  const std::string stem = model_path.substr(0, model_path.rfind('.'));
  for (const std::string& path : {model_path, stem})
    if (const auto at = context.graphs_to_come->find(path); at != context.graphs_to_come->end()) return at->second;
  if (context.is_model_to_come(model_path)) return nullptr;
  std::string path = model_path;
  if (const auto last = last_model_epoch(model_path); !file_exists(path) && last >= 0)
    path = fmt::format("{}.{}", model_path, last);
  return file_exists(path) ? std::make_shared<graph::Graph>(load_graph(path)) : nullptr;
}

void with_graph(const ActionContext& context, const std::string& model_path,
                const std::function<void(const graph::Graph&)>& use) {
  try {
    if (const auto graph = graph_to_read(context, model_path)) use(*graph);
  } catch (const ModelToCome&) {
    // the network begins with a model that this run makes first: the action looks again in its turn
  } catch (const ConfigError& e) {
    context.problems->add(e);
  } catch (const Error& e) {
    const auto where = context.command.find("modelPath");
    context.problems->add(Diagnostic{where ? where->where : context.command.where(), e.what(), {}});
  }
}

}  // namespace

std::vector<std::string> node_list(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& text : names)
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      const std::size_t first = text.find_first_not_of(" \t", at), last = text.find_last_not_of(" \t", end - 1);
      if (first < end) all.push_back(text.substr(first, last - first + 1));
      at = end + 1;
    }
  return all;
}

std::vector<Diagnostic> unknown_nodes(const config::Record& block, const char* key,
                                      const std::vector<std::string>& names, const graph::Graph& graph) {
  std::vector<Diagnostic> found;
  for (const auto& name : names) {
    const auto is = [&](const graph::Node& n) { return n.name == name; };
    if (std::any_of(graph.nodes.begin(), graph.nodes.end(), is)) continue;
    found.push_back({place_of_name(block, key, name), fmt::format("{}: the network has no node '{}'", key, name),
                     suggest_node(name, graph)});
  }
  return found;
}

void check_node_names(const ActionContext& context, const char* key, const std::vector<std::string>& names,
                      const std::string& model_path) {
  if (names.empty()) return;
  with_graph(context, model_path, [&](const graph::Graph& graph) {
    for (auto& d : unknown_nodes(context.command, key, names, graph)) context.problems->add(std::move(d));
  });
}

void check_node_pattern(const ActionContext& context, const char* key, const std::string& pattern,
                        const std::string& model_path) {
  if (pattern.empty()) return;
  with_graph(context, model_path, [&](const graph::Graph& graph) {
    const std::regex compiled(pattern);
    const auto matches = [&](const graph::Node& n) { return std::regex_match(n.name, compiled); };
    if (std::any_of(graph.nodes.begin(), graph.nodes.end(), matches)) return;
    context.problems->add(Diagnostic{context.command.value(key).where,
                                     fmt::format("{}: no node of the network matches '{}'", key, pattern),
                                     "the whole name must match: write .*name.*; action = dumpNode prints all nodes"});
  });
}

bool check_sgd_nodes(const ActionContext& context, const SgdOptions& sgd, const graph::Graph& graph) {
  const auto block = context.command.block("SGD");
  const auto before = context.problems->count();
  const auto check = [&](const char* key, const std::vector<std::string>& names) {
    for (auto& d : unknown_nodes(block, key, names, graph)) context.problems->add(std::move(d));
  };
  if (!sgd.train_criterion_node.empty()) check("trainCriterionNodeName", {sgd.train_criterion_node});
  if (!sgd.eval_criterion_node.empty()) check("evalCriterionNodeName", {sgd.eval_criterion_node});
  check("traceNodeNamesReal", sgd.trace_real);
  check("traceNodeNamesCategory", sgd.trace_category);
  check("traceNodeNamesSparse", sgd.trace_sparse);
  return context.problems->count() == before;
}

}  // namespace tutti::actions

// SPDX-License-Identifier: Apache-2.0
#include "actions/evaluation_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "base/pattern.h"
#include "cntk/model.h"
#include "graph/initialize.h"
#include "graph/lower.h"
#include "graph/shapes.h"
#include "reader/fault_budget.h"
#include "train/model_file.h"
#include "tutti/builder.h"
#include "tutti/log.h"

namespace tutti::actions {
namespace {

// The block names a file, such as a vocabulary, that an earlier action of this run writes.
void await_files(const ActionContext& context, const config::Record& block) {
  for (const auto& key : block.keys()) {
    if (block.is_block(key))
      await_files(context, block.block(key));
    else if (const auto value = block.find_own(key); value && context.is_to_come(value->text))
      throw ModelToCome{value->text};
  }
}

// The ranks for which rank 0 reads models during the run.
Communicator* readers(const ActionContext& context) { return context.all_ranks ? context.world : nullptr; }

// Of the block's builder. Adds the notices that were not given before.
graph::Graph described_graph(const ActionContext& context, config::Notices* notices) {
  Problems problems;
  config::Notices found;
  auto graph =
      build_network(context.command, {&problems, &found, context.constant_seed, nullptr, model_loader(context)});
  problems.throw_if_any();
  for (std::string& line : found.lines)
    if (notices && std::ranges::count(notices->lines, line) == 0) notices->lines.push_back(std::move(line));
  return graph;
}

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
  for (const auto* set : {&graph.criteria, &graph.evaluations, &graph.outputs})
    for (const auto n : *set)
      if (std::find(special.begin(), special.end(), graph.nodes[n].name) == special.end())
        special.push_back(graph.nodes[n].name);
  return did_you_mean(
      name, all,
      special.empty() ? "action = dumpNode prints all nodes"
                      : fmt::format("criteria, evaluations and outputs of the network: {}", fmt::join(special, ", ")));
}

// Throws ConfigError, as the network of the run would, for parameters that cannot have their initial values.
void check_initial_values(graph::Graph graph) {
  const auto order = graph::evaluation_order(graph, graph::roots_of(graph, {}));
  graph::infer_graph(graph, order);
  for (const std::size_t n : order)
    if (graph.nodes[n].operation == "LearnableParameter") graph::check_initializer(graph.nodes[n]);
}

// Null if it is not known before the run.
std::shared_ptr<const graph::Graph> graph_to_read(const ActionContext& context, const std::string& model_path) {
  if (model_path.empty()) {
    if (!has_network_builder(context.command)) return nullptr;
    auto graph = std::make_shared<graph::Graph>(described_graph(context, context.notices));
    check_initial_values(*graph);
    return graph;
  }
  if (context.graphs_to_come)
    for (const std::string& path : {model_path, without_epoch(model_path)})
      if (const auto at = context.graphs_to_come->find(same_file(path)); at != context.graphs_to_come->end())
        return at->second;
  if (context.is_model_to_come(model_path)) return nullptr;
  std::string path = model_path;
  if (const auto last = last_model_epoch(model_path); !file_exists(path) && last >= 0)
    path = fmt::format("{}.{}", model_path, last);
  return file_exists(path) ? std::make_shared<graph::Graph>(load_graph(path)) : nullptr;
}

// What a reader must deliver: the inputs of the nodes `computed`. And any other input of the network that the reader
// has a stream for: its size is compared, too. The network reports the nodes `reported`. Throws ConfigError if nodes
// cannot be computed.
std::vector<Network::Input> inputs_to_read(graph::Graph graph, const std::vector<std::size_t>& reported,
                                           const std::vector<std::size_t>& computed,
                                           const std::vector<StreamInfo>& streams) {
  auto roots = graph::roots_of(graph, reported);
  roots.insert(roots.end(), computed.begin(), computed.end());
  const auto order = graph::evaluation_order(graph, roots);
  const auto needed = graph::execution_order(graph, computed);
  const auto values = graph::infer_graph(graph, order);
  graph::lower(graph, needed, values, computed, {});
  std::vector<Network::Input> inputs;
  for (const std::size_t n : order) {
    const graph::Node& node = graph.nodes[n];
    if (node.operation != "InputValue") continue;
    if (std::ranges::count(needed, n) > 0 || std::ranges::count(streams, node.name, &StreamInfo::name) > 0)
      inputs.push_back({node.name, values[n].shape, graph::flag(node, "sparse", false)});
  }
  return inputs;
}

// Which of `computed` a network that reports the nodes `reported` does not evaluate.
std::vector<std::size_t> nodes_outside(const graph::Graph& graph, const std::vector<std::size_t>& reported,
                                       const std::vector<std::size_t>& computed) {
  const auto order = graph::evaluation_order(graph, graph::roots_of(graph, reported));
  std::vector<std::size_t> outside;
  std::ranges::copy_if(computed, std::back_inserter(outside), [&](std::size_t n) {
    return std::ranges::count(order, n) == 0 && std::ranges::count(outside, n) == 0;
  });
  return outside;
}

}  // namespace

void with_graph(const ActionContext& context, const std::string& model_path,
                const std::function<void(const graph::Graph&)>& use) {
  try {
    if (const auto graph = graph_to_read(context, model_path)) use(*graph);
  } catch (const ModelToCome&) {
    // the network begins with a model that this run makes first: the action looks again in its turn
  } catch (const ConfigError& e) {
    context.problems->add(e);
  } catch (const Error& e) {
    context.problem("modelPath", e.what());
  }
}

void check_minibatch_sizes(config::Fields& f, const config::Schedule<std::int64_t>& sizes) {
  for (const auto m : sizes.values)
    if (m < 1 || m > 2'147'483'647)
      f.problem("minibatchSize", fmt::format("{} samples at a time", m), "from 1 to 2147483647");
}

std::unique_ptr<Reader> open_reader(const ActionContext& context, const char* block, const char* action,
                                    int trace_level) {
  if (!context.command.is_block(block)) {
    context.problem(context.command.where(), fmt::format("'{}' has no {}", context.command_name, block),
                    fmt::format("add {} = [ readerType = \"CNTKTextFormatReader\" ... ]", block));
    return nullptr;
  }
  if (context.models_to_come && !context.models_to_come->empty()) await_files(context, context.command.block(block));
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

std::string model_to_read(const ActionContext& context, std::string model_path) {
  const auto actions = context.command.strings("action");
  const bool trains = actions.empty() || std::any_of(actions.begin(), actions.end(), [](const std::string& action) {
                        const ActionEntry* entry = find_action(action);
                        return entry && entry->names.front() == "train";
                      });
  return has_own_network_builder(context.command) && !trains ? std::string() : model_path;
}

bool check_model_to_read(const ActionContext& context, const std::string& model_path, bool exact) {
  if (model_path.empty()) {
    const bool described = has_network_builder(context.command);
    if (!described)
      context.problem(context.command.where(), fmt::format("'{}' names no model", context.command_name),
                      "add modelPath = \"...\"");
    return described;
  }
  if (context.is_model_to_come(model_path)) return true;
  if (file_exists(model_path)) {
    try {
      if (cntk::is_model(model_path)) cntk::read_model(model_path);  // it may hold nodes that are not known here
    } catch (const Error& e) {
      context.problem("modelPath", e.what());
      return false;
    }
    return true;
  }
  const auto last = last_model_epoch(model_path);
  if (!exact && last >= 0) return true;
  std::string fix = "train first, or correct modelPath";
  if (last >= 0)
    fix = fmt::format("training is not finished; the model after epoch {} is {}.{}", last, model_path, last);
  context.problem("modelPath", fmt::format("there is no model '{}'", model_path), fix);
  return false;
}

std::function<graph::Graph(const std::string&)> model_loader(const ActionContext& context) {
  if (context.models_to_come)
    return [context](const std::string& path) {
      if (context.is_model_to_come(path)) throw ModelToCome{path};
      return load_trained(path);
    };
  return [comm = readers(context)](const std::string& path) { return load_trained(path, comm); };
}

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
    if (std::ranges::count(graph.nodes, name, &graph::Node::name) > 0) continue;
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

bool check_streams(const ActionContext& context, const char* block, const Reader& reader,
                   const std::vector<Network::Input>& inputs) {
  const SourcePos where = context.command.block(block).where();
  const auto before = context.problems->count();
  const auto streams = reader.streams();
  std::vector<std::string> names;
  for (const auto& s : streams) names.push_back(s.name);
  for (const Network::Input& input : inputs) {
    const auto stream = std::ranges::find(streams, input.name, &StreamInfo::name);
    if (stream == streams.end()) {
      const std::string near = nearest(input.name, names);
      context.problem(where, fmt::format("the reader has no stream for the network's input '{}'", input.name),
                      near.empty()
                          ? fmt::format("the reader has: {}", fmt::join(names, ", "))
                          : fmt::format("streams and inputs are matched by name: is '{}' meant for it?", near));
    } else if (auto d = misfit(input, *stream)) {
      context.problem(where, std::move(d->message), std::move(d->fix));
    }
  }
  return context.problems->count() == before;
}

void check_streams(const ActionContext& context, const Reader& reader, const graph::Graph& graph,
                   const std::vector<std::size_t>& reported, const std::vector<std::size_t>& computed) {
  check_streams(context, "reader", reader, inputs_to_read(graph, reported, computed, reader.streams()));
}

std::vector<std::size_t> indices_of(const graph::Graph& graph, const std::vector<std::string>& names) {
  std::vector<std::size_t> nodes;
  for (const std::string& name : names)
    nodes.push_back(
        static_cast<std::size_t>(std::ranges::find(graph.nodes, name, &graph::Node::name) - graph.nodes.begin()));
  return nodes;
}

std::vector<std::size_t> nodes_to_report(const graph::Graph& graph, const std::vector<std::string>& names) {
  if (!names.empty()) return indices_of(graph, names);
  std::vector<std::size_t> nodes = graph.evaluations;
  nodes.insert(nodes.end(), graph.criteria.begin(), graph.criteria.end());
  return nodes;
}

void check_regex(const SourcePos& where, const std::string& pattern) {
  try {
    const Pattern compiled(pattern);
  } catch (const PatternError& e) {
    throw ConfigError(where, fmt::format("'{}' is not a regular expression: {}", pattern, e.what()));
  }
}

void check_node_pattern(const ActionContext& context, const char* key, const std::string& pattern,
                        const std::string& model_path) {
  if (pattern.empty()) return;
  with_graph(context, model_path, [&](const graph::Graph& graph) {
    const Pattern compiled(pattern);
    if (std::ranges::any_of(graph.nodes, [&](const auto& n) { return compiled.match(n.name).has_value(); })) return;
    context.problem(key, fmt::format("{}: no node of the network matches '{}'", key, pattern),
                    "the whole name must match: write .*name.*; action = dumpNode prints all nodes");
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

void check_criterion(const ActionContext& context, const SgdOptions& sgd, Network& network) {
  if (sgd.max_epochs == 0 || network.trains()) return;
  const bool has_trained = !network.parameters().slices.empty();
  if (!has_trained && !(network.running_statistics().empty() && network.precompute_nodes().empty())) return;
  const NodeResult criterion = network.criterion();
  const auto node = std::ranges::find(network.graph().nodes, criterion.name, &graph::Node::name);
  if (!has_trained)
    return context.notices->add(
        {node->where.source ? node->where : context.command.block("SGD").where(),
         fmt::format("the training criterion '{}' depends on no trained parameter: nothing will be learned",
                     criterion.name),
         "name a criterion that depends on parameters with a learningRateMultiplier above 0"},
        "warning");
  throw ConfigError(sgd.train_criterion_node.empty()
                        ? node->where
                        : context.command.block("SGD").value("trainCriterionNodeName").where,
                    fmt::format("the training criterion '{}' ({}) has no gradient, so no parameter would be trained",
                                criterion.name, criterion.operation),
                    "name a criterion such as CrossEntropyWithSoftmax in criterionNodes or trainCriterionNodeName");
}

std::unique_ptr<Network> evaluation_network(const ActionContext& context, const std::string& model_path,
                                            const std::vector<std::string>& nodes,
                                            const std::vector<std::string>& written) {
  graph::Graph graph =
      model_path.empty() ? described_graph(context, nullptr) : load_graph(model_path, readers(context));
  if (auto unknown = unknown_nodes(context.command, "evalNodeNames", nodes, graph); !unknown.empty())
    throw ConfigError(std::move(unknown));
  if (auto unknown = unknown_nodes(context.command, "outputNodeNames", written, graph); !unknown.empty())
    throw ConfigError(std::move(unknown));
  const auto reported = nodes_to_report(graph, nodes);
  const auto others = nodes_outside(graph, reported, indices_of(graph, written));
  // The file holds the values of these nodes as unused; load_values() reads those of the network.
  if (!others.empty() && !model_path.empty()) graph = load_trained(model_path, readers(context));
  graph.outputs.insert(graph.outputs.end(), others.begin(), others.end());
  NetworkOptions options;
  for (const std::size_t n : reported) options.evaluations.push_back(graph.nodes[n].name);
  options.device = context.device;
  options.compute_type = compute_type_of(context.command);
  auto network = std::make_unique<Network>(std::move(graph), options);
  if (model_path.empty() || !others.empty()) {
    network->initialize_parameters();
    return network;
  }
  auto view = view_model(*network);
  load_values(model_path, view, readers(context));
  return network;
}

void warn_of_missing_statistics(Network& network, const std::vector<std::string>& nodes) {
  const graph::Graph& graph = network.graph();
  const auto order = graph::evaluation_order(graph, nodes_to_report(graph, nodes));
  const auto is_zero = [](const Network::State& s) { return std::ranges::count(s.values, 0) == std::ssize(s.values); };
  const auto states = network.running_statistics();  // samples seen, mean and variance of each node
  std::vector<std::string> missing;
  for (std::size_t k = 0; k < states.size(); k += 3)
    if (std::ranges::count(order, states[k].name, [&](std::size_t n) { return graph.nodes[n].name; }) > 0 &&
        is_zero(states[k]) && is_zero(states[k + 1]) && is_zero(states[k + 2]))
      missing.push_back(states[k].name);
  if (missing.empty()) return;
  log::warning(
      fmt::format("the batch normalisation of '{}' has seen no samples: its mean and variance are 0, so "
                  "results that depend on it mean nothing. Train the network, or name a trained model in "
                  "modelPath",
                  fmt::join(missing, "', '")));
}

}  // namespace tutti::actions

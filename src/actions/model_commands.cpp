// SPDX-License-Identifier: Apache-2.0
#include "actions/model_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "cntk/checkpoint.h"
#include "cntk/model.h"
#include "graph/kernel.h"
#include "graph/shapes.h"
#include "interchange/tensor_file.h"
#include "train/model_file.h"
#include "tutti/error.h"

namespace tutti::actions {
namespace {

using Table = std::vector<std::vector<std::string>>;

// Columns as wide as their widest cell; the last one has no end.
std::string aligned(const Table& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t c = 0; c < row.size(); ++c) line += fmt::format(" {:{}} ", row[c], widths[c]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

// The shapes of all nodes; none where the graph does not say them.
std::vector<std::optional<Shape>> shapes_of(const graph::Graph& g, std::string& problem) {
  std::vector<std::optional<Shape>> shapes(g.nodes.size());
  graph::Graph copy = g;
  std::vector<std::size_t> all;
  for (std::size_t n = 0; n < g.nodes.size(); ++n) all.push_back(n);
  try {
    const auto values = graph::infer_graph(copy, graph::evaluation_order(copy, all));
    for (const auto n : all) shapes[n] = values[n].shape;
  } catch (const ConfigError& e) {
    problem = e.what();
  }
  return shapes;
}

std::string node_table(const graph::Graph& g, const std::vector<std::optional<Shape>>& shapes) {
  Table rows = {{"node", "operation", "shape", "inputs"}};
  for (std::size_t n = 0; n < g.nodes.size(); ++n) {
    std::vector<std::string> inputs;
    for (const auto in : g.nodes[n].inputs) inputs.push_back(g.nodes[in].name);
    rows.push_back({g.nodes[n].name, g.nodes[n].operation, shapes[n] ? to_string(*shapes[n]) : "?",
                    fmt::format("{}", fmt::join(inputs, ", "))});
  }
  return aligned(rows);
}

std::string sets_text(const graph::Graph& g) {
  std::string text;
  const auto line = [&](const char* name, const std::vector<std::size_t>& set) {
    std::vector<std::string> names;
    for (const auto n : set) names.push_back(g.nodes[n].name);
    if (!names.empty()) text += fmt::format("  {:12} {}\n", name, fmt::join(names, ", "));
  };
  line("features", g.features);
  line("labels", g.labels);
  line("criteria", g.criteria);
  line("evaluations", g.evaluations);
  line("outputs", g.outputs);
  return text;
}

struct Summary {
  double mean = 0, deviation = 0, least = 0, most = 0;
};
Summary summary_of(const std::vector<float>& values) {
  Summary s;
  if (values.empty()) return s;
  const auto n = static_cast<double>(values.size());
  for (const float v : values) s.mean += v / n;
  for (const float v : values) s.deviation += (v - s.mean) * (v - s.mean) / n;
  s.deviation = std::sqrt(s.deviation);
  const auto [least, most] = std::ranges::minmax(values);
  s.least = least, s.most = most;
  return s;
}

std::string value_table(const graph::Graph& g, const std::vector<std::optional<Shape>>& shapes) {
  Table rows = {{"values", "of", "shape", "mean", "deviation", "smallest", "largest"}};
  std::size_t trained = 0, constant = 0, tensors = 0;
  std::string counts;
  for (std::size_t n = 0; n < g.nodes.size(); ++n) {
    const graph::Node& node = g.nodes[n];
    if (!node.start) continue;
    if (node.operation == "BatchNormalization") {
      counts += fmt::format("  {}: {} samples seen\n", node.name, graph::samples_seen(node.start->data()));
      continue;
    }
    const bool parameter = node.operation == "LearnableParameter";
    const double rate = graph::number(node, "learningRateMultiplier", 1);
    (parameter && rate != 0 ? trained : constant) += node.start->size();
    tensors += parameter;
    const std::string kind = !parameter  ? node.operation
                             : rate == 0 ? "constant"
                             : rate == 1 ? "parameter"
                                         : fmt::format("parameter, rate x {:g}", rate);
    const Summary s = summary_of(*node.start);
    rows.push_back({node.name, kind, shapes[n] ? to_string(*shapes[n]) : fmt::format("{}", node.start->size()),
                    fmt::format("{:.6g}", s.mean), fmt::format("{:.6g}", s.deviation), fmt::format("{:.6g}", s.least),
                    fmt::format("{:.6g}", s.most)});
  }
  std::string text = aligned(rows);
  text += fmt::format("\n{} trained and {} other values in {} parameters and {} statistics\n", trained, constant,
                      tensors, rows.size() - 1 - tensors);
  if (!counts.empty()) text += "\nbatch normalisation:\n" + counts;
  return text;
}

std::string graph_text(const graph::Graph& g) {
  std::string problem;
  const auto shapes = shapes_of(g, problem);
  std::string text =
      fmt::format("{} nodes\n{}\n{}\n{}", g.nodes.size(), sets_text(g), node_table(g, shapes), value_table(g, shapes));
  if (!problem.empty()) text += fmt::format("\nnot all shapes are known: {}\n", problem);
  return text;
}

std::string cntk_model_text(const std::string& path) {
  const cntk::Model m = cntk::read_model(path);
  std::string text = fmt::format("'{}': model of CNTK, format version {}, {}\n", path, m.version,
                                 m.double_precision ? "double" : "float");
  for (const std::string& note : m.notes) text += fmt::format("note: {}\n", note);
  return text + graph_text(m.graph);
}

std::string cntk_checkpoint_text(const std::string& path) {
  const cntk::Checkpoint c = cntk::read_checkpoint(path);
  std::string text = fmt::format(
      "'{}': checkpoint of CNTK\n  samples seen        {}\n  learning rate       {:g} per sample\n  previous criterion "
      " "
      "{:g}\n  minibatch size      {}\n  block momentum      {}\nsmoothed gradients, in the order of the names of the "
      "trained parameters:\n",
      path, c.total_samples, c.learning_rate, c.previous_criterion, c.minibatch_size,
      c.block_momentum ? "yes (not read)" : "no");
  Table rows = {{"size", "mean", "deviation"}};
  for (const cntk::Matrix& g : c.gradients) {
    const Summary s = summary_of(*g.values);
    rows.push_back(
        {fmt::format("{} x {}", g.rows, g.columns), fmt::format("{:.6g}", s.mean), fmt::format("{:.6g}", s.deviation)});
  }
  return text + aligned(rows);
}

std::string entry_text(const ContainerReader& r, const std::string& name, const Entry& e) {
  const auto value = [&]<class T>(T v) {
    r.read(name, e.type, writable_bytes(v));
    return fmt::format("{}", v);
  };
  switch (e.type) {
    case EntryType::boolean:
      return value(std::uint8_t{}) == "0" ? "false" : "true";
    case EntryType::integer:
      return value(std::int64_t{});
    case EntryType::number:
      return value(double{});
    case EntryType::text:
      return e.bytes > 200 ? fmt::format("text of {} bytes", e.bytes) : r.text(name);
    case EntryType::floats:
      return fmt::format("floats [{}]", fmt::join(e.dims, " x "));
  }
  return {};
}

std::string own_checkpoint_text(const std::string& path) {
  const ContainerReader r(path, "checkpoint");
  Table rows = {{"entry", "value"}};
  for (const auto& [name, entry] : r.entries()) rows.push_back({name, entry_text(r, name, entry)});
  return fmt::format("'{}': checkpoint, format version {}\n{}", path, container_version, aligned(rows));
}

std::string own_model_text(const std::string& path) {
  return fmt::format("'{}': model, format version {}, float32\n{}", path, container_version,
                     graph_text(load_trained(path)));
}

// By name: safetensors begin with a number, as anything may.
bool is_tensor_file(const std::string& path) { return path.ends_with(".safetensors") || path.ends_with(".npz"); }

std::string tensor_file_text(const std::string& path) {
  const auto file = interchange::open_tensor_file(path);
  Table rows = {{"tensor", "type", "shape"}};
  for (const auto& e : file->entries())
    rows.push_back({e.name, std::string(interchange::name_of(e.kind)), interchange::shape_text(e.shape)});
  return fmt::format("'{}': {} tensors; the last axis is the fastest\n{}", path, file->entries().size(), aligned(rows));
}

std::string info_text(const std::string& path) {
  if (is_tensor_file(path)) return tensor_file_text(path);
  if (cntk::is_model(path)) return cntk_model_text(path);
  if (cntk::is_checkpoint(path)) return cntk_checkpoint_text(path);
  return kind_of(path) == "model" ? own_model_text(path) : own_checkpoint_text(path);
}

}  // namespace

std::string kind_of(const std::string& path) {
  std::string kind = container_kind(path);
  if (kind.empty())
    throw Error(
        fmt::format("'{}' is neither a model or checkpoint of this program nor one of CNTK\nfix: name a file "
                    "that a training has written as its modelPath",
                    path));
  return kind;
}

std::vector<std::size_t> chosen_nodes(const graph::Graph& g, const std::string& path,
                                      const std::vector<std::string>& names, const char* option) {
  if (names.empty() && g.outputs.empty())
    throw ConfigError({}, fmt::format("the model '{}' has no output nodes", path),
                      fmt::format("name a node: {} NODE; trainer info {} lists them", option, path));
  if (names.empty()) return g.outputs;
  std::vector<std::size_t> nodes;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(g.nodes, name, &graph::Node::name);
    if (found == g.nodes.end()) {
      std::vector<std::string> all;
      for (const auto& node : g.nodes) all.push_back(node.name);
      throw ConfigError({}, fmt::format("{}: the network in '{}' has no node '{}'", option, path, name),
                        did_you_mean(name, all, fmt::format("trainer info {} lists the nodes", path)));
    }
    nodes.push_back(static_cast<std::size_t>(found - g.nodes.begin()));
  }
  return nodes;
}

ModelCommand info_command() {
  return {{"info",
           "MODEL",
           1,
           "shows the nodes, parameters and statistics of a model or checkpoint, or the tensors of a .safetensors or "
           ".npz file",
           {}},
          [](const CommandWords& words) { return info_text(words.files[0]); }};
}

namespace {

const std::vector<ModelCommand>& model_commands() {
  static const std::vector<ModelCommand> commands = {info_command(), import_command(), export_command(),
                                                     predict_command()};
  return commands;
}

const ModelCommand* find_model_command(const std::string& name) {
  for (const ModelCommand& command : model_commands())
    if (command.form.name == name) return &command;
  return nullptr;
}

}  // namespace

std::string model_command_help(const std::string& name) {
  const ModelCommand* command = find_model_command(name);
  return command ? help_text(command->form) : "";
}

std::vector<std::string> model_command_options(const std::string& name) {
  std::vector<std::string> options;
  if (const ModelCommand* command = find_model_command(name))
    for (const CommandOption& option : command->form.options) options.push_back(option.name);
  return options;
}

std::string run_model_command(const std::vector<std::string>& words) {
  const ModelCommand* command = find_model_command(words[0]);
  if (!command) throw ConfigError({}, fmt::format("there is no command '{}'", words[0]), "trainer --help");
  if (std::ranges::find(words, "--help") != words.end()) return help_text(command->form);
  const CommandWords read = read_words(words, command->form);
  try {
    return command->run(read);
  } catch (const Error& e) {
    throw Error(fmt::format("error: {}", e.what()));
  }
}

}  // namespace tutti::actions

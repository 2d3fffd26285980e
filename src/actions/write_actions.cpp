// SPDX-License-Identifier: Apache-2.0
// The actions that write on rank 0: write (node values per sample) and dumpNode (parameters).
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>

#include "actions/evaluation_network.h"
#include "base/file_names.h"
#include "base/host.h"
#include "base/write_root.h"
#include "config/text.h"
#include "reader/htk/htk_features.h"
#include "reader/lines.h"
#include "train/file.h"
#include "train/metrics/options.h"
#include "train/model_file.h"
#include "train/text_output.h"
#include "tutti/log.h"

namespace tutti::actions {
namespace {

// The block of one node.
struct HtkOutputOptions {
  std::int64_t dim = 0;
  std::string list, type = "Real";
  void describe(config::Fields& f);
};

struct WriteOptions {
  ComputeType compute_type = ComputeType::float32;
  std::string model_path;
  std::vector<std::string> output_node_names;
  std::string output_path;
  config::Schedule<std::int64_t> minibatch_size = 2048;
  std::int64_t epoch_size = 0;
  std::int64_t trace_level = 0;
  OutputFormat format;
  std::map<std::string, HtkOutputOptions> writers;  // by node; empty for text
  void describe(config::Fields&);
};
struct DumpNodeOptions : DumpOptions {
  std::string model_path, output_file;
  void describe(config::Fields&);
};

void WriteOptions::describe(config::Fields& f) {
  f("modelPath", model_path, "the model whose nodes are written");
  describe_compute_type(f, compute_type);
  f("outputNodeNames", output_node_names, "nodes to write; default: the output nodes of the network");
  f("outputPath", output_path, "output files are named outputPath.<node>; - is stdout");
  f("minibatchSize", minibatch_size, "samples per minibatch");
  f("epochSize", epoch_size, "samples to write; 0 = all");
  f("traceLevel", trace_level, "0 = results only");
  f.block("format", format, "format of the text");
  f.no_effect("nodeUnitTest", "gradients are not written");
  check_minibatch_sizes(f, minibatch_size);
}

void DumpNodeOptions::describe(config::Fields& f) {
  f("modelPath", model_path, "the model to print");
  f("nodeName", node_name, "one node; __AllNodes__ = all");
  f("nodeNameRegex", node_name_regex, "regular expression that matches the whole name of the nodes to print");
  f("outputFile", output_file, "default: <modelPath>.<nodeName>.txt");
  f("printValues", print_values, "print the values of parameters");
  f("printMetadata", print_metadata, "print operations, inputs and shapes");
}

void HtkOutputOptions::describe(config::Fields& f) {
  f("dim", dim, "values per frame");
  f.required("dim");
  f("scpFile", list, "a list of the files to write, one per utterance, in the order of the reader");
  f.alias("file", "scpFile");
  f.required("scpFile");
  f("type", type, "Real");
  if (f.given("dim") && (dim < 1 || dim > reader::most_htk_numbers))
    f.problem("dim", fmt::format("a frame of {} numbers does not fit into an HTK file", dim),
              fmt::format("1 to {}; outputPath writes text", reader::most_htk_numbers));
  if (type != "Real" && type != "real") f.problem("type", fmt::format("there is no type '{}'", type), "type = Real");
}

// Reads a list of output files. Throws Error.
std::vector<std::string> read_output_list(const std::string& path) {
  std::vector<std::string> files;
  if (!reader::each_line(path, [&](std::size_t, const std::string& line) { files.push_back(line); }))
    throw Error(fmt::format("the file '{}' cannot be read: {}", path, std::strerror(errno)));
  return files;
}

// Writes utterance i to the file in line i of the list.
class HtkOutput final : public NodeWriter {
 public:
  HtkOutput(std::string node, const HtkOutputOptions& options)
      : node_(std::move(node)), options_(options), files_(read_output_list(options.list)) {}
  void write(const Network::Output& output, std::span<const std::int64_t> sequence_begin, std::int64_t) override {
    const std::size_t n = output.shape.elements();
    if (n != static_cast<std::size_t>(options_.dim))
      throw Error(fmt::format("write: the node '{}' has {} values per frame, its writer says dim = {}", node_, n,
                              options_.dim));
    if (!output.per_sample)
      throw Error(fmt::format("write: the node '{}' has one value for all data, not one per frame", node_));
    for (std::size_t s = 0; s + 1 < sequence_begin.size(); ++s) {
      const auto first = static_cast<std::size_t>(sequence_begin[s]),
                 last = static_cast<std::size_t>(sequence_begin[s + 1]);
      if (next_ == files_.size())
        throw Error(fmt::format("write: '{}' lists {} files, and the data have more utterances", options_.list, next_));
      const std::string& path = files_[next_++];
      const auto values = output.values.subspan(first * n, (last - first) * n);
      const auto wrong = std::count_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
      if (wrong > 0) log::warning(fmt::format("{} values in '{}' are not finite", wrong, path));
      create_directories(directory_of(path));
      reader::write_htk_file(path, n, values);
      log::line(fmt::format("evaluate: writing {} frames of {}", last - first, path));
    }
  }

  void finish() override {
    if (next_ < files_.size())
      log::warning(fmt::format("'{}' lists {} files, and the data have {} utterances: the others were not written",
                               options_.list, files_.size(), next_));
  }

 private:
  std::string node_;
  HtkOutputOptions options_;
  std::vector<std::string> files_;
  std::size_t next_ = 0;
};

// What an output file must not be, with the reason: an input of the reader, a list of outputs, or an output that was
// listed before.
using TakenFiles = std::map<std::string, const char*>;

struct ReaderFiles {
  std::size_t utterances = 0;  // 0 when that is not known
  TakenFiles taken;
};

// Returns the utterances of the first list.
std::size_t add_inputs(const config::Record& streams, TakenFiles& taken) {
  constexpr const char* reason = "which the reader reads";
  std::size_t utterances = 0;
  for (const auto& key : streams.keys()) {
    if (!streams.is_block(key)) continue;
    const config::Record stream = streams.block(key);
    if (stream.has_own("mlfFile")) taken.emplace(same_file(stream.value("mlfFile").text).string(), reason);
    if (!stream.has_own("scpFile")) continue;
    const reader::HtkFeatureOptions options{stream.value("scpFile").text, stream.string("prefixPathInSCP", "")};
    const auto lines = read_output_list(options.scp);
    if (utterances == 0) utterances = lines.size();
    taken.emplace(same_file(options.scp).string(), reason);
    for (const std::string& line : lines)
      if (reader::ScpEntry e; reader::read_scp_entry(options, line, e))
        taken.emplace(same_file(e.path).string(), reason);
  }
  return utterances;
}

// The deserializers of a CompositeDataReader, which may have settings of their own.
std::vector<config::Record> deserializers_of(const config::Record& reader) {
  return reader.has_own("deserializers") ? reader.blocks("deserializers") : std::vector<config::Record>();
}

ReaderFiles files_of_reader(const config::Record& reader) {
  ReaderFiles found;
  try {
    found.utterances = add_inputs(reader, found.taken);
    for (const config::Record& d : deserializers_of(reader))  // the utterances that all have are not known yet
      if (d.is_block("input")) add_inputs(d.block("input"), found.taken);
  } catch (const Error&) {
    // The reader reports its list.
  }
  return found;
}

void check_list(const ActionContext& context, const config::Record& block, const HtkOutputOptions& o,
                ReaderFiles& reader) {
  const SourcePos where = block.value(block.has_own("scpFile") ? "scpFile" : "file").where;
  try {
    const auto files = read_output_list(o.list);
    if (reader.utterances > files.size())
      context.problem(
          where,
          fmt::format("'{}' lists {} files, but the reader has {} utterances", o.list, files.size(), reader.utterances),
          "one output file per utterance, in the same order");
    for (const std::string& file : files) {
      if (!context.may_write(file, where)) return;
      const auto [before, fresh] = reader.taken.emplace(same_file(file).string(), "which is listed already");
      if (fresh) continue;
      context.problem(where, fmt::format("'{}' lists the file '{}', {}", o.list, file, before->second),
                      "each utterance of each node needs an output file of its own");
      return;
    }
  } catch (const Error& e) {
    context.problem(where, e.what(), "the list holds one path of an output file per line");
  }
}

// Of the reader and its deserializers. Sequences that are skipped would shift the others to the wrong files.
void refuse_max_errors(const ActionContext& context, const config::Record& reader) {
  std::vector<config::Record> blocks = deserializers_of(reader);
  blocks.insert(blocks.begin(), reader);
  for (const config::Record& block : blocks) {
    if (block.integer("maxErrors", 0) <= 0) continue;
    context.problem(place_of(block, "maxErrors"),
                    "with maxErrors utterances may be skipped, and the others would go to the wrong files",
                    "maxErrors = 0 under write; damaged utterances leave both lists");
    return;
  }
}

// Reads the block writer = [ writerType = ... ] for these nodes. Mistakes: an unknown writerType, a node without a
// block, lists whose lengths differ from each other or from the reader's.
std::map<std::string, HtkOutputOptions> read_writer_block(const ActionContext& context,
                                                          const std::vector<std::string>& nodes) {
  std::map<std::string, HtkOutputOptions> outputs;
  const config::Record writer = context.command.block("writer");
  const std::string type = writer.string("writerType", "");
  if (!config::equal_keys(type, "HTKMLFWriter")) {
    const SourcePos where = writer.has_own("writerType") ? writer.value("writerType").where : writer.where();
    context.problem(where,
                    type.empty() ? "the writer block has no writerType" : fmt::format("there is no writer '{}'", type),
                    "writerType = HTKMLFWriter, or outputPath instead of the writer block writes text");
    return outputs;
  }
  if (nodes.empty()) {
    context.problem(writer.where(), "a writer needs outputNodeNames",
                    "outputNodeNames = node, and a block of that name in the writer");
    return outputs;
  }
  ReaderFiles files;
  if (context.command.is_block("reader")) {
    const config::Record reader = context.command.block("reader");
    refuse_max_errors(context, reader);
    files = files_of_reader(reader);
  }
  for (const auto& key : writer.keys()) {
    const bool node =
        std::any_of(nodes.begin(), nodes.end(), [&](const auto& n) { return config::equal_keys(n, key); });
    if (!node && !config::equal_keys(key, "writerType"))
      context.notice(fmt::format("'{}' in the writer block has no effect", key));
  }
  std::vector<std::string> listed;
  for (const auto& node : nodes) {
    if (!writer.has_own(node) || !writer.is_block(node)) {
      context.problem(writer.where(), fmt::format("the writer has no block for the node '{}'", node),
                      fmt::format("{} = [ dim = ... ; scpFile = ... ]", node));
      continue;
    }
    const config::Record block = writer.block(node);
    const auto before = context.problems->count();
    outputs[node] = config::read<HtkOutputOptions>(block, node, *context.problems, *context.notices);
    if (context.problems->count() > before) continue;
    listed.push_back(node);
    files.taken.emplace(same_file(outputs[node].list).string(), "itself a list of outputs");
  }
  for (const auto& node : listed) check_list(context, writer.block(node), outputs[node], files);
  return outputs;
}

constexpr const char* kNameOutputs = "set outputNodeNames; the action dumpNode lists all nodes";

struct OpenOutput {
  std::unique_ptr<std::ofstream> file;  // none for stdout and for writers that open files of their own
  std::unique_ptr<NodeWriter> writer;
};

std::string name_of_model(const WriteOptions& options) {
  return options.model_path.empty() ? "from the network builder" : options.model_path;
}

std::string without_outputs(const WriteOptions& options) {
  return options.model_path.empty() ? "the network has no output nodes"
                                    : fmt::format("the model '{}' has no output nodes", options.model_path);
}

std::vector<std::string> nodes_to_write(const WriteOptions& options, const graph::Graph& graph) {
  if (!options.output_node_names.empty()) return options.output_node_names;
  log::line("OutputNodeNames are not specified, using the default outputnodes.");
  std::vector<std::string> names;
  for (auto n : graph.outputs) names.push_back(graph.nodes[n].name);
  if (names.empty()) throw Error(fmt::format("write: {}\nfix: {}", without_outputs(options), kNameOutputs));
  return names;
}

OpenOutput open_output(const WriteOptions& options, const std::string& node, const std::vector<std::string>& labels) {
  OpenOutput o;
  if (!options.writers.empty()) {
    o.writer = std::make_unique<HtkOutput>(node, options.writers.at(node));
    return o;
  }
  if (options.output_path != "-") {
    const std::filesystem::path path(options.output_path + "." + node);
    require_in_write_root(path.string());
    std::error_code ignored;
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
    o.file = std::make_unique<std::ofstream>(path, std::ios::binary);
    if (!*o.file) throw Error(fmt::format("write: cannot open '{}': {}", path.string(), std::strerror(errno)));
  }
  std::ostream& stream = o.file ? static_cast<std::ostream&>(*o.file) : std::cout;
  o.writer = std::make_unique<TextOutput>(stream, options.format, node, labels);
  return o;
}

void write(const ActionContext& context, const WriteOptions& options, Reader& reader) {
  const auto network = evaluation_network(context, options.model_path, {}, options.output_node_names);
  const auto nodes = nodes_to_write(options, network->graph());
  warn_of_missing_statistics(*network, nodes);
  network->bind(reader.streams());
  const auto minibatch = options.minibatch_size.at(0);
  network->plan_evaluation(minibatch, nodes);
  std::vector<std::string> labels;
  if (!options.format.label_mapping_file.empty()) labels = read_label_mapping(options.format.label_mapping_file);
  std::vector<OpenOutput> outputs;
  for (const auto& node : nodes) outputs.push_back(open_output(options, node, labels));
  EpochPlan plan;
  plan.samples = options.epoch_size;
  plan.minibatch = minibatch;
  reader.start_epoch(plan);
  std::int64_t minibatches = 0, samples = 0, planned = 0;
  while (const Batch* batch = reader.next()) {
    const auto values = network->forward(*batch);
    for (std::size_t i = 0; i < values.size(); ++i)
      outputs[i].writer->write(values[i], values[i].sequence_begin, minibatches);
    log::line(fmt::format("Minibatch[{}]: ActualMBSize = {}", minibatches, batch->samples));
    ++minibatches;
    samples += batch->samples;
    planned += batch->global_samples;
  }
  for (auto& o : outputs) {
    o.writer->finish();
    if (o.file && !*o.file)
      throw Error(fmt::format("write: writing to '{}*' failed (disk full?)", options.output_path));
  }
  if (options.writers.empty()) log::line(fmt::format("Written to {}*", options.output_path));
  if (samples < planned)
    log::warning(fmt::format("{} of {} samples were not written: their data are damaged", planned - samples, planned));
  log::line(fmt::format("Total Samples Evaluated = {}", samples));
}

// Before any command starts, rather than when it is this one's turn.
void check_files(const ActionContext& context, const WriteOptions& options) {
  const std::string& labels = options.format.label_mapping_file;
  if (!labels.empty() && !file_exists(labels))
    context.problem(place_of(context.command.block("format"), "labelMappingFile"),
                    fmt::format("there is no file '{}'", labels), "line n of the file is printed for class n, from 0");
  if (options.output_path.empty() || options.output_path == "-" || context.world->rank() != 0) return;
  if (const std::string why = why_unwritable(options.output_path + ".node", false); !why.empty())
    context.problem("outputPath", fmt::format("outputPath: {}", why), "name files that can be written");
}

void check_network(const ActionContext& context, const WriteOptions& options, const Reader* reader) {
  with_graph(context, options.model_path, [&](const graph::Graph& graph) {
    auto unknown = unknown_nodes(context.command, "outputNodeNames", options.output_node_names, graph);
    if (!unknown.empty()) throw ConfigError(std::move(unknown));
    const auto nodes = options.output_node_names.empty() ? graph.outputs : indices_of(graph, options.output_node_names);
    if (nodes.empty()) return context.problem("outputNodeNames", without_outputs(options), kNameOutputs);
    if (reader) check_streams(context, *reader, graph, nodes_to_report(graph, {}), nodes);
  });
}

std::optional<Action> make_write(const ActionContext& context, WriteOptions options) {
  options.model_path = model_to_read(context, options.model_path);
  options.output_node_names = node_list(options.output_node_names);
  check_compute_type(context, options.compute_type);
  if (context.command.is_block("writer") && options.output_path.empty())
    options.writers = read_writer_block(context, options.output_node_names);
  else if (options.output_path.empty())
    context.problem(context.command.where(), fmt::format("'{}' names no output", context.command_name),
                    "outputPath = \"...\" for text, or writer = [ writerType = HTKMLFWriter ... ]");
  else if (context.command.is_block("writer"))
    context.notice("the writer block has no effect: outputPath writes text");
  const std::shared_ptr<Reader> reader = open_reader(context, "reader", "write", static_cast<int>(options.trace_level));
  if (check_model_to_read(context, options.model_path, true)) check_network(context, options, reader.get());
  check_files(context, options);
  return Action{.settings = fmt::format(
                    "  model      {}\n  output     {}", name_of_model(options),
                    options.writers.empty() ? options.output_path : "HTK files, as the writer block lists them"),
                .run = [context = context.for_running(), options, reader] { write(context, options, *reader); }};
}

std::optional<Action> make_dump_node(const ActionContext& context, DumpNodeOptions options) {
  check_model_to_read(context, options.model_path, true);
  check(context, [&] { check_regex(place_of(context.command, "nodeNameRegex"), options.node_name_regex); });
  if (!context.flawless()) return std::nullopt;
  check_node_pattern(context, "nodeNameRegex", options.node_name_regex, options.model_path);
  if (options.node_name_regex.empty() && options.node_name != "__AllNodes__")
    check_node_names(context, "nodeName", {options.node_name}, options.model_path);
  const std::string file = options.output_file.empty() ? fmt::format("{}.{}.txt", options.model_path, options.node_name)
                                                       : options.output_file;
  context.may_write(file, "outputFile");
  return Action{.settings = fmt::format("  model      {}\n  output     {}", options.model_path, file),
                .run = [context = context.for_running(), options, file] {
                  const auto network = evaluation_network(context, options.model_path, {});
                  write_file(file, [&](std::ostream& out) { dump_nodes(view_model(*network), options, out); });
                }};
}

}  // namespace

ActionEntry write_action() {
  return action_entry({"write"}, false, make_write, "writes node values per sample, as text or as HTK files");
}
ActionEntry dump_node_action() {
  return action_entry({"dumpNode", "dumpNodes"}, false, make_dump_node, "prints a model's nodes and parameters");
}

}  // namespace tutti::actions

// SPDX-License-Identifier: Apache-2.0
#include "actions/write_actions.h"
#include "actions/compute_type.h"
#include "base/host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <regex>

#include "actions/evaluation_network.h"
#include "actions/node_names.h"
#include "train/model_file.h"
#include "tutti/log.h"

namespace tutti::actions {

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

namespace {

struct OpenOutput {
  std::unique_ptr<std::ofstream> file;  // none for stdout and for writers that open files of their own
  std::unique_ptr<NodeWriter> writer;
};

class WriteAction final : public Action {
 public:
  WriteAction(ActionContext context, WriteOptions options, std::unique_ptr<Reader> reader)
      : context_(std::move(context)), options_(std::move(options)), reader_(std::move(reader)) {}

  std::string settings() const override {
    return fmt::format("  model      {}\n  output     {}", model(),
                       options_.writers.empty() ? options_.output_path : "HTK files, as the writer block lists them");
  }

  void run() override {
    const auto network = evaluation_network(context_, options_.model_path, {});
    const auto nodes = nodes_to_write(*network);
    network->bind(reader_->streams());
    const auto minibatch = options_.minibatch_size.at(0);
    network->plan_evaluation(minibatch, nodes);
    open(nodes);
    EpochPlan plan;
    plan.samples = options_.epoch_size;
    plan.minibatch = minibatch;
    reader_->start_epoch(plan);
    std::int64_t minibatches = 0, samples = 0;
    while (const Batch* batch = reader_->next()) {
      const auto values = network->forward(*batch);
      for (std::size_t i = 0; i < values.size(); ++i)
        outputs_[i].writer->write(values[i], sequences(*batch, values[i]), minibatches);
      log::line(fmt::format("Minibatch[{}]: ActualMBSize = {}", minibatches, batch->samples));
      ++minibatches;
      samples += batch->samples;
    }
    for (auto& o : outputs_) finish(o);
    if (options_.writers.empty()) log::line(fmt::format("Written to {}*", options_.output_path));
    log::line(fmt::format("Total Samples Evaluated = {}", samples));
  }

 private:
  std::string model() const { return options_.model_path.empty() ? "from the network builder" : options_.model_path; }

  std::vector<std::string> nodes_to_write(const Network& network) const {
    if (!options_.output_node_names.empty()) {
      auto unknown = unknown_nodes(context_.command, "outputNodeNames", options_.output_node_names, network.graph());
      if (!unknown.empty()) throw ConfigError(std::move(unknown));
      return options_.output_node_names;
    }
    log::line("OutputNodeNames are not specified, using the default outputnodes.");
    std::vector<std::string> names;
    for (auto n : network.graph().outputs) names.push_back(network.graph().nodes[n].name);
    if (names.empty())
      throw Error(fmt::format("write: the model '{}' has no output nodes; name some in outputNodeNames", model()));
    return names;
  }

  void open(const std::vector<std::string>& nodes) {
    std::vector<std::string> labels;
    if (!options_.format.label_mapping_file.empty()) labels = read_label_mapping(options_.format.label_mapping_file);
    for (const auto& node : nodes) {
      OpenOutput o;
      if (!options_.writers.empty()) {
        o.writer = std::make_unique<HtkOutput>(node, options_.writers.at(node));
        outputs_.push_back(std::move(o));
        continue;
      }
      if (options_.output_path != "-") {
        const std::filesystem::path path(options_.output_path + "." + node);
        std::error_code ignored;
        if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
        o.file = std::make_unique<std::ofstream>(path, std::ios::binary);
        if (!*o.file) throw Error(fmt::format("write: cannot open '{}': {}", path.string(), std::strerror(errno)));
      }
      std::ostream& stream = o.file ? static_cast<std::ostream&>(*o.file) : std::cout;
      o.writer = std::make_unique<TextOutput>(stream, options_.format, node, labels);
      outputs_.push_back(std::move(o));
    }
  }

  void finish(OpenOutput& o) const {
    o.writer->finish();
    if (o.file && !*o.file)
      throw Error(fmt::format("write: writing to '{}*' failed (disk full?)", options_.output_path));
  }

  // The sequences of the stream that has as many samples as the node's value.
  static std::span<const std::int64_t> sequences(const Batch& batch, const Network::Output& output) {
    if (!output.sequence_begin.empty()) return output.sequence_begin;
    for (const auto& s : batch.streams)
      if (s.columns == output.columns) return s.sequence_begin;
    return batch.streams.at(0).sequence_begin;
  }

  ActionContext context_;
  WriteOptions options_;
  std::unique_ptr<Reader> reader_;
  std::vector<OpenOutput> outputs_;
};

class DumpNodeAction final : public Action {
 public:
  DumpNodeAction(ActionContext context, DumpNodeOptions options)
      : context_(std::move(context)), options_(std::move(options)) {}

  std::string settings() const override {
    return fmt::format("  model      {}\n  output     {}", options_.model_path, output_file());
  }
  void run() override {
    const auto network = evaluation_network(context_, options_.model_path, {});
    const DumpOptions options{options_.node_name, options_.node_name_regex, options_.print_values,
                              options_.print_metadata};
    write_file(output_file(), [&](std::ostream& out) { dump_nodes(view_model(*network), options, out); });
  }

 private:
  std::string output_file() const {
    return options_.output_file.empty() ? fmt::format("{}.{}.txt", options_.model_path, options_.node_name)
                                        : options_.output_file;
  }

  ActionContext context_;
  DumpNodeOptions options_;
};

}  // namespace

std::unique_ptr<Action> make_write_action(const ActionContext& context) {
  const auto before = context.problems->count();
  auto options = read_command<WriteOptions>(context);
  options.model_path = model_to_read(context, options.model_path);
  options.output_node_names = node_list(options.output_node_names);
  check_compute_type(context, options.compute_type);
  if (context.command.is_block("writer") && options.output_path.empty())
    options.writers = read_writer_block(context, options.output_node_names);
  else if (options.output_path.empty())
    context.problems->add(Diagnostic{context.command.where(), fmt::format("'{}' names no output", context.command_name),
                                     "outputPath = \"...\" for text, or writer = [ writerType = HTKMLFWriter ... ]"});
  else if (context.command.is_block("writer"))
    context.notices->lines.push_back("the writer block has no effect: outputPath writes text");
  auto reader = open_reader(context, "reader", "write", static_cast<int>(options.trace_level));
  check_model_to_read(context, options.model_path, true);
  check_node_names(context, "outputNodeNames", options.output_node_names, options.model_path);
  if (context.problems->count() > before) return nullptr;
  return std::make_unique<WriteAction>(context.for_running(), std::move(options), std::move(reader));
}

std::unique_ptr<Action> make_dump_node_action(const ActionContext& context) {
  const auto before = context.problems->count();
  auto options = read_command<DumpNodeOptions>(context);
  check_model_to_read(context, options.model_path, true);
  check(context, [&] {
    try {
      const std::regex compiled(options.node_name_regex);
    } catch (const std::regex_error& e) {
      throw ConfigError(context.command.value("nodeNameRegex").where,
                        fmt::format("not a regular expression: {}", e.what()));
    }
  });
  if (context.problems->count() > before) return nullptr;
  check_node_pattern(context, "nodeNameRegex", options.node_name_regex, options.model_path);
  if (options.node_name_regex.empty() && options.node_name != "__AllNodes__")
    check_node_names(context, "nodeName", {options.node_name}, options.model_path);
  if (context.problems->count() > before) return nullptr;
  return std::make_unique<DumpNodeAction>(context.for_running(), std::move(options));
}

}  // namespace tutti::actions

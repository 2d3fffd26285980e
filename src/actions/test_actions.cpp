// SPDX-License-Identifier: Apache-2.0
// action = "test" (also "eval") and action = "cv".
#include <fmt/format.h>
#include <fmt/printf.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <ostream>
#include <string_view>
#include <thread>

#include "actions/confusion_table.h"
#include "actions/cpu.h"
#include "actions/evaluation_network.h"
#include "base/activity.h"
#include "base/host.h"
#include "train/metrics/options.h"
#include "train/text_output.h"
#include "train/training.h"
#include "tutti/log.h"
#include "tutti/reader.h"

namespace tutti::actions {

namespace {

// Larger minibatches would only need more memory: the products are large enough.
constexpr std::int64_t largest_evaluation_part = 1024;

struct EvaluateOptions {
  ComputeType compute_type = ComputeType::float32;
  std::string model_path;
  config::Schedule<std::int64_t> minibatch_size = 40960;
  std::int64_t epoch_size = 0;
  std::vector<std::string> eval_node_names;
  std::int64_t num_mbs_to_show_result = 100, first_mbs_to_show_result = 0;
  std::int64_t trace_level = 0;
  bool distributed_reading = true;
  void describe(config::Fields&);
};
struct TestOptions : EvaluateOptions {
  bool confusion_table = false;
  std::string confusion_file, label_mapping_file;
  void describe(config::Fields&);
  bool counts_classes() const { return confusion_table || !confusion_file.empty(); }
};
struct CvOptions : EvaluateOptions {
  config::Schedule<std::int64_t> interval;
  std::int64_t sleep_time = 0;
  void describe(config::Fields&);
};

void EvaluateOptions::describe(config::Fields& f) {
  f("modelPath", model_path, "the model to evaluate");
  describe_compute_type(f, compute_type);
  f("minibatchSize", minibatch_size, "samples per minibatch over all ranks; only the first value is used");
  f("epochSize", epoch_size, "samples to evaluate; 0 = all");
  f("evalNodeNames", eval_node_names, "nodes to report; default: the evaluation nodes, then the criteria");
  f("numMBsToShowResult", num_mbs_to_show_result, "minibatches between two log lines (with traceLevel > 0); 0 = none");
  f("firstMBsToShowResult", first_mbs_to_show_result, "also report each of the first n minibatches");
  f("traceLevel", trace_level, "0 = the result only, 1 = also intermediate lines");
  f("distributedMBReading", distributed_reading, "accepted; every rank always reads only its share");
  check_minibatch_sizes(f, minibatch_size);
  if (epoch_size < 0) f.problem("epochSize", "is negative", "0 means all data");
}

void TestOptions::describe(config::Fields& f) {
  f.inherit_nothing("labelMappingFile");  // further out it is meant for readers
  EvaluateOptions::describe(f);
  f("confusionTable", confusion_table, "print how often each class was taken for each other, and rates of each class");
  f("confusionFile", confusion_file, "write that table to this file, as comma-separated values");
  f("labelMappingFile", label_mapping_file, "line n of this file is the name of class n in the table, from 0");
  if (!label_mapping_file.empty() && !counts_classes())
    f.problem("labelMappingFile", "labelMappingFile has no effect without confusionTable or confusionFile",
              "add confusionTable = true");
}

void CvOptions::describe(config::Fields& f) {
  EvaluateOptions::describe(f);
  f("crossValidationInterval", interval, "first:step:last epoch of the models to compare");
  f("sleepTimeBetweenRuns", sleep_time, "seconds between two models");
  if (interval.size() != 0 && interval.size() != 2 && interval.size() != 3)
    f.problem("crossValidationInterval", "needs two or three numbers", "write first:last or first:step:last");
  for (auto v : interval.values)
    if (v < 0) f.problem("crossValidationInterval", "has a negative number", "epochs count from 0, the initial model");
  if (interval.size() == 3 && interval.values[1] < 1)
    f.problem("crossValidationInterval", "has a step below 1", "first:step:last");
}

// Perplexity is a measure of models of sequences; of a classifier it would say nothing that the entropy does not.
bool is_sequence_model(const graph::Graph& graph) {
  constexpr std::string_view in_time[] = {"PastValue", "FutureValue", "LSTM", "GRU", "TimeReverse"};
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& n) {
    return std::find(std::begin(in_time), std::end(in_time), n.operation) != std::end(in_time);
  });
}

bool shows_perplexity(const std::string& operation, bool sequences) {
  return (sequences && (operation == "CrossEntropyWithSoftmax" || operation == "CrossEntropy")) ||
         operation == "ClassBasedCrossEntropyWithSoftmax" || operation == "NoiseContrastiveEstimation";
}

std::string final_line(const Network& network, const EvaluationRun& run) {
  const std::vector<NodeResult> names = network.evaluations();
  const bool sequences = is_sequence_model(network.graph());
  std::string out = fmt::format("Final Results: Minibatch[1-{}]: ", run.minibatches);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i) out += "; ";
    out += format_result(names[i], run.sums[i].sum, run.sums[i].count);
    if (shows_perplexity(names[i].operation, sequences) && run.sums[i].count > 0)
      out += fmt::sprintf("; perplexity = %.8f", std::exp(run.sums[i].sum / run.sums[i].count));
  }
  return out;
}

EpochPlan evaluation_plan(const ActionContext& context, const EvaluateOptions& options) {
  EpochPlan plan;
  plan.samples = options.epoch_size;
  plan.minibatch = options.minibatch_size.at(0);
  plan.rank = context.parallel ? context.world->rank() : 0;
  plan.ranks = context.parallel ? context.world->size() : 1;
  return plan;
}

// One model over the whole data set.
EvaluationRun evaluate_model(Network& network, Reader& reader, const ActionContext& context,
                             const EvaluateOptions& options) {
  network.bind(reader.streams());
  const int ranks = context.parallel ? context.world->size() : 1;
  const auto minibatch = options.minibatch_size.at(0);
  // Planned for what can come, not for the default of 40960, which would be most of a small machine's memory.
  const auto share = std::min<std::int64_t>((minibatch + ranks - 1) / ranks, largest_evaluation_part);
  network.plan_evaluation(share, {});
  const EpochPlan plan = evaluation_plan(context, options);
  std::size_t weights = 0;
  for (const auto& slice : network.parameters().slices) weights += slice.size();
  const ThreadLimit limit(
      threads_for(2.0 * static_cast<double>(weights) * static_cast<double>(share), context.command, context.device));
  EvaluationLines lines{options.trace_level > 0 ? options.num_mbs_to_show_result : 0, options.first_mbs_to_show_result};
  return evaluate(network, reader, *context.world, plan, lines, EvaluationOf::listed_nodes, context.parallel);
}

// A second pass over the data, in minibatches whose values fit into memory.
ConfusionTable count_classes(Network& network, Reader& reader, const ActionContext& context, const TestOptions& options,
                             const std::vector<std::string>& names) {
  const Classification what = find_classification(network.graph()).value();
  EpochPlan plan = evaluation_plan(context, options);
  plan.minibatch = std::min(plan.minibatch, largest_evaluation_part * plan.ranks);
  network.plan_evaluation(std::min(largest_evaluation_part, plan.minibatch), {what.labels, what.scores});
  network.bind(reader.streams());
  reader.start_epoch(plan);
  std::optional<ConfusionTable> table;
  while (const Batch* batch = reader.next()) {
    made_progress();
    const auto values = network.forward(*batch);
    const auto &labels = values.at(0), &scores = values.at(1);
    const std::size_t classes = scores.shape.elements();
    if (!table && classes > ConfusionTable::most_classes)
      throw Error(
          fmt::format("a confusion table of {} classes; the most are {}\nfix: remove confusionTable and "
                      "confusionFile",
                      classes, ConfusionTable::most_classes));
    if (!options.label_mapping_file.empty())
      check_class_names("labelMappingFile: ", options.label_mapping_file, names.size(), what.scores, classes);
    if (labels.columns != scores.columns || labels.shape.elements() != classes)
      throw Error(fmt::format("confusionTable: '{}' and '{}' differ in their samples", what.labels, what.scores));
    if (!table) table.emplace(classes);
    for (std::size_t c = 0; c < scores.columns; ++c)
      table->add(labels.values.subspan(c * classes, classes), scores.values.subspan(c * classes, classes));
  }
  return table ? std::move(*table) : ConfusionTable(0);
}

void report_classes(Network& network, Reader& reader, const ActionContext& context, const TestOptions& options) {
  std::vector<std::string> names;
  if (!options.label_mapping_file.empty()) names = read_label_mapping(options.label_mapping_file);
  ConfusionTable table = count_classes(network, reader, context, options, names);
  if (context.parallel) table.sum_over(*context.world);
  if (options.confusion_table) log::line(table.text(names));
  if (options.confusion_file.empty() || context.world->rank() != 0) return;
  create_directories(directory_of(options.confusion_file));
  write_file(options.confusion_file, [&](std::ostream& out) { out << table.csv(names); });
}

// The numbered models of crossValidationInterval, and the final one.
std::vector<std::string> models_to_compare(const CvOptions& options) {
  const auto& v = options.interval.values;
  const std::int64_t first = v.empty() ? 0 : v[0], step = v.size() == 3 ? v[1] : 1;
  const std::int64_t last = v.empty() ? last_model_epoch(options.model_path) : v.back();
  std::vector<std::string> found;
  for (std::int64_t e = first; e <= last; e += step)
    if (std::string path = fmt::format("{}.{}", options.model_path, e); file_exists(path)) found.push_back(path);
  if (file_exists(options.model_path)) found.push_back(options.model_path);
  return found;
}

void compare_models(const ActionContext& context, const CvOptions& options, Reader& reader) {
  struct Best {
    double value = 0;
    std::string model;
  };
  std::vector<Best> best;
  std::vector<bool> largest;  // the best value
  for (const auto& path : models_to_compare(options)) {
    if (!best.empty()) std::this_thread::sleep_for(std::chrono::seconds(options.sleep_time));
    const auto network = evaluation_network(context, path, options.eval_node_names);
    // The model before the first epoch never has any.
    if (path != numbered_model_name(options.model_path, 0))
      warn_of_missing_statistics(*network, options.eval_node_names);
    const auto run = evaluate_model(*network, reader, context, options);
    const auto names = network->evaluations();
    best.resize(names.size()), largest.resize(names.size());
    log::line(fmt::format("Model {} --> {}", path, final_line(*network, run)));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const double average = run.sums[i].count > 0 ? run.sums[i].sum / run.sums[i].count : 0;
      const bool better = larger_is_better(names[i]) ? average > best[i].value : average < best[i].value;
      if (best[i].model.empty() ? !std::isnan(average) : better) best[i] = {average, path};
      largest[i] = larger_is_better(names[i]);
    }
  }
  if (best.empty())
    throw Error(fmt::format("cv: no model '{}.<epoch>' of crossValidationInterval exists", options.model_path));
  log::line("");
  log::line("Best models:");
  log::line("------------");
  for (std::size_t i = 0; i < best.size(); ++i)
    log::line(fmt::sprintf("Based on Err[%d]: Best model = %s with %s %.8g", i, best[i].model,
                           largest[i] ? "max value" : "min err", best[i].value));
}

// `table`: the setting that asks for a confusion table, or null.
void check_network(const ActionContext& context, const EvaluateOptions& options, const Reader* reader,
                   const char* table) {
  with_graph(context, options.model_path, [&](const graph::Graph& graph) {
    auto unknown = unknown_nodes(context.command, "evalNodeNames", options.eval_node_names, graph);
    const auto classes = table ? find_classification(graph) : std::nullopt;
    if (table && !classes)
      context.problem(
          table, fmt::format("{}: the network has no ClassificationError or CrossEntropyWithSoftmax", table),
          fmt::format("add errs = ClassificationError (labels, z) to evaluationNodes, or remove {}", table));
    if (!unknown.empty()) throw ConfigError(std::move(unknown));
    if (!reader) return;
    const auto reported = nodes_to_report(graph, options.eval_node_names);
    auto computed = reported;
    if (!graph.criteria.empty()) computed.push_back(graph.criteria.front());
    if (classes)
      for (const std::size_t n : indices_of(graph, {classes->labels, classes->scores})) computed.push_back(n);
    check_streams(context, *reader, graph, reported, computed);
  });
}

// Null if something is wrong.
std::shared_ptr<Reader> check_evaluation(const ActionContext& context, EvaluateOptions& options, const char* action,
                                         bool exact, const char* table) {
  options.eval_node_names = node_list(options.eval_node_names);
  check_compute_type(context, options.compute_type);
  auto reader = open_reader(context, "reader", action, static_cast<int>(options.trace_level));
  if (check_model_to_read(context, options.model_path, exact)) check_network(context, options, reader.get(), table);
  return reader;
}

void check_files(const ActionContext& context, const TestOptions& options) {
  if (!options.counts_classes()) return;
  if (!options.label_mapping_file.empty() && !file_exists(options.label_mapping_file))
    context.problem("labelMappingFile", fmt::format("there is no file '{}'", options.label_mapping_file),
                    "one name per line; relative paths start at the directory in which the trainer was started");
  if (!options.confusion_file.empty() && context.world->rank() == 0)
    if (const std::string why = why_unwritable(options.confusion_file, false); !why.empty())
      context.problem("confusionFile", fmt::format("confusionFile: {}", why), "name a file that can be written");
}

std::optional<Action> make_test(const ActionContext& context, TestOptions options) {
  options.model_path = model_to_read(context, options.model_path);
  const char* const table = options.confusion_table ? "confusionTable" : "confusionFile";
  const auto reader = check_evaluation(context, options, "test", true, options.counts_classes() ? table : nullptr);
  check_files(context, options);
  if (!reader) return std::nullopt;
  return Action{.settings = fmt::format("  model      {}",
                                        options.model_path.empty() ? "from the network builder" : options.model_path),
                .run = [context = context.for_running(), options, reader] {
                  const auto network = evaluation_network(context, options.model_path, options.eval_node_names);
                  warn_of_missing_statistics(*network, options.eval_node_names);
                  const auto run = evaluate_model(*network, *reader, context, options);
                  log::line(final_line(*network, run));
                  if (options.counts_classes()) report_classes(*network, *reader, context, options);
                }};
}

std::optional<Action> make_cv(const ActionContext& context, CvOptions options) {
  const auto reader = check_evaluation(context, options, "cv", false, nullptr);
  return Action{
      .settings = fmt::format("  models     {}.*", options.model_path),
      .run = [context = context.for_running(), options, reader] { compare_models(context, options, *reader); }};
}

}  // namespace

ActionEntry test_action() {
  return action_entry({"test", "eval"}, true, make_test, "evaluates a model over a data set");
}
ActionEntry cv_action() {
  return action_entry({"cv"}, true, make_cv, "evaluates the models of several epochs and reports the best one");
}

}  // namespace tutti::actions

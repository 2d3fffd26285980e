// SPDX-License-Identifier: Apache-2.0
#include "actions/model_actions.h"

#include <fmt/format.h>

#include "actions/evaluation_network.h"
#include "train/batch_statistics.h"
#include "train/checkpoint.h"
#include "train/file.h"
#include "train/model_file.h"
#include "tutti/builder.h"
#include "tutti/log.h"

namespace tutti::actions {

void EditOptions::describe(config::Fields& f) {
  f("outputModelPath", output_model_path, "path of the edited model");
  f("editPath", edit_path, "script in the model editing language; replaces the network description");
  f("ndlMacros", ndl_macros, "file of NDL macros for that script");
  if (edit_path.empty()) f.required("outputModelPath");
}

void BatchStatisticsOptions::describe(config::Fields& f) {
  f("modelPath", model_path, "the model whose statistics are recomputed");
  f.required("modelPath");
  f("newModelPath", new_model_path, "path of the new model; default: modelPath.PBN");
  f("minibatchSize", minibatch_size, "samples per minibatch over all ranks; only the first value is used");
  f("itersPerNode", iterations_per_node, "minibatches per batch normalisation node");
  f("traceLevel", trace_level, "0 = results only");
  check_minibatch_sizes(f, minibatch_size);
  if (iterations_per_node < 1)
    f.problem("itersPerNode", fmt::format("itersPerNode must be at least 1, not {}", iterations_per_node),
              "at least 1");
}

namespace {

std::unique_ptr<Network> described_network(const ActionContext& context, std::int64_t& seed, Problems& problems,
                                           config::Notices& notices) {
  const auto before = problems.count();
  graph::Graph graph =
      build_network(context.command, {&problems, &notices, context.constant_seed, &seed, model_loader(context)});
  if (problems.count() > before) return nullptr;
  return std::make_unique<Network>(std::move(graph), NetworkOptions{});
}

class EditAction final : public Action {
 public:
  EditAction(ActionContext context, EditOptions options, std::int64_t seed)
      : context_(std::move(context)), options_(std::move(options)), seed_(seed) {}

  std::string settings() const override { return fmt::format("  model      {}", options_.output_model_path); }
  void run() override {
    Problems problems;
    config::Notices said_already;
    const auto network = described_network(context_, seed_, problems, said_already);
    problems.throw_if_any();
    network->initialize_parameters();
    create_directories(directory_of(options_.output_model_path));
    save_edited_model(options_.output_model_path, view_model(*network));
    log::line(fmt::format("Edited model saved to '{}'.", options_.output_model_path));
  }

 private:
  ActionContext context_;
  EditOptions options_;
  std::int64_t seed_;
};

class BatchStatisticsAction final : public Action {
 public:
  BatchStatisticsAction(ActionContext context, BatchStatisticsOptions options, std::unique_ptr<Reader> reader)
      : context_(std::move(context)), options_(std::move(options)), reader_(std::move(reader)) {}

  std::string settings() const override {
    return fmt::format("  model      {}\n  new model  {}", options_.model_path, options_.new_model_path);
  }
  void run() override {
    const auto network = evaluation_network(context_, options_.model_path, {});
    BatchStatisticsPlan plan;
    plan.minibatch = options_.minibatch_size.at(0);
    plan.iterations = options_.iterations_per_node;
    plan.rank = context_.parallel ? context_.world->rank() : 0;
    plan.ranks = context_.parallel ? context_.world->size() : 1;
    const std::size_t nodes = recompute_batch_statistics(*network, *reader_, *context_.world, plan);
    if (nodes == 0)
      log::warning(fmt::format("'{}' has no batch normalisation; the model is copied unchanged", options_.model_path));
    if (context_.world->rank() != 0) return;
    create_directories(directory_of(options_.new_model_path));
    save_model(options_.new_model_path, view_model(*network));
    log::line(fmt::format("Model with new statistics of {} nodes saved to '{}'.", nodes, options_.new_model_path));
  }

 private:
  ActionContext context_;
  BatchStatisticsOptions options_;
  std::unique_ptr<Reader> reader_;
};

}  // namespace

std::unique_ptr<Action> make_edit_action(const ActionContext& context) {
  const auto before = context.problems->count();
  const auto options = read_command<EditOptions>(context);
  if (context.problems->count() > before) return nullptr;
  if (!options.edit_path.empty()) return make_edit_script_action(context);
  const std::int64_t seed = *context.seed;
  try {
    const auto network = described_network(context, *context.seed, *context.problems, *context.notices);
    if (network)
      (*context.graphs_to_come)[options.output_model_path] = std::make_shared<graph::Graph>(network->graph());
    if (network && context.world->rank() == 0) check_writable(options.output_model_path, view_model(*network).bytes());
  } catch (const ModelToCome&) {
    // An earlier action of this run makes it, so this one checks again when its turn comes. The discarded network uses
    // no seeds.
    *context.seed = seed;
  } catch (const ConfigError& e) {
    context.problems->add(e);
  } catch (const Error& e) {
    context.problems->add(
        Diagnostic{context.command.value("outputModelPath").where, e.what(), "choose another outputModelPath"});
  }
  context.models_to_come->insert(options.output_model_path);
  if (context.problems->count() > before) return nullptr;
  return std::make_unique<EditAction>(context.for_running(), options, seed);
}

std::unique_ptr<Action> make_batch_statistics_action(const ActionContext& context) {
  const auto before = context.problems->count();
  auto options = read_command<BatchStatisticsOptions>(context);
  if (options.new_model_path.empty()) options.new_model_path = options.model_path + ".PBN";
  auto reader = open_reader(context, "reader", "train", static_cast<int>(options.trace_level));
  check_model_to_read(context, options.model_path, true);
  if (context.models_to_come) context.models_to_come->insert(options.new_model_path);
  if (context.problems->count() > before) return nullptr;
  return std::make_unique<BatchStatisticsAction>(context.for_running(), std::move(options), std::move(reader));
}

}  // namespace tutti::actions

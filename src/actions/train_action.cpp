// SPDX-License-Identifier: Apache-2.0
// action = "train": assembles the parts of a Training.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "actions/cpu.h"
#include "actions/evaluation_network.h"
#include "actions/kernel_choices.h"
#include "actions/placed_training.h"
#include "actions/training_exchange.h"
#include "actions/training_settings.h"
#include "base/launcher.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "config/command_line.h"
#include "graph/shapes.h"
#include "train/checkpointing.h"
#include "train/rank_agreement.h"
#include "train/training.h"
#include "tutti/builder.h"
#include "tutti/log.h"

namespace tutti::actions {

namespace {

struct TrainOptions {
  std::string model_path;
  bool make_mode = true;
  std::int64_t trace_level = 0;
  ComputeType compute_type = ComputeType::float32;
  std::string loss_scale = "auto", kernel_choices = kTimedKernels;
  bool cuda_graphs = true;
  void describe(config::Fields&);
};

void TrainOptions::describe(config::Fields& f) {
  f("modelPath", model_path, "path of the model; checkpoints are written beside it");
  f("makeMode", make_mode, "continue from the newest checkpoint; false starts from scratch");
  f("traceLevel", trace_level, "0 = settings, epochs and results; 1 = also the config, parameters and minibatch lines");
  describe_compute_type(f, compute_type);
  f("cudaGraphs", cuda_graphs,
    "replay steps of the same shape as a CUDA graph; false launches every kernel separately");
  f("kernelChoices", kernel_choices,
    "which library computes a large matrix product on the CPU: auto times them once, none goes by shape; or a "
    "checkpoint or text file to take choices from");
  f("lossScale", loss_scale, "with computeType = float16: factor on gradients during backward; auto adapts it");
  if (!GradScaler::parse(loss_scale))
    f.problem("lossScale", fmt::format("lossScale cannot be '{}'", loss_scale),
              "write auto, or a power of two: lossScale = 1024");
}

// The place of a mistake without a single node: the nodes that SGD names, or the whole network.
SourcePos place_of_network(const ActionContext& context, const SgdOptions& sgd) {
  for (const auto& [key, name] : {std::pair("trainCriterionNodeName", &sgd.train_criterion_node),
                                  std::pair("evalCriterionNodeName", &sgd.eval_criterion_node)})
    if (!name->empty()) return context.command.block("SGD").value(key).where;
  for (const char* key :
       {"BrainScriptNetworkBuilder", "SimpleNetworkBuilder", "NDLNetworkBuilder", "KerasNetworkBuilder"})
    if (const auto value = context.command.find(key)) return value->where;
  return context.command.where();
}

// A network that replaces the description, as in CNTK: that of the newest file of the training if the file says so or
// is CNTK's, or of a model that action edit has saved as modelPath.0.
std::optional<graph::Graph> network_of_files(const ActionContext& context, const Training& t) {
  if (!t.make_mode || t.model_path.empty()) return std::nullopt;
  const std::string first = model_name(t.model_path, 0, t.sgd.max_epochs);
  if (context.is_to_come(first)) throw ModelToCome{first};
  Communicator* const reads = context.models_to_come ? nullptr : context.world;
  std::vector<std::string> said_when_it_resumes;
  const auto point = reads ? find_resume_point(t.model_path, t.sgd.max_epochs, *reads, said_when_it_resumes)
                           : find_resume_point(t.model_path, t.sgd.max_epochs, said_when_it_resumes);
  const std::string path = point && !point->finished ? point->model : first;
  const std::string_view kind = point && !point->finished ? point->model_kind() : "model";
  for (const auto& [file, as] : {std::pair(path, kind), std::pair(first, std::string_view("model"))}) {
    if (!replaces_description(file, reads, as)) continue;
    context.notice(
        fmt::format("the network is that of '{}'; the description in '{}' is not used (makeMode = false uses it)", file,
                    context.command_name));
    return load_trained(file, reads, as);
  }
  return std::nullopt;
}

// The lambdas of LambdaRank are no derivative of the value that it reports.
void check_gradient_check(const ActionContext& context, const SgdOptions& sgd, const Network& network) {
  if (!sgd.gradient_check) return;
  const graph::Graph& graph = network.graph();
  for (const std::size_t n : graph::evaluation_order(graph, indices_of(graph, {network.criterion().name})))
    if (graph.nodes[n].operation == "LambdaRank")
      throw ConfigError(context.command.block("SGD").value("gradientcheck").where,
                        fmt::format("gradientcheck cannot judge '{}': the gradients of LambdaRank are not the "
                                    "derivatives of its value",
                                    graph.nodes[n].name),
                        "gradientcheck = false");
}

void make_network(const ActionContext& context, const TrainOptions& of_action, Training& t) {
  const auto before = context.problems->count();
  auto of_files = network_of_files(context, t);
  t.network_of_files = of_files.has_value();
  graph::Graph graph = of_files
                           ? std::move(*of_files)
                           : build_network(context.command, {context.problems, context.notices, context.constant_seed,
                                                             context.seed, model_loader(context)});
  if (context.problems->count() > before) return;
  if (context.command.is_block("SGD") && !check_sgd_nodes(context, t.sgd, graph)) return;
  NetworkOptions options;
  options.criterion = t.sgd.train_criterion_node;
  options.device = context.device;
  options.kernels = t.kernels.used;
  if (supports(options.device, of_action.compute_type)) options.compute_type = of_action.compute_type;
  options.repeat_steps = of_action.cuda_graphs;
  options.label_smoothing = t.sgd.label_smoothing;
  options.regularize_normalization = !t.sgd.no_regularization_in_normalization;
  if (!t.sgd.eval_criterion_node.empty()) options.evaluations = {t.sgd.eval_criterion_node};
  try {
    place_layers(context, t, graph, options);
    auto network = std::make_unique<Network>(std::move(graph), options);
    if (network->criterion().name.empty())
      throw ConfigError({}, "the network has no training criterion",
                        "name one: criterionNodes = (ce), or tag = 'criterion' on the node");
    check_criterion(context, t.sgd, *network);
    check_gradient_check(context, t.sgd, *network);
    t.network = std::move(network);
  } catch (const ConfigError& e) {
    for (const Diagnostic& d : e.diagnostics())
      context.problem(d.where.source ? d.where : place_of_network(context, t.sgd), d.message, d.fix);
  }
}

// traceNodeNames...: finds a missing node now, not in the first minibatch.
void plan_trace(const ActionContext& context, Training& t) {
  if (!t.network) return;
  const auto nodes = traced_nodes(t.sgd, t.network->graph());
  t.traces = !nodes.empty();
  if (!t.traces) return;
  try {
    t.network->plan_evaluation(1, nodes);
  } catch (const ConfigError& e) {
    for (const Diagnostic& d : e.diagnostics()) context.problem(context.command.block("SGD").where(), d.message, d.fix);
  }
}

void bind_streams(const ActionContext& context, Network& network, const Reader& reader, const char* block) {
  if (!check_streams(context, block, reader, network.inputs_for_training())) return;
  try {
    network.bind(reader.streams());
  } catch (const Error& e) {
    context.problem(context.command.block(block).where(), e.what(), {});
  }
}

void make_readers(const ActionContext& context, Training& t) {
  t.reader = open_reader(context, "reader", "train", t.trace_level);
  if (context.command.is_block("cvReader")) t.cv_reader = open_reader(context, "cvReader", "cv", t.trace_level);
  if (!t.network) return;
  if (t.cv_reader) bind_streams(context, *t.network, *t.cv_reader, "cvReader");
  if (t.reader) bind_streams(context, *t.network, *t.reader, "reader");
}

// A run must not fail at its first checkpoint because it cannot write.
void check_model_path(const ActionContext& context, Training& t) {
  const auto inside =
      context.command.is_block("SGD") ? context.command.block("SGD").find_own("modelPath") : std::nullopt;
  const auto given = inside ? inside : context.command.find("modelPath");
  if (!given)
    return context.problem(context.command.where(), fmt::format("{} needs 'modelPath'", context.command_name),
                           "add modelPath = ...");
  const SourcePos where = given->where;
  if (t.model_path.empty()) return context.problem(where, "modelPath is empty", "write modelPath = \"models/net.dnn\"");
  context.will_write(t.model_path);
  if (t.network) context.will_write_network(t.model_path, t.network->graph());
  if (!context.may_write(t.model_path, where) || !t.network || t.world->rank() != 0) return;
  try {
    check_writable(t.model_path, view_model(*t.network).bytes());
  } catch (const Error& e) {
    context.problem(where, e.what(), "choose another modelPath");
  }
}

void read_sgd(const ActionContext& context, Training& t) {
  if (!context.command.is_block("SGD"))
    return context.problem(context.command.where(), fmt::format("'{}' has no SGD block", context.command_name),
                           "add SGD = [ maxEpochs = ... ; minibatchSize = ... ; learningRatesPerMB = ... ]");
  t.sgd = read_sgd_options(context.command.block("SGD"), *context.problems, *context.notices);
  // An enclosing SGD block, shared by several commands, does not know the commands' settings.
  if (context.command.block("SGD").has_own("modelPath")) t.model_path = t.sgd.model_path;
  if (context.command.block("SGD").has_own("traceLevel")) t.trace_level = static_cast<int>(t.sgd.trace_level);
}

void make_grad_scaler(const ActionContext& context, const TrainOptions& options, Training& t) {
  if (options.compute_type == ComputeType::float16)
    t.grad_scaler = GradScaler::parse(options.loss_scale).value_or(GradScaler());
  else if (context.command.find("lossScale"))
    context.notice("lossScale has no effect without computeType = float16");
}

void make_report(const ActionContext& context, Training& t) {
  t.report = std::make_unique<Report>(t.network->criterion(), t.network->evaluations(), t.sgd.num_mbs_to_show_result,
                                      t.sgd.first_mbs_to_show_result, t.trace_level, t.progress_tracing);
  t.report->write_to(t.metrics.get());
  t.settings = settings_text(t);
  t.given_options = config::dump_config(context.command.block("SGD"));
}

// Reads the SGD block, compares it across ranks, and makes what follows from it.
void make_settings(const ActionContext& context, const TrainOptions& options, Training& t) {
  const auto before = context.problems->count();
  read_sgd(context, t);
  require_same_sgd(*t.world, t.sgd);
  t.make_mode = options.make_mode || launcher::has_begun(t.model_path);  // the path may be that of SGD
  if (all_agree(*t.world, context.problems->count() == before)) make_layer_ranks(context, options.compute_type, t);
  make_grad_scaler(context, options, t);
}

// How the ranks exchange, and what computes on each. Returns whether all of them can. Collective.
bool plan_steps(const ActionContext& context, const TrainOptions& options, Training& t) {
  make_exchange(context, t);
  if (!all_agree(*t.world, t.parallel != nullptr)) return false;
  choose_kernels(context, options.kernel_choices, options.compute_type,
                 largest_share(t.sgd, t.parallel->method.data.share.ranks), t);
  return true;
}

std::optional<Action> make_train(const ActionContext& context, TrainOptions options) {
  const auto training = std::make_shared<Training>();
  Training& t = *training;
  check_compute_type(context, options.compute_type);
  t.world = context.world;
  t.command = context.command_name;
  t.model_path = options.model_path;
  t.trace_level = static_cast<int>(options.trace_level);
  t.progress_tracing = context.progress_tracing;
  t.choice = context.choice;
  const auto before = context.problems->count();
  make_settings(context, options, t);
  std::optional<ModelToCome> awaited;
  const std::int64_t seed = *context.seed;
  const auto unless_awaited = [&](const auto& part) {
    try {
      part();
    } catch (const ModelToCome& file) {
      awaited = file;
      *context.seed = seed;  // what was built in vain takes none
    }
  };
  unless_awaited([&] { make_network(context, options, t); });
  plan_trace(context, t);
  unless_awaited([&] { make_readers(context, t); });
  check_model_path(context, t);
  make_metrics(context, t);
  // A single rank may have found that it cannot write or read.
  if (!all_agree(*t.world, context.problems->count() == before)) return std::nullopt;
  Action action{.settings = fmt::format("  model      {}", t.model_path),
                .run = {},
                .trained_model = t.model_path,
                .make_mode = t.make_mode,
                .begins = std::make_shared<std::function<void()>>()};
  t.begins = action.begins;
  if (awaited) throw ModelToCome{awaited->path, action};
  require_same_training(t);

  check_shard_optimizer(context, t);
  t.run_optimizer->make = [&t] { return make_placed_optimizer(t); };
  t.optimizer = t.run_optimizer->make();
  if (memory_is_only_planned()) t.optimizer->bind(t.network->parameters());  // its state counts, too
  if (!plan_steps(context, options, t)) return std::nullopt;
  make_report(context, t);
  action.settings = t.settings;
  action.run = [training] {
    const ThreadLimit limit(training->threads);
    train(*training);
  };
  action.try_steps = [training](std::int64_t warm_up, std::int64_t steps) {
    const ThreadLimit limit(training->threads);
    return try_steps(*training, warm_up, steps);
  };
  action.time_steps = [training](std::int64_t share, double seconds) {
    const ThreadLimit limit(training->threads);
    return time_steps(*training, share, seconds);
  };
  return action;
}

}  // namespace

ActionEntry train_action() {
  return action_entry({"train", "trainRNN"}, true, make_train,
                      "trains a network; needs SGD, reader, modelPath and a network");
}

}  // namespace tutti::actions

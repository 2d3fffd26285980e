// SPDX-License-Identifier: Apache-2.0
// The epochs around the step loop: resume or start, schedules, validation, checkpoints, the final model.
#include <fmt/format.h>
#include <fmt/printf.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/activity.h"
#include "base/stop_request.h"
#include "parallel/advice.h"
#include "parallel/local_gradients.h"
#include "train/checkpointing.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti {
namespace {

struct EpochRun {
  EpochSettings settings;
  std::int64_t until = std::numeric_limits<std::int64_t>::max();  // samples of the epoch
  Clock::time_point start = {};
};

void announce_criteria(const Network& network) {
  const auto criterion = network.criterion();
  const auto evaluations = network.evaluations();
  log::line(fmt::format("Training criterion:   {} = {}", criterion.name, criterion.operation));
  if (evaluations.size() == 1)
    log::line(fmt::format("Evaluation criterion: {} = {}", evaluations[0].name, evaluations[0].operation));
  if (evaluations.size() > 1) {
    log::line("Evaluation criteria:");
    for (const auto& e : evaluations) log::line(fmt::format("\t{} = {}", e.name, e.operation));
  }
  log::line("");
}

void announce_parameters(const Training& t) {
  auto slices = t.network->parameters().slices;
  std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.name < b.name; });
  std::size_t values = 0;
  for (const auto& s : slices) values += s.size();
  if (t.trace_level <= 0) {
    log::line(fmt::format("Training {} parameters in {} parameter tensors.", values, slices.size()));
    return;
  }
  const auto& nodes = t.network->graph().nodes;
  const auto tensors = std::count_if(nodes.begin(), nodes.end(),
                                     [](const graph::Node& n) { return n.operation == "LearnableParameter"; });
  log::line(fmt::format("Training {} parameters in {} out of {} parameter tensors and {} nodes with gradient:", values,
                        slices.size(), tensors, t.network->gradient_nodes()));
  log::line("");
  for (const auto& s : slices)
    log::line(fmt::format("\tNode '{}' (LearnableParameter operation) : {}", s.name, to_string(s.shape)));
  log::line("");
}

void announce_epoch(const Training& t, const EpochSettings& settings) {
  if (t.trace_level <= 0) return;
  const auto at = static_cast<std::size_t>(t.progress.epoch);
  log::line("");
  log::line(
      fmt::sprintf("Starting Epoch %d: learning rate per sample = %f  effective momentum = %f  momentum as time "
                   "constant = %.1f samples",
                   t.progress.epoch + 1, settings.learning_rate,
                   std::pow(settings.momentum_per_sample, static_cast<double>(settings.minibatch)),
                   t.sgd.momentum_time_constant(at)));
  std::string line = "Starting minibatch loop";
  if (t.progress.epoch >= t.warm_start.epoch) line += t.parallel->method.loop_text(t.progress.epoch);
  if (t.warm_start.parallel_throughout(t.progress.epoch)) line += ", distributed reading is ENABLED";
  if (t.sgd.max_samples_in_ram > 0)
    line += fmt::format(", with maximum {} samples in RAM", t.sgd.max_samples_in_ram);
  else if (t.sgd.num_subminibatches > 1)
    line += fmt::format(", with {} subminibatch", t.sgd.num_subminibatches);
  log::line("");
  log::line(line + ".");
}

std::vector<StepMetrics::Evaluation> validate(Training& t, std::int64_t minibatch) {
  EpochPlan plan;
  plan.minibatch = minibatch;
  plan.rank = t.world->rank();
  plan.ranks = t.world->size();
  const auto sums = evaluate(*t.network, *t.cv_reader, *t.world, plan).sums;
  t.report->validation(sums);
  return sums;
}

EpochPlan plan_of(const Training& t, bool shares, std::int64_t minibatch) {
  EpochPlan plan;
  plan.epoch = t.progress.epoch;
  plan.samples = t.sgd.epoch_size;
  plan.minibatch = minibatch;
  plan.start = t.progress.samples_in_epoch;
  if (!shares) return plan;
  const DataDivision& division = t.parallel->method.data;
  if (t.reader->takes_work_units()) plan.work_queue = division.work_queue();
  const DataDivision::Share& share = plan.work_queue ? division.unit_share : division.share;
  plan.rank = share.rank, plan.ranks = share.ranks;
  plan.part = share.part, plan.parts = share.parts;
  return plan;
}

void begin_report(Training& t, std::int64_t minibatch, const char* prefix) {
  EpochHeading heading{t.progress.epoch + 1, t.sgd.max_epochs, 0, t.samples_per_epoch, prefix};
  // Percentages as CNTK prints them: from the second epoch on if epochSize is not given.
  if (t.sgd.epoch_size > 0 || t.progress.epoch > 0)
    heading.minibatches = (t.samples_per_epoch + minibatch - 1) / minibatch;
  t.report->begin_epoch(heading);
  if (t.progress.samples_in_epoch > 0)
    t.report->continue_epoch(t.progress.minibatches_in_epoch, t.progress.epoch_metrics, t.resumed->interval_metrics);
}

void advise(const Training& t) {
  if (t.parallel->method.data.work_queue() && !t.reader->takes_work_units())
    log::warning(
        "truncated sequences continue from minibatch to minibatch, so they cannot be divided dynamically: every rank "
        "gets an equal share and waits for the slowest at the end of each epoch");
  if (const auto& o = t.sgd.parallel; o.exchanges() && o.start_sample > t.samples_per_epoch)
    log::warning(
        fmt::format("parallelizationStartSample = {} exceeds the {} samples of an epoch: every rank trains on its own "
                    "to the end of epoch {}. fix: set parallelizationStartEpoch to choose the epoch",
                    o.start_sample, t.samples_per_epoch, o.start_epoch));
  const std::int64_t first = std::max<std::int64_t>(0, t.sgd.parallel.start_epoch - 1);
  const std::int64_t epochs = t.sgd.max_epochs - first;  // whose samples may be more than can be counted
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / std::max<std::int64_t>(epochs, 1);
  const std::string advice = t.parallel->method.advice(epochs * std::min(t.samples_per_epoch, most));
  if (!advice.empty()) log::warning(advice);
  if (!t.sgd.parallel.exchanges() || epochs <= 0) return;
  const TrainingLength length{epochs, t.samples_per_epoch, t.sgd.minibatch_size.at(static_cast<std::size_t>(first))};
  for (const std::string& line : exchange_advice(t.sgd.parallel, length, t.world->size())) log::warning(line);
}

// Ranks that trained on their own have equal weights, unless their processors differ.
void begin_parallel(Training& t) {
  if (!std::exchange(t.warm_start.over, true)) broadcast_weights(*t.world, t.network->parameters());
  begin_epoch(t.parallel->method, t.progress.epoch);
}

void set_network_mode(Training& t, bool parallel) {
  const auto at = static_cast<std::size_t>(t.progress.epoch);
  NetworkMode mode;
  mode.dropout_rate = t.sgd.dropout_rate.at(at);
  mode.dropout_seed = static_cast<std::uint64_t>(t.progress.epoch) * t.network->random_nodes();
  mode.normalization_time_constant = SgdOptions::once_set(t.sgd.normalization_time_constant, at);
  mode.blend_time_constant = SgdOptions::once_set(t.sgd.normalization_blend_time_constant, at);
  if (parallel && t.world->size() > 1)
    mode.sum_over_ranks = [&t](std::span<double> sums) { t.world->all_reduce_sum(sums); };
  t.network->set_mode(mode);
}

// The next phase of the epoch: each rank on its own with all data up to the end of the warm start, then all together.
// None when the epoch, or its first `until` samples, are done.
std::optional<Phase> next_phase(Training& t, const EpochRun& run, const Phase* last) {
  const std::int64_t from = t.warm_start.parallel_from(t.progress.epoch);
  const bool parallel = t.progress.samples_in_epoch >= from;
  if (last && (last->method == t.parallel.get() || !parallel)) return {};
  if (parallel && from > 0) begin_parallel(t);
  set_network_mode(t, parallel);
  return Phase{parallel ? t.parallel.get() : t.alone.get(), plan_of(t, parallel, run.settings.minibatch), run.settings,
               parallel ? run.until : std::min(from, run.until)};
}

// The number of samples that readers skipped because of damaged data, summed over the ranks that met them.
void count_left_out(const Training& t) {
  const std::int64_t left_out =
      t.progress.samples_in_epoch - t.progress.dropped_samples - t.report->epoch_metrics().samples;
  if (left_out > 0)
    log::warning(fmt::format("{} of {} samples were skipped in epoch {}: their data are damaged", left_out,
                             t.progress.samples_in_epoch, t.progress.epoch + 1));
}

void warn_if_diverged(Training& t) {
  t.constant_predictor.finish(*t.world);
  const StepMetrics& metrics = t.report->epoch_metrics();
  const std::string warning =
      divergence_warning(t.constant_predictor, t.network->criterion().name, metrics.criterion / metrics.criterion_count,
                         t.progress.epoch + 1, t.progress.epoch == 0);
  if (!warning.empty()) log::warning(warning);
}

// The host's clock cannot measure how long a GPU computes.
void judge_exchange(Training& t, std::int64_t minibatch) {
  const bool shared = t.warm_start.parallel_throughout(t.progress.epoch);
  if (t.exchange_judged || !shared || !is_host(t.network->parameters().weights.memory())) return;
  const std::string warning =
      slow_exchange_warning(t.times, {t.progress.epoch + 1, t.world->size(), minibatch, t.report->minibatches()});
  t.exchange_judged = !warning.empty();
  if (t.exchange_judged) log::warning(warning);
}

// The value that decides on rates: the criterion or the first evaluation, on the validation data if there are any.
double control_criterion(const Training& t, const std::vector<StepMetrics::Evaluation>& validation) {
  const AutoAdjustOptions o = t.sgd.auto_adjust.value_or(AutoAdjustOptions{});
  const StepMetrics& training = t.report->epoch_metrics();
  StepMetrics::Evaluation value{training.criterion, training.criterion_count};
  if (o.use_eval_criterion && !training.evaluations.empty()) value = training.evaluations[0];
  if (o.use_cv_set && !validation.empty())
    value = o.use_eval_criterion && validation.size() > 1 ? validation[1] : validation[0];
  return value.sum / value.count;
}

bool rate_is_too_small(Training& t, double rate) {
  const double least = t.sgd.min_learning_rate_per_sample;
  if (rate >= least) return false;
  log::line(
      fmt::sprintf("Learn Rate Per Sample for Epoch[%d] = %.8g is less than minLearningRatePerSample %.8g. "
                   "Training complete.",
                   t.progress.epoch + 1, rate, least));
  if (t.sgd.auto_adjust && t.sgd.auto_adjust->method != AutoAdjustOptions::Method::none) save_final_model(t);
  return true;
}

// The results of the epoch on the validation data, if there are any, with the weights that are saved.
std::vector<StepMetrics::Evaluation> validate_common_weights(Training& t, std::int64_t minibatch) {
  const CommonWeights common(*t.parallel->method.weights);
  share_statistics(t);
  return t.cv_reader ? validate(t, minibatch) : std::vector<StepMetrics::Evaluation>();
}

// Nothing if the training ends before this epoch.
std::optional<EpochRun> start_epoch(Training& t) {
  EpochRun run;
  run.settings = settle_settings(t);
  if (rate_is_too_small(t, run.settings.learning_rate)) return {};
  if (t.warm_start.parallel_throughout(t.progress.epoch)) begin_parallel(t);
  announce_epoch(t, run.settings);
  begin_report(t, run.settings.minibatch, "");
  run.start = Clock::now();
  run.settings.bears_nan = bears_nan(t);
  t.times = {};
  return run;
}

void report_epoch(Training& t, const EpochRun& run) {
  count_left_out(t);
  t.progress.total_samples_seen += static_cast<std::int64_t>(t.report->epoch_metrics().criterion_count);
  t.report->end_epoch(t.progress.total_samples_seen, run.settings.learning_rate, seconds_since(run.start));
  const bool together = t.warm_start.parallel_from(t.progress.epoch) < t.samples_per_epoch;
  t.report->times(t.times, together ? t.world->size() : 1);
  warn_if_diverged(t);
  judge_exchange(t, run.settings.minibatch);
}

// Returns false if the training ends before its last epoch.
bool finish_epoch(Training& t, const EpochRun& run) {
  report_epoch(t, run);
  const auto validation = validate_common_weights(t, run.settings.minibatch);
  const Verdict verdict = judge_epoch(t, control_criterion(t, validation), run.settings);
  if (verdict == Verdict::finished) {
    save_final_model(t);
    log::line("Finished training and saved final model");
    return false;
  }
  if (verdict == Verdict::go_on) ++t.progress.epoch;
  t.progress.begin_epoch();
  const CommonWeights common(*t.parallel->method.weights);
  checkpoint_at_epoch_end(t);
  return true;
}

// Computes corpus statistics (Mean, InvStdDev) over the training data, if the network has any (semantics 6, 8.5). Rank
// 0 reads all data, minibatch by minibatch as CNTK does, so the numbers are those of a single process for any number of
// ranks.
void precompute(Training& t) {
  Network& network = *t.network;
  const auto nodes = network.precompute_nodes();
  if (nodes.empty()) return;
  log::line("");
  log::line(fmt::format("Precomputing --> {} PreCompute nodes found.", nodes.size()));
  log::line("");
  for (const auto& name : nodes) log::line(fmt::format("\t{}", name));
  network.bind(t.reader->streams());
  network.precompute_begin();
  if (t.world->rank() == 0) {
    EpochPlan plan;
    plan.samples = t.sgd.use_all_data_for_precomputed_node ? 0 : t.sgd.epoch_size;
    plan.minibatch = t.sgd.minibatch_size.at(0);
    t.reader->start_epoch(plan);
    while (const Batch* batch = t.reader->next()) network.precompute_accumulate(*batch), made_progress();
  }
  network.precompute_end([&](std::span<float> values) { t.world->broadcast(0, std::as_writable_bytes(values)); });
  log::line("");
  log::line("Precomputing --> Completed.");
  log::line("");
}

// Returns false if the run was already finished.
bool prepare(Training& t) {
  t.network->make_current();  // the other commands of the run have networks, too
  t.optimizer->bind(t.network->parameters());
  t.samples_per_epoch = t.sgd.epoch_size > 0 ? t.sgd.epoch_size : t.reader->sweep_samples();
  t.constant_predictor.watch(t.network->graph(), t.network->criterion().name, t.reader->streams());
  const Start start = resume(t);
  if (start == Start::finished) return false;
  if (t.warm_start.parallel_throughout(t.sgd.max_epochs - 1) && !t.sgd.parallel.distributed_reading_given)
    log::line("\"distributedMBReading\" is not explicitly specified, defaulting to 'true'.");
  announce_criteria(*t.network);
  announce_parameters(t);
  if (start == Start::fresh) t.network->initialize_parameters();
  if (t.progress.epoch == 0 &&
      t.progress.samples_in_epoch == 0)  // an edited model, too, may have statistics to compute
    precompute(t);
  if (start == Start::fresh) save_initial_model(t);
  start_method(t);
  if (start == Start::resumed) restore_method(t);
  advise(t);
  return true;
}

}  // namespace

StepMetrics run_trial(Training& t, const EpochSettings& settings, const char* prefix, std::int64_t samples) {
  if (t.warm_start.parallel_throughout(t.progress.epoch)) begin_parallel(t);
  begin_report(t, settings.minibatch, prefix);
  EpochRun run{.settings = settings, .until = samples + 1};
  run.settings.bears_nan = run.settings.trial = true;
  t.times = {};
  for (auto phase = next_phase(t, run, nullptr); phase; phase = next_phase(t, run, &*phase)) run_phase(t, *phase);
  t.report->end_trial(settings.learning_rate, settings.minibatch);
  return t.report->epoch_metrics();
}

namespace {

void run_epochs(Training& t) {
  while (t.progress.epoch < t.sgd.max_epochs) {
    const auto run = start_epoch(t);
    if (!run) return;
    try {
      for (auto phase = next_phase(t, *run, nullptr); phase; phase = next_phase(t, *run, &*phase)) run_phase(t, *phase);
    } catch (const Rewind&) {
      rewind(t);
      continue;
    }
    if (!finish_epoch(t, *run)) return;
  }
}

}  // namespace

void train(Training& t) {
  const StopSignals signals;
  apply(t.sgd.faults);
  if (!prepare(t)) return;
  const TrainingTime time;
  const Doing doing("trains");
  prepare_checkpoints(t);
  run_epochs(t);
  finish_checkpoints(t);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// The epochs around the step loop: resume or start, schedules, validation, checkpoints, the final model.
#include <fmt/format.h>
#include <fmt/printf.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "base/activity.h"
#include "base/exit_codes.h"
#include "base/launcher.h"
#include "base/memory.h"
#include "base/stop_request.h"
#include "parallel/local_gradients.h"
#include "train/checkpointing.h"
#include "train/replica_check.h"
#include "train/run_metrics.h"
#include "train/saved_weights.h"
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
  for (auto& s : slices) {
    if (s.shard) s.shape = s.shard->whole;
    values += s.shape.elements();
  }
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

// What is allocated when everything has started. Collective.
void announce_memory(const Training& t) {
  const auto mine = static_cast<double>(allocated_memory());
  double all = mine;
  t.world->all_reduce_sum(std::span(&all, 1));
  std::string line = fmt::format("Memory: {} for weights, gradients, optimizer, exchange and the values of a minibatch",
                                 bytes_text(mine));
  if (t.world->size() > 1)
    line += fmt::format(" on this rank, {} on the {} ranks together", bytes_text(all), t.world->size());
  if (!is_host(t.network->parameters().weights.memory())) line += " (of the hosts; without GPU memory)";
  log::line(line);
}

void announce_epoch(const Training& t, const EpochSettings& settings) {
  if (t.trace_level <= 0) return;
  const auto at = static_cast<std::size_t>(t.progress.epoch);
  log::line("");
  log::line(fmt::sprintf(
      "Starting Epoch %d: learning rate per sample = %f  effective momentum = %f  momentum as time "
      "constant = %.1f samples",
      t.progress.epoch + 1, scheduled_rate(t, settings.learning_rate, static_cast<double>(t.progress.samples_in_epoch)),
      std::pow(settings.momentum_per_sample, static_cast<double>(t.sgd.update_size(settings.minibatch))),
      t.sgd.momentum_time_constant(at)));
  std::string line = "Starting minibatch loop";
  if (t.progress.epoch >= t.warm_start.epoch) line += t.parallel->method.loop_text(t.progress.epoch);
  if (t.warm_start.shares_data || t.warm_start.parallel_throughout(t.progress.epoch))
    line += ", distributed reading is ENABLED";
  if (t.sgd.gradient_accumulation > 1)
    line += fmt::format(", with the gradients of {} minibatches accumulated", t.sgd.gradient_accumulation);
  if (t.sgd.max_samples_in_ram > 0)
    line += fmt::format(", with maximum {} samples in RAM", t.sgd.max_samples_in_ram);
  else if (t.sgd.num_subminibatches > 1)
    line += fmt::format(", with {} subminibatch", t.sgd.num_subminibatches);
  log::line("");
  log::line(line + ".");
}

// `division`: null if each rank takes all data.
EpochPlan plan_of(const Training& t, const DataDivision* division, std::int64_t minibatch) {
  EpochPlan plan;
  plan.epoch = t.progress.epoch;
  plan.samples = t.sgd.epoch_size;
  plan.minibatch = t.sgd.update_size(minibatch);
  plan.accumulated = t.sgd.gradient_accumulation;
  plan.start = t.progress.samples_in_epoch;
  if (!division) return plan;
  if (t.reader->takes_work_units()) plan.work_queue = division->work_queue();
  const DataDivision::Share& share = plan.work_queue ? division->unit_share : division->share;
  plan.rank = share.rank, plan.ranks = share.ranks;
  plan.part = share.part, plan.parts = share.parts;
  return plan;
}

void begin_report(Training& t, std::int64_t minibatch, const char* prefix) {
  EpochHeading heading{t.progress.epoch + 1, t.sgd.max_epochs, 0, t.samples_per_epoch, prefix};
  heading.position = t.progress.samples_before + t.progress.samples_in_epoch;
  heading.end = t.progress.samples_before + t.samples_per_epoch;
  // Percentages as CNTK prints them: from the second epoch on if epochSize is not given.
  const std::int64_t update = t.sgd.update_size(minibatch);
  if (t.sgd.epoch_size > 0 || t.progress.epoch > 0) heading.minibatches = (t.samples_per_epoch + update - 1) / update;
  t.report->begin_epoch(heading);
  if (t.progress.samples_in_epoch > 0)
    t.report->continue_epoch(t.progress.minibatches_in_epoch, t.progress.epoch_metrics, t.resumed->interval_metrics);
}

// Ranks that trained on their own have equal weights and optimizers, unless their processors differ. Parts of layers
// are not broadcast.
void begin_parallel(Training& t) {
  if (!std::exchange(t.warm_start.over, true)) {
    broadcast_weights(*t.world, t.network->parameters());
    if (t.progress.epoch > 0 || t.progress.samples_in_epoch > 0) copy_optimizer(t, 0);
  }
  begin_epoch(t.parallel->method, t.progress.epoch);
}

void set_network_mode(Training& t, bool shares_data) {
  const auto at = static_cast<std::size_t>(t.progress.epoch);
  NetworkMode mode;
  mode.dropout_rate = t.sgd.dropout_rate.at(at);
  mode.dropout_seed = static_cast<std::uint64_t>(t.progress.epoch) * t.network->random_nodes();
  mode.normalization_time_constant = SgdOptions::once_set(t.sgd.normalization_time_constant, at);
  mode.blend_time_constant = SgdOptions::once_set(t.sgd.normalization_blend_time_constant, at);
  if (shares_data && t.world->size() > 1)
    mode.sum_over_ranks = [&t](std::span<double> sums) { t.world->all_reduce_sum(sums); };
  t.network->set_mode(mode);
}

// The next phase of the epoch: the warm start up to its end, then the method of ParallelTrain.
// None when the epoch, or its first `until` samples, are done.
std::optional<Phase> next_phase(Training& t, const EpochRun& run, const Phase* last) {
  const std::int64_t from = t.warm_start.parallel_from(t.progress.epoch);
  const bool parallel = t.progress.samples_in_epoch >= from;
  if (last && (last->method == t.parallel.get() || !parallel)) return {};
  if (parallel && from > 0) begin_parallel(t);
  const bool shares_data = parallel || t.warm_start.shares_data;
  RunningMethod* const method = parallel ? t.parallel.get() : t.warm_up.get();
  t.report->gather_over(shares_data ? t.metrics_ranks.get() : nullptr);
  set_network_mode(t, shares_data);
  return Phase{method, plan_of(t, shares_data ? &method->method.data : nullptr, run.settings.minibatch), run.settings,
               parallel ? run.until : std::min(from, run.until)};
}

// What decides on rates and on the end: the criterion or the first evaluation, on the validation data if there are any.
// Collective.
ControlCriterion control_criterion(const Training& t, const std::vector<StepMetrics::Evaluation>& validation) {
  const AutoAdjustOptions o = t.sgd.auto_adjust.value_or(AutoAdjustOptions{});
  const StepMetrics& training = t.report->epoch_metrics();
  StepMetrics::Evaluation value{training.criterion, training.criterion_count};
  const bool evaluation = o.use_eval_criterion && !training.evaluations.empty();
  const bool validates = o.use_cv_set && !validation.empty();
  if (evaluation) value = training.evaluations[0];
  if (validates) value = validation[evaluation && validation.size() > 1 ? 1 : 0];
  const NodeResult node = evaluation ? t.network->evaluations()[0] : t.network->criterion();
  const bool rises = larger_is_better(node);
  // Sums differ in the last digit, because a rank adds its own part first: those of rank 0 count.
  double results[] = {value.sum / value.count, static_cast<double>(training.samples)};
  t.world->broadcast(0, std::as_writable_bytes(std::span(results)));
  const auto [result, samples] = results;
  return {rises ? 1 - result : result, static_cast<std::int64_t>(samples),
          fmt::format("{}{}{}", rises ? "1 - " : "", node.name, validates ? " on the validation data" : "")};
}

bool rate_is_too_small(Training& t, double rate) {
  const double least = t.sgd.min_learning_rate_per_sample;
  if (rate >= least) return false;
  log::line(
      fmt::sprintf("Learn Rate Per Sample for Epoch[%d] = %.8g is less than minLearningRatePerSample %.8g. "
                   "Training complete.",
                   t.progress.epoch + 1, rate, least));
  save_final_model(t);
  return true;
}

// Nothing if the training ends before this epoch.
std::optional<EpochRun> start_epoch(Training& t) {
  EpochRun run;
  run.settings = settle_settings(t);
  if (rate_is_too_small(t, run.settings.learning_rate)) return {};
  if (t.warm_start.parallel_throughout(t.progress.epoch)) begin_parallel(t);
  announce_epoch(t, run.settings);
  begin_report(t, run.settings.minibatch, "");
  begin_pass();
  run.start = Clock::now();
  run.settings.bears_nan = bears_nan(t);
  t.times = {};
  return run;
}

// With onNaN = skip, a run that learns nothing does not go on.
void stop_if_all_skipped(const Training& t) {
  const StepMetrics& metrics = t.report->epoch_metrics();
  if (t.sgd.faults.on_nan != OnNan::skip || metrics.samples == 0 || metrics.criterion_count != 0) return;
  throw CodedError(
      kNotANumber,
      fmt::format("onNaN = skip: every update of epoch {} of command '{}' was skipped: no criterion was a number\n"
                  "fix: check the data that the warnings name, lower the learning rate, or clip gradients "
                  "(clippingThresholdPerSample)",
                  t.progress.epoch + 1, t.command));
}

void report_epoch(Training& t, const EpochRun& run) {
  stop_if_all_skipped(t);
  warn_of_damaged_data(t);
  t.progress.total_samples_seen += static_cast<std::int64_t>(t.report->epoch_metrics().criterion_count);
  const EpochSettings& s = run.settings;
  const double rate = scheduled_rate(t, s.learning_rate, static_cast<double>(t.samples_per_epoch));
  const EpochFigures figures{t.progress.total_samples_seen, rate, s.momentum_per_sample, t.sgd.update_size(s.minibatch),
                             seconds_since(run.start)};
  t.report->end_epoch(figures);
  const bool together = t.warm_start.shares_data || t.warm_start.parallel_from(t.progress.epoch) < t.samples_per_epoch;
  t.report->times(t.times, together ? t.world->size() : 1);
  if (t.sgd.metrics.any()) t.report->record_epoch(figures, times_by_rank(*t.world, t.times));
  warn_if_diverged(t);
  judge_exchange(t, run.settings.minibatch);
}

// Returns false if the training ends before its last epoch.
bool finish_epoch(Training& t, const EpochRun& run) {
  report_epoch(t, run);
  const auto validation = validate(t, run.settings.minibatch);
  const ControlCriterion control = control_criterion(t, validation);
  const bool ends = judge_patience(t, control);
  const Verdict verdict = judge_epoch(t, control, run.settings);
  if (!verdict.rolled_back) ++t.progress.epoch, t.progress.samples_before += t.samples_per_epoch;
  if (ends || verdict.ends) {
    save_final_model(t);
    log::line("Finished training and saved final model");
    return false;
  }
  t.progress.begin_epoch();
  const SavedWeights saved(t);
  checkpoint_at_epoch_end(t);
  return true;
}

// Returns false if the run was already finished.
bool prepare(Training& t) {
  t.network->make_current();  // the other commands of the run have networks, too
  t.optimizer->bind(t.network->parameters());
  if (t.average) t.average->bind(t.network->parameters());
  t.samples_per_epoch = t.sgd.epoch_size > 0 ? t.sgd.epoch_size : t.reader->sweep_samples();
  t.constant_predictor.watch(t.network->graph(), t.network->criterion().name, t.reader->streams());
  const Start start = resume(t);
  if (start == Start::finished) return false;
  if (t.warm_start.parallel_throughout(t.sgd.max_epochs - 1) && !t.sgd.parallel.distributed_reading_given)
    log::line("\"distributedMBReading\" is not explicitly specified, defaulting to 'true'.");
  announce_criteria(*t.network);
  announce_parameters(t);
  if (start == Start::fresh) t.network->initialize_parameters();
  // An edited model, too, may have statistics to compute.
  if (t.progress.epoch == 0 && t.progress.samples_in_epoch == 0) precompute(t);
  if (start == Start::fresh) {
    save_initial_model(t);
    if (!t.make_mode && t.world->rank() == 0) launcher::tell(launcher::kFromScratch, t.model_path);
  }
  start_method(t);
  if (start == Start::fresh && t.average) t.average->restart();
  if (start == Start::resumed) restore_method(t);
  begin_metrics(t, start == Start::fresh);
  announce_memory(t);
  if (!t.sgd.timeline.empty())
    t.timeline = std::make_unique<TimelineWriter>(*t.world, t.sgd.timeline, t.sgd.timeline_steps);
  advise(t);
  return true;
}

}  // namespace

StepMetrics run_trial(Training& t, const EpochSettings& settings, const char* prefix, std::int64_t samples) {
  if (t.warm_start.parallel_throughout(t.progress.epoch)) begin_parallel(t);
  begin_report(t, settings.minibatch, prefix);
  begin_pass();
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

namespace {

// Completes the checkpoint that is being written, also after an error, when main does not destroy the training.
struct ClosedWriter {
  BackgroundWriter& writer;
  ~ClosedWriter() { writer.close(); }
};

struct ToldLauncher {
  explicit ToldLauncher(Communicator& world) : tells(world.rank() == 0) {
    if (tells) launcher::tell(launcher::kTrains);
  }
  ~ToldLauncher() {
    if (tells) launcher::tell(launcher::kTrained);
  }
  bool tells;
};

// What came out, and where it lies.
void summarize(const Training& t, double seconds) {
  if (const std::string result = t.report->result(); !result.empty())
    log::summary(fmt::format("Result: {}; {:.1f} s", result, seconds));
  log::summary(fmt::format("Model:  {}", std::filesystem::absolute(t.model_path).lexically_normal().string()));
  if (t.sgd.keep_best && t.best.epoch > 0)
    log::summary(fmt::format("Best:   {}, of epoch {}",
                             std::filesystem::absolute(best_model_name(t.model_path)).lexically_normal().string(),
                             t.best.epoch));
  if (const std::string path = log::path(); !path.empty())
    log::summary(fmt::format("Log:    {}", std::filesystem::absolute(path).lexically_normal().string()));
}

}  // namespace

void train(Training& t) {
  const StopSignals signals;
  const auto start = Clock::now();
  const ClosedWriter closed{t.checkpoint_writer};
  apply(t.sgd.faults);
  if (!prepare(t)) return;
  const TrainingTime time;
  const Doing doing("trains");
  prepare_checkpoints(t);
  {
    const ToldLauncher told(*t.world);
    run_epochs(t);
    finish_checkpoints(t);
  }
  record_event(t, "end", seconds_since(start));
  end_metrics();
  summarize(t, seconds_since(start));
}

}  // namespace tutti

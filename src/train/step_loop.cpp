// SPDX-License-Identifier: Apache-2.0
// The inner loop: read, forward and backward, reduce, update, report; and what happens when a criterion or a gradient
// is NaN.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <csignal>
#include <limits>
#include <utility>
#include <vector>

#include "base/activity.h"
#include "base/exit_codes.h"
#include "base/stop_request.h"
#include "comm/agreement.h"
#include "train/checkpointing.h"
#include "train/gradient_reduction.h"
#include "train/nan_report.h"
#include "train/replica_check.h"
#include "train/training.h"
#include "tutti/gradient_check.h"
#include "tutti/log.h"

namespace tutti {
namespace {

// Ends the run. `minibatch` counts from 1 in the epoch.
[[noreturn]] void stop_at_nan(const Training& t, std::int64_t minibatch, const std::string& what) {
  throw CodedError(
      kNotANumber,
      fmt::format("The training criterion is not a number (NAN).\n{} in epoch {}, minibatch {} of command '{}'.\n"
                  "fix: lower the learning rate, or clip gradients (clippingThresholdPerSample)",
                  what, t.progress.epoch + 1, minibatch, t.command));
}

// "; sample 3 of the 16 of this rank, train.ctf:17", or "".
std::string bad_sample_text(Training& t, const Batch& batch) {
  const std::string sample = find_bad_sample(*t.network, *t.reader, batch);
  return sample.empty() ? "" : "; " + sample;
}

// The same for a deferred result: reads the minibatch again to find the first NaN.
[[noreturn]] void stop_at_deferred_nan(Training& t, const EpochPlan& plan, std::int64_t minibatches_before,
                                       const DeferredNumericError& e) {
  std::string what = fmt::format("{}; computed again, it is a number", e.what()), sample;
  EpochPlan again = plan;
  again.start = e.position;
  t.reader->start_epoch(again);
  try {
    const Batch* batch = t.reader->next();
    if (batch) sample = bad_sample_text(t, *batch);
    if (batch) t.network->explain_nan(*batch);
  } catch (const NumericError& found) {
    what = found.what();
  }
  stop_at_nan(t, minibatches_before + e.minibatch + 1, what + sample);
}

// gradientCheck: compares this rank's gradients with finite differences, and ends the run if they differ.
void check_gradients_or_stop(Training& t, const Batch& batch) {
  GradientCheckOptions options;
  options.tolerance = std::max(options.tolerance, std::pow(10.0, -static_cast<double>(t.sgd.significant_digits)));
  options.seed = static_cast<std::uint64_t>(t.progress.minibatches_in_epoch);
  t.network->scale_gradients(t.grad_scaler.value());  // and divide them
  const auto wrong = check_gradients(*t.network, batch, options);
  if (wrong.empty()) return;
  throw Error(
      fmt::format("cannot pass gradient checker: '{}', entry {}: {} by back-propagation, {} by differences "
                  "({} of the entries looked at differ) in epoch {}, minibatch {} of command '{}'",
                  wrong[0].parameter, wrong[0].index, wrong[0].analytic, wrong[0].numeric, wrong.size(),
                  t.progress.epoch + 1, t.progress.minibatches_in_epoch + 1, t.command));
}

// If the run is to continue: announces NaN gradients so that all ranks see them. Returns NaN metrics.
StepMetrics announce_nan(Training& t, const Batch& batch, GradientSink& chunks) {
  Parameters& p = t.network->parameters();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Slice& s : p.slices)
    if (!s.sparse_gradient) std::fill_n(p.gradients.data() + s.offset, s.size(), nan);
  for (std::size_t i = 0; i < p.chunks.size(); ++i) chunks.chunk_ready(i);
  StepMetrics metrics;
  metrics.criterion = nan;
  metrics.criterion_count = static_cast<double>(batch.samples);
  metrics.columns = batch.columns;
  metrics.evaluations.assign(t.network->evaluations().size(), {0, static_cast<double>(batch.samples)});
  return metrics;
}

// The host does not wait for a device within a step unless somebody needs a result.
bool may_defer_metrics(const Training& t, const Phase& phase) {
  const ParallelMethod& method = phase.method->method;
  return !method.data.skipper && method.gradients->follows_device() && !phase.plan.work_queue &&
         !phase.settings.bears_nan && t.sgd.faults.on_nan == OnNan::stop && !t.grad_scaler.seeks() &&
         !t.sgd.gradient_check;
}

void disturb(Training& t, const FaultHook::Disturbance& disturbance) {
  if (disturbance.flip_message) damage_next_message();
  Parameters& p = t.network->parameters();
  for (const Slice& s : p.slices) {
    if (s.name != disturbance.flip_weight) continue;
    float& value = p.weights.span()[s.offset + s.size() / 2];
    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (1u << 20));
  }
}

// The state shared by the steps of a phase, and the work around a step.
struct Loop {
  Loop(Training& training, const Phase& p)
      : t(training),
        phase(p),
        running(*p.method),
        method(running.method),
        update(*t.optimizer, *method.weights, {p.settings.learning_rate, p.settings.momentum_per_sample},
               p.settings.learning_rate > 0.01 * t.sgd.min_learning_rate_per_sample),
        reduction(t, method, update) {
    t.network->forget_states();
    t.network->scale_gradients(t.grad_scaler.value());
    t.network->bind(t.reader->streams());  // validation may have bound another reader's
    const bool mine = t.network->defer_metrics(may_defer_metrics(t, phase));
    deferred = all_agree(*t.world, mine);  // ranks may be of several kinds
    if (mine && !deferred) t.network->defer_metrics(false);
  }

  // Samples of the epoch.
  void start_reading(std::int64_t from, std::int64_t end) {
    EpochPlan plan = phase.plan;
    plan.start = from;
    if (plan.work_queue) plan.end = end, plan.work_queue->start_range();
    minibatches_before = t.progress.minibatches_in_epoch;
    steps = 0;
    t.reader->start_epoch(plan);
  }

  // Null at the end.
  const Batch* read() {
    if (!phase.plan.work_queue && t.progress.samples_in_epoch >= phase.until) return nullptr;
    const Doing doing("reads the next minibatch");
    const auto start = Clock::now();
    const Batch* batch = t.reader->next();
    reading += seconds_since(start);
    return batch;
  }

  // Passes the batch to parts that watch the data. Returns whether this rank takes part in the step.
  bool joins_step(const Batch& batch) {
    if (t.constant_predictor.counts() && !phase.settings.trial) t.constant_predictor.add(batch);
    if (method.data.skipper && !method.data.skipper->joins_step(batch.samples)) return false;
    disturb(t, t.fault_hook.before_step());
    if (t.traces) trace_nodes(t, batch);
    if (t.sgd.gradient_check) check_gradients_or_stop(t, batch);
    return true;
  }

  // Returns whether the gradients of the step came too late and are discarded.
  bool exchange_weights(const StepInfo& step) {
    if (!method.gradients->follows_device()) t.network->synchronize();
    const WeightChange change = running.exchange_weights(step);
    apply(change);
    return change.dropped;
  }

  void apply(const WeightChange& change) {
    if (change.apply_gradients) update.apply_held();
    if (change.reset_momentum) t.optimizer->reset_momentum();
  }

  void report(const Batch& batch, const StepMetrics& metrics_of_step) {
    ++steps;
    check_sum(metrics_of_step, deferred ? t.network->measured_minibatch() : batch.minibatch);
    const std::int64_t samples = batch.position + batch.global_samples, minibatches = number_of(batch.minibatch);
    const std::int64_t more_samples = samples - std::exchange(t.progress.samples_in_epoch, samples);
    const std::int64_t more_minibatches = minibatches - std::exchange(t.progress.minibatches_in_epoch, minibatches);
    t.report->add(metrics_of_step);
    if (t.report->line_due_within(more_minibatches)) finish_deferred_metrics();
    t.report->step(more_samples, more_minibatches);
  }

  // Handles the metrics that have not arrived yet.
  void finish_deferred_metrics() {
    if (!deferred) return;
    const auto start = Clock::now();
    try {
      while (const auto mine = t.network->next_deferred_metrics()) {
        const StepMetrics metrics = running.metrics.reduce(*mine);
        check_sum(metrics, t.network->measured_minibatch());
        t.report->add(metrics);
      }
    } catch (const DeferredNumericError& e) {
      stop_at_deferred_nan(t, phase.plan, minibatches_before, e);
    }
    working += seconds_since(start);
  }

  void end_epoch() {
    const auto start = Clock::now();
    apply(method.weights->end_epoch());
    working += seconds_since(start);
  }

  void add_times(double seconds) {
    const ExchangeStats exchange = running.exchange_stats_and_reset();
    t.times.total += seconds;
    t.times.read += reading;
    t.times.update += update.seconds();
    t.times.exchange += exchange;
    t.times.network += working - update.seconds() - exchange.encode - exchange.wait - exchange.decode;
  }

  std::int64_t number_of(std::int64_t minibatch) const { return minibatches_before + minibatch + 1; }  // in the epoch

  OnNan on_nan() const { return phase.settings.bears_nan ? OnNan::skip : t.sgd.faults.on_nan; }

  // A step with NaN leaves NaN in running statistics, though its update is skipped.
  void keep_statistics() {
    if (t.sgd.faults.on_nan != OnNan::skip) return;
    statistics.clear();
    for (const auto& s : t.network->state()) statistics.emplace_back(s.values.begin(), s.values.end());
  }
  void restore_statistics() {
    auto state = t.network->state();
    for (std::size_t i = 0; i < statistics.size(); ++i) std::ranges::copy(statistics[i], state[i].values.begin());
  }

  // All ranks whose metrics are summed in every step see the same.
  void check_sum(const StepMetrics& metrics, std::int64_t minibatch) {
    if (!std::isnan(metrics.criterion) || phase.settings.bears_nan) return;
    nan_seen = true;
    if (on_nan() == OnNan::stop) stop_at_nan(t, number_of(minibatch), "The sum over the ranks is not a number");
  }

  Training& t;
  const Phase& phase;
  RunningMethod& running;
  ParallelMethod& method;
  WeightUpdate update;
  GradientReduction reduction;
  bool nan_seen = false;
  std::vector<std::vector<float>> statistics;  // before this step
  bool deferred = false;                // metrics arrive some steps later, so that the host does not wait for a device
  std::int64_t minibatches_before = 0;  // in this epoch, before the reader started
  std::int64_t steps = 0;               // since then
  double reading = 0, working = 0;      // seconds
};

// Whether this minibatch is computed: not if a signal has stopped the run before it.
bool may_begin(const Loop& loop, const Batch& batch) {
  constexpr std::int64_t most = std::int64_t{1} << 40;  // minibatches of an epoch
  const std::int64_t number = loop.number_of(batch.minibatch);
  now_at(loop.t.progress.epoch + 1, number);
  return stop_request::admits(loop.t.progress.epoch * most + number);
}

// The criterion of this rank is NaN. Returns its metrics if the run is to continue.
StepMetrics bear_nan(Loop& loop, const Batch& batch, const std::string& what, GradientSink& gradients) {
  Training& t = loop.t;
  const std::int64_t minibatch = loop.number_of(batch.minibatch);
  const std::string all = loop.phase.settings.bears_nan ? what : what + bad_sample_text(t, batch);
  if (loop.on_nan() == OnNan::stop) stop_at_nan(t, minibatch, all);
  StepMetrics metrics = announce_nan(t, batch, gradients);
  loop.nan_seen = true;
  if (loop.phase.settings.bears_nan) return metrics;
  log::warning_of_rank(fmt::format("{} in epoch {}, minibatch {}: {}", all, t.progress.epoch + 1, minibatch,
                                   loop.on_nan() == OnNan::skip ? "the update is skipped" : "the run goes back"));
  if (loop.on_nan() == OnNan::skip) {  // not a part of the epoch's results
    loop.restore_statistics();
    metrics.criterion = metrics.criterion_count = 0;
    for (auto& e : metrics.evaluations) e = {};
  }
  return metrics;
}

// Whether all ranks know by now that the run goes back.
bool rewinds_now(const Loop& loop) {
  const Communicator* const all = loop.method.metrics.per_step;
  return loop.nan_seen && loop.on_nan() == OnNan::rewind && all && all->size() == loop.t.world->size();
}

// One minibatch. Gradients are reduced and weights updated while the network still computes backward.
void step(Loop& loop, const Batch& batch) {
  Training& t = loop.t;
  const Doing doing("computes");
  const auto start = Clock::now();
  StepMetrics metrics;
  if (loop.joins_step(batch)) {
    const StepInfo info = loop.running.step_info(
        {batch.samples, batch.columns, batch.global_samples, batch.global_columns}, loop.update.rates());
    GradientSink& gradients = loop.reduction.begin_step(info);
    loop.keep_statistics();
    try {
      metrics = t.network->forward_backward(batch, gradients);
    } catch (const DeferredNumericError& e) {
      stop_at_deferred_nan(t, loop.phase.plan, loop.minibatches_before, e);
    } catch (const NumericError& e) {
      metrics = bear_nan(loop, batch, e.what(), gradients);
    }
    metrics.samples = batch.samples;
    loop.reduction.end_backward();
    loop.running.metrics.begin(metrics);
    loop.reduction.finish_step();
    metrics = loop.running.metrics.finish();
    if (loop.exchange_weights(info)) metrics = {};  // too late to count
  }
  loop.working += seconds_since(start);
  loop.report(batch, metrics);
  if (loop.phase.method == t.parallel.get()) verify_replicas(t, t.progress.minibatches_in_epoch);
}

// Completes everything in flight on all ranks.
void drain(Loop& loop) {
  Training& t = loop.t;
  loop.finish_deferred_metrics();
  const auto start = Clock::now();
  loop.update.begin_step(false);
  loop.apply(loop.running.drain(loop.update));
  const MetricsReducer::Drained drained = loop.running.metrics.drain();
  t.report->add(drained.pending);
  if (StepSkipper* skipper = loop.method.data.skipper)
    t.progress.dropped_samples += skipper->dropped_samples_and_reset();
  t.report->add_to_epoch(drained.of_others);
  t.progress.epoch_metrics = t.report->epoch_metrics();
  loop.working += seconds_since(start);
}

// Ranks with work units are at different positions; the range ends at the foremost one.
void agree_on_progress(Loop& loop) {
  Training& t = loop.t;
  using Place = std::array<std::int64_t, 3>;
  const Place mine{t.progress.samples_in_epoch, t.progress.minibatches_in_epoch, loop.steps};
  std::vector<Place> all(static_cast<std::size_t>(t.world->size()));
  t.world->all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  t.times.units.resize(all.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    t.progress.samples_in_epoch = std::max(t.progress.samples_in_epoch, all[r][0]);
    t.progress.minibatches_in_epoch = std::max(t.progress.minibatches_in_epoch, all[r][1]);
    t.times.units[r] += all[r][2];
  }
  t.report->pass(t.progress.samples_in_epoch - mine[0], t.progress.minibatches_in_epoch - mine[1]);
}

const char* signal_name(int signal) { return signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "SIGUSR1"; }

// All ranks are at one minibatch, and nothing is in flight.
[[noreturn]] void stop_run(Training& t, bool saves) {
  const int signal = stop_request::deciding_signal();
  const bool saved = saves && t.progress.samples_in_epoch > 0 && !t.sgd.truncated;
  if (saved) t.checkpoint_writer.wait(), checkpoint(t);
  finish_checkpoints(t);
  log::line(
      fmt::format("Stopped by {} in epoch {} after {} minibatches. {}. Start the same command again to go on "
                  "(exit code {}).",
                  signal_name(signal), t.progress.epoch + 1, t.progress.minibatches_in_epoch,
                  saved ? fmt::format("The state is in '{}'", mid_epoch_name(t.model_path, t.progress.epoch))
                  : t.progress.samples_in_epoch > 0 ? "The last checkpoint is that of the epoch before"
                                                    : "The state is that of the end of the epoch before",
                  static_cast<int>(kPreempted)));
  throw StopRun{kPreempted};
}

}  // namespace

// With a work queue, a checkpoint needs all ranks at one position, so units are handed out only up to the next
// checkpoint.
void run_phase(Training& t, const Phase& phase) {
  const auto start = Clock::now();
  Loop loop(t, phase);
  const bool queue = phase.plan.work_queue != nullptr, saves = !phase.settings.trial;
  bool stops = false;
  for (bool more = true; more;) {
    const std::int64_t before = t.progress.samples_in_epoch;
    const std::int64_t end = queue && saves ? std::min(phase.until, next_checkpoint(t)) : phase.until;
    loop.start_reading(before, end);
    while (const Batch* batch = loop.read()) {
      if (stops = !may_begin(loop, *batch); stops) break;
      step(loop, *batch);
      if (rewinds_now(loop)) break;
      if (queue || !saves || !checkpoint_due(t, batch->global_samples)) continue;
      drain(loop);
      checkpoint(t);
    }
    drain(loop);
    if (loop.on_nan() == OnNan::rewind && !all_agree(*t.world, !loop.nan_seen)) throw Rewind();
    if (queue) agree_on_progress(loop);
    if (queue ? !all_agree(*t.world, !stops) : stops) stop_run(t, saves);
    const std::int64_t done = t.progress.samples_in_epoch - before;
    if (queue && saves && checkpoint_due(t, done)) checkpoint(t);
    more = queue && end < phase.until && done > 0;
  }
  loop.end_epoch();
  loop.add_times(seconds_since(start));
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// The inner loop: forward, backward, exchange, update, report. Called by train() once per epoch.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "comm/agreement.h"
#include "parallel/local_gradients.h"
#include "train/checkpointing.h"
#include "train/training.h"
#include "tutti/gradient_check.h"
#include "tutti/log.h"

namespace tutti {
namespace {

// Applies each reduced gradient to the weights: each chunk updates its weights as soon as its global sum is there, or,
// while they are held, with all others.
class Update final : public ReducedGradientSink {
 public:
  Update(Optimizer& optimizer, const StepScalarsOfEpoch& scalars) : optimizer_(optimizer), scalars_(scalars) {}

  void next_step() { begun_ = skipped_ = holds_ = false; }
  // Nothing is updated until the next step.
  void skip_step() { skipped_ = true; }
  // From now on nothing is updated until let_go().
  void hold() { holds_ = true; }
  bool holds() const { return holds_; }
  void let_go() {
    holds_ = false;
    on_reduced(held_, held_columns_);
    held_.clear();
  }
  void on_reduced(std::size_t chunk, std::int64_t columns) override {
    if (holds_) return keep(std::span(&chunk, 1), columns);
    if (!scalars_.update || skipped_ || columns == 0) return;
    const auto start = Clock::now();
    begin(columns);
    optimizer_.update(chunk);
    seconds_ += seconds_since(start);
  }
  void on_reduced(std::span<const std::size_t> chunks, std::int64_t columns) override {
    if (holds_) return keep(chunks, columns);
    if (!scalars_.update || skipped_ || columns == 0) return;
    const auto start = Clock::now();
    begin(columns);
    optimizer_.update_all(chunks);
    seconds_ += seconds_since(start);
  }
  Summed summed(std::int64_t columns) const override {
    if (skipped_) return Summed::nothing;
    const Summed wanted = optimizer_.summed();
    return wanted == Summed::gradients || (scalars_.update && columns > 0) ? wanted : Summed::nothing;
  }
  void contribute(std::size_t chunk, std::int64_t columns, int ranks) override {
    const auto start = Clock::now();
    begin(columns);
    optimizer_.contribute(chunk, ranks);
    seconds_ += seconds_since(start);
  }
  const float* mask() const override { return optimizer_.mask(); }
  void reset_momentum() override { optimizer_.reset_momentum(); }
  StepRates rates() const override {
    if (!scalars_.update) return {};
    return {scalars_.learning_rate, scalars_.momentum_per_sample};
  }
  double seconds() const { return seconds_; }

 private:
  void keep(std::span<const std::size_t> chunks, std::int64_t columns) {
    held_.insert(held_.end(), chunks.begin(), chunks.end());
    held_columns_ = columns;
  }
  void begin(std::int64_t columns) {
    if (std::exchange(begun_, true)) return;
    optimizer_.begin_step({scalars_.learning_rate, scalars_.momentum_per_sample, columns});
  }

  Optimizer& optimizer_;
  StepScalarsOfEpoch scalars_;
  bool begun_ = false, skipped_ = false, holds_ = false;
  std::vector<std::size_t> held_;
  std::int64_t held_columns_ = 0;
  double seconds_ = 0;
};

// Gradients that are looked at before anybody gets them. They are announced as always, and handed on later.
class Held final : public GradientSink {
 public:
  bool follows_device() const override { return true; }
  void chunk_ready(std::size_t) override {}
};

// `minibatch` counts from 1 in the epoch.
[[noreturn]] void stop_at_nan(const Training& t, std::int64_t minibatch, const std::string& what) {
  throw Error(
      fmt::format("The training criterion is not a number (NAN).\n{} in epoch {}, minibatch {} of command '{}'.\n"
                  "fix: lower the learning rate, or clip gradients (clippingThresholdPerSample)",
                  what, t.progress.epoch + 1, minibatch, t.command));
}

// gradientcheck = true: before the step, on this rank's share.
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

// Every rank goes on with its exchange, and all see that the result is no number.
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

// What the steps of one run_epoch() share.
struct Loop {
  Loop(Training& training, const EpochPlan& p, const StepScalarsOfEpoch& s)
      : t(training),
        plan(p),
        scalars(s),
        update(*training.optimizer, s),
        chunks(all_chunks(training.network->parameters())) {}

  Training& t;
  const EpochPlan& plan;
  const StepScalarsOfEpoch& scalars;
  Update update;
  std::vector<std::size_t> chunks;      // all of them
  std::int64_t minibatches_before = 0;  // of the epoch, where the reader began
  std::int64_t steps = 0;               // since then
  bool deferred = false;                // results come some steps later
  double reading = 0, working = 0;
};

void start_reading(Loop& loop, const EpochPlan& plan) {
  loop.minibatches_before = loop.t.progress.minibatches_in_epoch;
  loop.steps = 0;
  loop.t.reader->start_epoch(plan);
}

const Batch* read(Loop& loop) {
  const auto asked = Clock::now();
  const Batch* batch = loop.t.reader->next();
  loop.reading += seconds_since(asked);
  return batch;
}

std::int64_t number_of(const Loop& loop, std::int64_t minibatch) { return loop.minibatches_before + minibatch + 1; }

// The minibatch is read once more to find what was not a number.
[[noreturn]] void stop_at_deferred_nan(Loop& loop, const DeferredNumericError& e) {
  std::string what = fmt::format("{}; computed once more, it is one", e.what());
  EpochPlan plan = loop.plan;
  plan.start = e.position;
  loop.t.reader->start_epoch(plan);
  try {
    if (const Batch* batch = loop.t.reader->next()) loop.t.network->explain_nan(*batch);
  } catch (const NumericError& found) {
    what = found.what();
  }
  stop_at_nan(loop.t, number_of(loop, e.minibatch), what);
}

StepMetrics forward_backward(Loop& loop, const Batch& batch, GradientSink& chunks) {
  Training& t = loop.t;
  try {
    return t.network->forward_backward(batch, chunks);
  } catch (const DeferredNumericError& e) {
    stop_at_deferred_nan(loop, e);
  } catch (const NumericError& e) {
    if (!loop.scalars.bears_nan) stop_at_nan(t, number_of(loop, batch.minibatch), e.what());
    return announce_nan(t, batch, chunks);
  }
}

void log_skipped_step(const Training& t, double scale) {
  log::line(fmt::format(
      "Epoch[{:2} of {}]-Minibatch[{:4}]: a gradient is not finite in float16 with lossScale {:g}: "
      "the update is skipped, and the scale is {:g} now.",
      t.progress.epoch + 1, t.sgd.max_epochs, t.progress.minibatches_in_epoch + 1, scale, t.grad_scaler.value()));
}

// While the scale of float16 is sought: whether the step is to be skipped. `finite` says so of all ranks that make one
// update together.
bool skips_step(Training& t, bool finite) {
  const double scale = t.grad_scaler.value();
  const bool out = t.grad_scaler.skips_step(finite);
  if (out) log_skipped_step(t, scale);
  return out;
}

// The host waits until the device has looked at all gradients, so what the device is to work on next sets out before.
bool finite_gradients(Training& t) { return t.network->unscale_gradients(t.reader->ahead()); }

// Nobody gets a gradient before all are known to be finite.
StepMetrics look_and_hand_on(Loop& loop, const Batch& batch, std::int64_t columns) {
  Training& t = loop.t;
  const bool together = t.strategy->skips_steps_together();
  if (!together) t.strategy->begin_step(columns, loop.update);
  Held held;
  const StepMetrics metrics = forward_backward(loop, batch, held);
  if (skips_step(t, t.strategy->agree(finite_gradients(t)))) {
    t.network->clear_gradients();
    if (together) loop.update.skip_step();
  }
  if (together) t.strategy->begin_step(columns, loop.update);
  if (!t.strategy->follows_device()) t.network->synchronize();
  t.strategy->chunks_ready(loop.chunks);
  return metrics;
}

// Gradients travel as they come; their sums, equal on all ranks, are looked at before they change a weight.
void look_at_sums(Loop& loop) {
  if (skips_step(loop.t, finite_gradients(loop.t))) loop.update.skip_step();
  loop.update.let_go();
}

StepMetrics local_gradients(Loop& loop, const Batch& batch) {
  Training& t = loop.t;
  const std::int64_t columns = t.strategy->step_columns(batch.samples, batch.columns, batch.global_columns);
  if (t.grad_scaler.seeks()) {
    t.network->scale_gradients(t.grad_scaler.value(), false);
    if (!t.strategy->sums_only() || t.optimizer->wants_contributions()) return look_and_hand_on(loop, batch, columns);
    loop.update.hold();
  }
  t.strategy->begin_step(columns, loop.update);
  return forward_backward(loop, batch, *t.strategy);
}

StepMetrics compute_and_exchange(Loop& loop, const Batch& batch) {
  Training& t = loop.t;
  t.fault_hook.before_step();
  if (t.traces) trace_nodes(t, batch);
  if (t.sgd.gradient_check) check_gradients_or_stop(t, batch);
  loop.update.next_step();
  StepMetrics metrics = local_gradients(loop, batch);
  metrics.samples = batch.samples;
  t.strategy->finish_gradients(metrics);
  if (loop.update.holds()) look_at_sums(loop);
  if (!t.strategy->follows_device()) t.network->synchronize();
  t.strategy->exchange_weights(batch.global_samples);
  return metrics;
}

// The host does not wait for a device within a step where nobody wants it to know anything.
bool may_defer_metrics(const Loop& loop) {
  const Training& t = loop.t;
  return t.strategy->takes_deferred_metrics() && t.strategy->follows_device() && !loop.plan.work_queue &&
         !loop.scalars.bears_nan && !t.grad_scaler.seeks() && !t.sgd.gradient_check;
}

void check_sum(const Loop& loop, const StepMetrics& metrics, std::int64_t minibatch) {
  if (std::isnan(metrics.criterion) && !loop.scalars.bears_nan)
    stop_at_nan(loop.t, number_of(loop, minibatch), "The sum over the ranks is not a number");
}

// Results that have not come yet.
void finish_deferred_metrics(Loop& loop) {
  Training& t = loop.t;
  const auto start = Clock::now();
  try {
    while (auto metrics = t.network->next_deferred_metrics()) {
      t.strategy->finish_deferred(*metrics);
      check_sum(loop, *metrics, t.network->measured_minibatch());
      t.report->add(*metrics);
    }
  } catch (const DeferredNumericError& e) {
    stop_at_deferred_nan(loop, e);
  }
  loop.working += seconds_since(start);
}

void step(Loop& loop, const Batch& batch) {
  Training& t = loop.t;
  const auto start = Clock::now();
  StepMetrics metrics;
  if (t.constant_predictor.counts() && !loop.scalars.trial) t.constant_predictor.add(batch);
  if (t.strategy->joins_step(batch.samples)) metrics = compute_and_exchange(loop, batch);
  loop.working += seconds_since(start);
  ++loop.steps;

  check_sum(loop, metrics, loop.deferred ? t.network->measured_minibatch() : batch.minibatch);
  const std::int64_t samples = batch.position + batch.global_samples, minibatches = number_of(loop, batch.minibatch);
  const std::int64_t more_samples = samples - std::exchange(t.progress.samples_in_epoch, samples);
  const std::int64_t more_minibatches = minibatches - std::exchange(t.progress.minibatches_in_epoch, minibatches);
  t.report->add(metrics);
  if (loop.deferred && t.report->line_due_within(more_minibatches)) finish_deferred_metrics(loop);
  t.report->step(more_samples, more_minibatches);
}

void drain(Loop& loop) {
  Training& t = loop.t;
  if (loop.deferred) finish_deferred_metrics(loop);
  const auto start = Clock::now();
  loop.update.next_step();
  t.strategy->drain(loop.update);
  loop.working += seconds_since(start);
  t.report->add(t.strategy->pending_metrics_and_reset());
  t.report->add_to_epoch(t.strategy->metrics_of_others_and_reset());
  t.progress.dropped_samples += t.strategy->dropped_samples_and_reset();
  t.progress.epoch_metrics = t.report->epoch_metrics();
}

void checkpoint_common_weights(Training& t) {
  t.strategy->show_common_weights();
  checkpoint(t);
  t.strategy->take_back_weights();
}

// Every rank takes its share of each minibatch.
void work_on_shares(Loop& loop, const EpochPlan& plan, std::int64_t until) {
  Training& t = loop.t;
  start_reading(loop, plan);
  while (t.progress.samples_in_epoch < until) {
    const Batch* batch = read(loop);
    if (!batch) break;
    step(loop, *batch);
    if (loop.scalars.trial || !checkpoint_due(t, batch->global_samples)) continue;
    drain(loop);
    checkpoint_common_weights(t);
  }
  drain(loop);
}

// Ranks that took work units stand at different places; what has been handed out ends where the foremost is.
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

// Every rank takes what it gets from the work queue. A checkpoint needs all ranks at one place, so work units are
// handed out as far as the next.
void work_on_units(Loop& loop, EpochPlan plan, std::int64_t until) {
  Training& t = loop.t;
  for (bool more = true; more;) {
    const std::int64_t before = t.progress.samples_in_epoch;
    plan.start = before;
    plan.end = loop.scalars.trial ? until : std::min(until, next_checkpoint(t));
    plan.work_queue->start_range();
    start_reading(loop, plan);
    while (const Batch* batch = read(loop)) step(loop, *batch);
    drain(loop);
    agree_on_progress(loop);
    const std::int64_t done = t.progress.samples_in_epoch - before;
    if (!loop.scalars.trial && checkpoint_due(t, done)) checkpoint_common_weights(t);
    more = plan.end < until && done > 0;
  }
}

}  // namespace

void run_epoch(Training& t, const EpochPlan& plan, const StepScalarsOfEpoch& scalars, std::int64_t until) {
  Loop loop(t, plan, scalars);
  const auto start = Clock::now();
  t.network->forget_states();
  t.network->scale_gradients(t.grad_scaler.value());
  t.network->bind(t.reader->streams());  // validation may have bound another reader's
  const bool deferred = t.network->defer_metrics(may_defer_metrics(loop));
  loop.deferred = all_agree(*t.world, deferred);  // ranks may be of several kinds
  if (deferred && !loop.deferred) t.network->defer_metrics(false);
  if (plan.work_queue)
    work_on_units(loop, plan, until);
  else
    work_on_shares(loop, plan, until);
  const auto ending = Clock::now();
  t.strategy->end_epoch(loop.update);
  loop.working += seconds_since(ending);
  const ExchangeStats exchange = t.strategy->exchange_stats_and_reset();
  t.times.total += seconds_since(start);
  t.times.read += loop.reading;
  t.times.update += loop.update.seconds();
  t.times.exchange += exchange;
  t.times.network += loop.working - loop.update.seconds() - exchange.encode - exchange.wait - exchange.decode;
}

}  // namespace tutti

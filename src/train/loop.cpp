// SPDX-License-Identifier: Apache-2.0
#include "train/loop.h"

#include <cmath>
#include <utility>

#include "comm/agreement.h"
#include "train/nan_report.h"

namespace tutti {
namespace {

// The host does not wait for a device within a step unless somebody needs a result.
bool may_defer_metrics(const Training& t, const Phase& phase) {
  const ParallelMethod& method = phase.method->method;
  return !method.data.skipper && method.gradients->follows_device() && !phase.plan.work_queue &&
         !phase.scalars.bears_nan && !t.grad_scaler.seeks() && !t.sgd.gradient_check;
}

void check_sum(const Loop& loop, const StepMetrics& metrics, std::int64_t minibatch) {
  if (std::isnan(metrics.criterion) && !loop.phase.scalars.bears_nan)
    stop_at_nan(loop.t, loop.number_of(minibatch), "The sum over the ranks is not a number");
}

}  // namespace

Loop::Loop(Training& training, const Phase& p)
    : t(training),
      phase(p),
      running(*p.method),
      method(running.method),
      update(*t.optimizer, *method.weights, {p.scalars.learning_rate, p.scalars.momentum_per_sample}, p.scalars.update),
      reduction(t, method, update) {
  t.network->forget_states();
  t.network->scale_gradients(t.grad_scaler.value());
  t.network->bind(t.reader->streams());  // validation may have bound another reader's
  const bool mine = t.network->defer_metrics(may_defer_metrics(t, phase));
  deferred = all_agree(*t.world, mine);  // ranks may be of several kinds
  if (mine && !deferred) t.network->defer_metrics(false);
}

void Loop::start_reading(std::int64_t from, std::int64_t end) {
  EpochPlan plan = phase.plan;
  plan.start = from;
  if (plan.work_queue) plan.end = end, plan.work_queue->start_range();
  minibatches_before = t.progress.minibatches_in_epoch;
  steps = 0;
  t.reader->start_epoch(plan);
}

const Batch* Loop::read() {
  if (!phase.plan.work_queue && t.progress.samples_in_epoch >= phase.until) return nullptr;
  const auto start = Clock::now();
  const Batch* batch = t.reader->next();
  reading += seconds_since(start);
  return batch;
}

bool Loop::joins_step(const Batch& batch) {
  if (t.constant_predictor.counts() && !phase.scalars.trial) t.constant_predictor.add(batch);
  if (method.data.skipper && !method.data.skipper->joins_step(batch.samples)) return false;
  t.fault_hook.before_step();
  if (t.traces) trace_nodes(t, batch);
  if (t.sgd.gradient_check) check_gradients_or_stop(t, batch);
  return true;
}

bool Loop::exchange_weights(const StepInfo& step) {
  if (!method.gradients->follows_device()) t.network->synchronize();
  const WeightChange change = running.exchange_weights(step);
  apply(change);
  return change.dropped;
}

void Loop::apply(const WeightChange& change) {
  if (change.apply_gradients) update.apply_held();
  if (change.reset_momentum) t.optimizer->reset_momentum();
}

void Loop::report(const Batch& batch, const StepMetrics& metrics_of_step) {
  ++steps;
  check_sum(*this, metrics_of_step, deferred ? t.network->measured_minibatch() : batch.minibatch);
  const std::int64_t samples = batch.position + batch.global_samples, minibatches = number_of(batch.minibatch);
  const std::int64_t more_samples = samples - std::exchange(t.progress.samples_in_epoch, samples);
  const std::int64_t more_minibatches = minibatches - std::exchange(t.progress.minibatches_in_epoch, minibatches);
  t.report->add(metrics_of_step);
  if (t.report->line_due_within(more_minibatches)) finish_deferred_metrics(*this);
  t.report->step(more_samples, more_minibatches);
}

void Loop::drain_exchange() {
  update.begin_step(false);
  apply(running.drain(update));
}

void Loop::end_epoch() {
  const auto start = Clock::now();
  apply(method.weights->end_epoch());
  working += seconds_since(start);
}

void Loop::add_times(double seconds) {
  const ExchangeStats exchange = running.exchange_stats_and_reset();
  t.times.total += seconds;
  t.times.read += reading;
  t.times.update += update.seconds();
  t.times.exchange += exchange;
  t.times.network += working - update.seconds() - exchange.encode - exchange.wait - exchange.decode;
}

void finish_deferred_metrics(Loop& loop) {
  if (!loop.deferred) return;
  Training& t = loop.t;
  const auto start = Clock::now();
  try {
    while (const auto mine = t.network->next_deferred_metrics()) {
      const StepMetrics metrics = loop.running.metrics.reduce(*mine);
      check_sum(loop, metrics, t.network->measured_minibatch());
      t.report->add(metrics);
    }
  } catch (const DeferredNumericError& e) {
    stop_at_deferred_nan(t, loop.phase.plan, loop.minibatches_before, e);
  }
  loop.working += seconds_since(start);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// The inner loop: read, forward and backward, reduce, update, report.
#include <algorithm>

#include "base/activity.h"
#include "comm/agreement.h"
#include "train/checkpointing.h"
#include "train/gradient_reduction.h"
#include "train/phase_metrics.h"
#include "train/phase_times.h"
#include "train/replica_check.h"

namespace tutti {
namespace {

// The state shared by the steps of a phase, and the work around a step.
struct Loop {
  Loop(Training& training, const Phase& p)
      : t(training),
        phase(p),
        running(*p.method),
        method(running.method),
        update(*t.optimizer, *method.weights, 0.01 * t.sgd.min_learning_rate_per_sample),
        reduction(t, method, update),
        times(t, running, update),
        metrics(t, phase, times) {
    t.network->forget_states();
    t.network->scale_gradients(t.grad_scaler.value());
    t.network->bind(t.reader->streams());  // validation may have bound another reader's
    metrics.defer_if_possible();
  }

  // Samples of the epoch.
  void start_reading(std::int64_t from, std::int64_t end) {
    EpochPlan plan = phase.plan;
    plan.start = from;
    if (plan.work_queue) plan.end = end, plan.work_queue->start_range();
    metrics.start_reading();
    t.reader->start_epoch(plan);
  }

  // Null at the end.
  const Batch* read() {
    if (!phase.plan.work_queue && t.progress.samples_in_epoch >= phase.until) return nullptr;
    const Doing doing("reads the next minibatch");
    const WorkTimer watch(t.times.read, Work::read);
    return t.reader->next();
  }

  // Passes the batch to parts that watch the data. Returns whether this rank takes part in the step.
  bool joins_step(const Batch& batch) {
    if (t.constant_predictor.counts() && !phase.settings.trial) t.constant_predictor.add(batch);
    if (method.data.skipper && !method.data.skipper->joins_step(batch.samples)) return false;
    disturb(t);
    if (t.traces) trace_nodes(t, batch);
    if (t.sgd.gradient_check) check_gradients_or_stop(t, batch);
    return true;
  }

  // Returns whether the gradients of the step came too late and are discarded.
  bool exchange_weights(const StepInfo& step) {
    if (!method.gradients->follows_device()) t.network->synchronize();
    const WeightChange change = running.exchange_weights(step);
    update.apply(change);
    if (t.average && update.has_updated()) t.average->update();
    return change.dropped;
  }

  void finish() {
    if (phase.method == t.parallel.get()) verify_group_weights(t);  // the last exchange overwrites some of them
    const auto start = Clock::now();
    update.apply(method.weights->end_epoch());
    t.times.network += seconds_since(start);
    times.update();
  }

  Training& t;
  const Phase& phase;
  RunningMethod& running;
  ParallelMethod& method;
  WeightUpdate update;
  GradientReduction reduction;
  PhaseTimes times;
  PhaseMetrics metrics;
};

// One minibatch. Gradients are reduced and weights updated while the network still computes backward.
void step(Loop& loop, const Batch& batch) {
  Training& t = loop.t;
  const Doing doing("computes");
  const auto start = Clock::now();
  t.step_end = batch.position + batch.global_samples;
  StepMetrics metrics;
  if (loop.joins_step(batch)) {
    loop.update.use(step_rates(t, loop.phase.settings, batch));
    const StepInfo info = loop.running.step_info(
        {batch.samples, batch.columns, batch.global_samples, batch.global_columns}, loop.update.rates());
    GradientSink& gradients = loop.reduction.begin_step(info);
    metrics = loop.metrics.forward_backward(batch, gradients, info);
    loop.reduction.end_backward();
    loop.running.metrics.begin(metrics);
    if (loop.reduction.finish_step()) loop.metrics.restore_statistics();
    metrics = loop.running.metrics.finish();
    if (loop.exchange_weights(info)) metrics = {};  // too late to count
  }
  t.times.network += seconds_since(start);
  const std::int64_t before = t.progress.minibatches_in_epoch;
  loop.metrics.add(batch, metrics);
  t.step_end = 0;
  if (loop.phase.method == t.parallel.get()) verify_replicas(t, before);
}

// Completes everything in flight on all ranks. Throws Rewind if one of them has seen NaN, and onNaN = rewind.
void drain(Loop& loop) {
  loop.metrics.finish_deferred();
  const Stopwatch watch(loop.t.times.network);
  loop.update.begin_step(false);
  loop.update.apply(loop.running.drain(loop.update));
  if (loop.t.average && loop.update.has_updated()) loop.t.average->update();
  loop.metrics.drain();
  loop.metrics.rewind_if_needed();
}

}  // namespace

// With a work queue, a checkpoint needs all ranks at one position, so units are handed out only up to the next
// checkpoint.
void run_phase(Training& t, const Phase& phase) {
  Loop loop(t, phase);
  const bool queue = phase.plan.work_queue != nullptr, saves = !phase.settings.trial;
  bool stops = false;
  for (bool more = true; more;) {
    const std::int64_t before = t.progress.samples_in_epoch;
    const std::int64_t end = queue && saves ? std::min(phase.until, next_checkpoint(t)) : phase.until;
    loop.start_reading(before, end);
    while (const Batch* batch = loop.read()) {
      if (stops = !may_begin(t, loop.metrics.number_of(batch->minibatch)); stops) break;
      step(loop, *batch);
      if (loop.metrics.rewinds_now()) break;
      if (queue || !saves || !checkpoint_due(t, batch->global_samples)) continue;
      drain(loop);
      checkpoint(t);
    }
    drain(loop);
    if (queue) loop.metrics.agree_on_progress();
    if (queue ? !all_agree(*t.world, !stops) : stops) stop_run(t, saves);
    const std::int64_t done = t.progress.samples_in_epoch - before;
    if (queue && saves && checkpoint_due(t, done)) checkpoint(t);
    more = queue && end < phase.until && done > 0;
  }
  loop.finish();
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// The inner loop: read, forward and backward, reduce, update, report.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "train/checkpointing.h"
#include "train/loop.h"
#include "train/nan_report.h"

namespace tutti {

// One minibatch. Gradients are reduced and weights updated while the network still computes backward.
void step(Loop& loop, const Batch& batch) {
  Training& t = loop.t;
  const auto start = Clock::now();
  StepMetrics metrics;
  if (loop.joins_step(batch)) {
    const StepInfo info = loop.running.step_info(
        {batch.samples, batch.columns, batch.global_samples, batch.global_columns}, loop.update.rates());
    GradientSink& gradients = loop.reduction.begin_step(info);
    try {
      metrics = t.network->forward_backward(batch, gradients);
    } catch (const DeferredNumericError& e) {
      stop_at_deferred_nan(t, loop.phase.plan, loop.minibatches_before, e);
    } catch (const NumericError& e) {
      if (!loop.phase.scalars.bears_nan) stop_at_nan(t, loop.number_of(batch.minibatch), e.what());
      metrics = announce_nan(t, batch, gradients);
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
}

// Completes everything in flight on all ranks.
void drain(Loop& loop) {
  Training& t = loop.t;
  finish_deferred_metrics(loop);
  const auto start = Clock::now();
  loop.drain_exchange();
  const MetricsReducer::Drained drained = loop.running.metrics.drain();
  t.report->add(drained.pending);
  if (StepSkipper* skipper = loop.method.data.skipper)
    t.progress.dropped_samples += skipper->dropped_samples_and_reset();
  t.report->add_to_epoch(drained.of_others);
  t.progress.epoch_metrics = t.report->epoch_metrics();
  loop.working += seconds_since(start);
}

namespace {

void checkpoint_common_weights(Training& t) {
  const CommonWeights common(*t.parallel->method.weights);
  checkpoint(t);
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

}  // namespace

// With a work queue, a checkpoint needs all ranks at one position, so units are handed out only up to the next
// checkpoint.
void run_phase(Training& t, const Phase& phase) {
  const auto start = Clock::now();
  Loop loop(t, phase);
  const bool queue = phase.plan.work_queue != nullptr, saves = !phase.scalars.trial;
  for (bool more = true; more;) {
    const std::int64_t before = t.progress.samples_in_epoch;
    const std::int64_t end = queue && saves ? std::min(phase.until, next_checkpoint(t)) : phase.until;
    loop.start_reading(before, end);
    while (const Batch* batch = loop.read()) {
      step(loop, *batch);
      if (queue || !saves || !checkpoint_due(t, batch->global_samples)) continue;
      drain(loop);
      checkpoint_common_weights(t);
    }
    drain(loop);
    if (queue) agree_on_progress(loop);
    const std::int64_t done = t.progress.samples_in_epoch - before;
    if (queue && saves && checkpoint_due(t, done)) checkpoint_common_weights(t);
    more = queue && end < phase.until && done > 0;
  }
  loop.end_epoch();
  loop.add_times(seconds_since(start));
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "train/phase_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "comm/agreement.h"

namespace tutti {

// The host does not wait for a device within a step unless somebody needs a result.
void PhaseMetrics::defer_if_possible() {
  const ParallelMethod& method = phase_.method->method;
  const bool possible = !method.data.skipper && method.gradients->follows_device() && !phase_.plan.work_queue &&
                        !phase_.settings.bears_nan && t_.sgd.faults.on_nan == OnNan::stop && !t_.grad_scaler.seeks() &&
                        !t_.sgd.gradient_check;
  const bool mine = t_.network->defer_metrics(possible);
  deferred_ = all_agree(*t_.world, mine);  // ranks may be of several kinds
  if (mine && !deferred_) t_.network->defer_metrics(false);
}

PhaseMetrics::~PhaseMetrics() {
  if (t_.timeline) t_.timeline->stop();
}

void PhaseMetrics::start_reading() {
  if (t_.timeline && !phase_.settings.trial) t_.timeline->start(t_.progress.epoch, t_.progress.minibatches_in_epoch);
  minibatches_before_ = t_.progress.minibatches_in_epoch;
  steps_ = 0;
}

StepMetrics PhaseMetrics::forward_backward(const Batch& batch, GradientSink& gradients, const StepInfo& step) {
  StepMetrics metrics;
  keep_statistics();
  try {
    metrics = t_.network->forward_backward(batch, gradients, updates_alone_ ? step.samples : step.global_samples);
  } catch (const DeferredNumericError& e) {
    stop_at_nan(e);
  } catch (const NumericError& e) {
    metrics = bear_nan(batch, e.what(), gradients);
  }
  metrics.samples = batch.samples;
  return metrics;
}

void PhaseMetrics::add(const Batch& batch, const StepMetrics& metrics) {
  ++steps_;
  check_sum(metrics, deferred_ ? t_.network->measured_minibatch() : batch.minibatch);
  const std::int64_t samples = batch.position + batch.global_samples;
  const std::int64_t minibatches = number_of(batch.minibatch);
  const std::int64_t more_samples = samples - std::exchange(t_.progress.samples_in_epoch, samples);
  const std::int64_t more_minibatches = minibatches - std::exchange(t_.progress.minibatches_in_epoch, minibatches);
  if (t_.timeline && !phase_.settings.trial) t_.timeline->end_step(minibatches);
  t_.report->add(metrics);
  const bool line_due = t_.report->line_due_within(more_minibatches);
  if (line_due) finish_deferred();
  if (line_due || t_.report->progress_due()) times_.update();
  t_.report->step(more_samples, more_minibatches, t_.times);
}

void PhaseMetrics::finish_deferred() {
  if (!deferred_) return;
  const Stopwatch watch(t_.times.network);
  try {
    while (const auto mine = t_.network->next_deferred_metrics()) {
      const StepMetrics metrics = phase_.method->metrics.reduce(*mine);
      check_sum(metrics, t_.network->measured_minibatch());
      t_.report->add(metrics);
    }
  } catch (const DeferredNumericError& e) {
    stop_at_nan(e);
  }
}

void PhaseMetrics::drain() {
  const MetricsReducer::Drained drained = phase_.method->metrics.drain();
  t_.report->add(drained.pending);
  if (StepSkipper* skipper = phase_.method->method.data.skipper)
    t_.progress.dropped_samples += skipper->dropped_samples_and_reset();
  t_.report->add_to_epoch(drained.of_others);
  t_.progress.epoch_metrics = t_.report->epoch_metrics();
  if (t_.timeline) t_.timeline->flush();
}

void PhaseMetrics::agree_on_progress() {
  using Place = std::array<std::int64_t, 3>;
  Progress& progress = t_.progress;
  const Place mine{progress.samples_in_epoch, progress.minibatches_in_epoch, steps_};
  const std::vector<Place> all = from_all(*t_.world, mine);
  t_.times.units.resize(all.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    progress.samples_in_epoch = std::max(progress.samples_in_epoch, all[r][0]);
    progress.minibatches_in_epoch = std::max(progress.minibatches_in_epoch, all[r][1]);
    t_.times.units[r] += all[r][2];
  }
  t_.report->pass(progress.samples_in_epoch - mine[0], progress.minibatches_in_epoch - mine[1]);
}

// All ranks whose metrics are summed in every step see the same.
void PhaseMetrics::check_sum(const StepMetrics& metrics, std::int64_t minibatch) {
  if (!std::isnan(metrics.criterion) || phase_.settings.bears_nan) return;
  nan_seen_ = true;
  if (on_nan() == OnNan::stop) stop_at_nan(minibatch, "The sum over the ranks is not a number");
}

}  // namespace tutti

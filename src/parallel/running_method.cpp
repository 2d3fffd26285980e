// SPDX-License-Identifier: Apache-2.0
#include "parallel/running_method.h"

#include <array>
#include <utility>

#include "parallel/groups/level_archive.h"

namespace tutti {

StepInfo RunningMethod::step_info(const StepSize& size, const StepRates& rates) const {
  StepInfo info{.own_samples = size.samples,
                .samples = size.samples,
                .columns = size.columns,
                .global_samples = size.global_samples,
                .global_columns = size.global_columns,
                .rates = rates};
  Communicator* const together = method.update_ranks;
  if (!together || together->size() == 1) return info;
  std::array<std::int64_t, 2> sums{size.global_samples, size.global_columns};
  if (together->size() < ranks_) {
    sums = {size.samples, size.columns};
    together->all_reduce_sum(std::span(sums));
  }
  info.samples = sums[0], info.columns = sums[1];
  return info;
}

// With delayed updates, the weights contain the gradients of the previous step.
WeightChange RunningMethod::exchange_weights(const StepInfo& step) {
  StepInfo applied = step;
  if (method.traits.delayed) applied.samples = last_.samples;
  last_ = step;
  ++steps_since_;
  const WeightChange change = method.weights->after_update(applied);
  if (change.dropped) metrics.drop_last();
  return change;
}

WeightChange RunningMethod::drain(ReducedGradientSink& sink) {
  WeightChange change;
  method.gradients->drain(sink);
  if (method.traits.delayed && steps_since_ > 0) {
    last_.global_samples = 0;  // counted by now
    change = method.weights->after_update(std::exchange(last_, {}));
  }
  steps_since_ = 0;
  method.weights->drain();  // ranks that are done wait for the others asleep, so before any other collective
  return change;
}

ExchangeStats RunningMethod::exchange_stats_and_reset() {
  ExchangeStats stats = tutti::exchange_stats_and_reset(method);
  const std::int64_t bytes = metrics.bytes_and_reset();
  stats.bytes_sent += bytes;
  if (method.metrics.other_groups > 0)
    stats.bytes_between += bytes / (method.metrics.per_step->size() - 1) * method.metrics.other_groups;
  return stats;
}

void start(ParallelMethod& m, Parameters& parameters) {
  m.gradients->start(parameters);
  m.weights->start(parameters);
}

void begin_epoch(ParallelMethod& m, std::int64_t epoch) {
  m.gradients->begin_epoch(epoch);
  m.weights->begin_epoch(epoch);
}

void archive(ParallelMethod& m, Archive& a, WeightExchange::Section section) {
  m.weights->archive(a, section);
  if (section == WeightExchange::Section::common) return;
  LevelArchive level(a, m.traits.gradients_archived_as);
  m.gradients->archive(level);
}

ExchangeStats exchange_stats_and_reset(ParallelMethod& m) {
  ExchangeStats gradients = m.gradients->exchange_stats_and_reset(), weights = m.weights->exchange_stats_and_reset();
  if (m.traits.gradients_between_groups) return stats_of_levels(weights, gradients);
  return gradients += weights;
}

}  // namespace tutti

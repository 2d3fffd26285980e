// SPDX-License-Identifier: Apache-2.0
#include "tutti/parallel_method.h"

#include "parallel/groups/level_archive.h"

namespace tutti {

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

// SPDX-License-Identifier: Apache-2.0
#include "parallel/metrics_reducer.h"

#include <utility>

namespace tutti {

MetricsReducer::MetricsReducer(const MetricsDivision& division, bool delayed) : division_(division), delayed_(delayed) {
  if (division.per_step) per_step_.emplace(*division.per_step);
}

void MetricsReducer::count_last() {
  if (std::exchange(uncounted_, false)) mine_ += result_;
}

void MetricsReducer::begin(const StepMetrics& mine) {
  count_last();
  if (!per_step_) {
    result_ = mine;
    return;
  }
  if (delayed_ && per_step_->pending()) {
    result_ = per_step_->finish();
  } else {
    result_.evaluations.resize(mine.evaluations.size());
    clear(result_);
  }
  per_step_->begin(mine);
}

const StepMetrics& MetricsReducer::finish() {
  if (per_step_) per_step_->ensure_sent();
  if (per_step_ && !delayed_) result_ = per_step_->finish();
  uncounted_ = division_.at_drain != nullptr;
  return result_;
}

MetricsReducer::Drained MetricsReducer::drain() {
  Drained drained;
  if (per_step_ && per_step_->pending()) drained.pending = per_step_->finish();
  if (!division_.at_drain) return drained;
  count_last();
  mine_ += drained.pending;
  // Ranks that sum their metrics in every step all know the same sum, which counts once.
  const bool counts = !division_.per_step || division_.per_step->rank() == 0;
  drained.of_others = metrics_of_others(*division_.at_drain, counts ? mine_ : StepMetrics());
  if (!counts) drained.of_others = without(drained.of_others, mine_);
  clear(mine_);
  return drained;
}

}  // namespace tutti

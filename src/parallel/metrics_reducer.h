// SPDX-License-Identifier: Apache-2.0
// metrics_reducer.h -- adds up step metrics over the ranks, in every step or when nothing is in flight.
#pragma once

#include <cstdint>
#include <optional>

#include "collective/metrics_all_reduce.h"
#include "tutti/parallel_method.h"

namespace tutti {

class MetricsReducer {
 public:
  // With `delayed`, finish() returns the results of the previous step, so messages have a whole step to arrive.
  MetricsReducer(const MetricsDivision&, bool delayed);

  // begin() sends this rank's metrics; finish() waits for those of the other ranks.
  void begin(const StepMetrics& mine);
  const StepMetrics& finish();  // valid until the next begin()
  const StepMetrics& reduce(const StepMetrics& mine) {
    begin(mine);
    return finish();
  }
  // The last result of finish() belongs to a step that came too late; it is not passed on to other ranks.
  void drop_last() { uncounted_ = false; }
  struct Drained {
    StepMetrics pending;    // what finish() has not returned yet
    StepMetrics of_others;  // if results are per rank: what the other ranks have added since the last call
  };
  Drained drain();  // collective
  std::int64_t bytes_and_reset() { return per_step_ ? per_step_->bytes_and_reset() : 0; }

 private:
  void count_last();

  const MetricsDivision division_;
  const bool delayed_;
  std::optional<MetricsAllReduce> per_step_;
  StepMetrics result_;      // of finish(), if known before
  StepMetrics mine_;        // since the last drain()
  bool uncounted_ = false;  // result_ is not in mine_ yet
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// running_method.h -- a parallel method at work: what the step loop knows of steps, delays and sums of metrics.
#pragma once

#include <cstdint>

#include "parallel/metrics_reducer.h"
#include "tutti/parallel_method.h"

namespace tutti {

// How much of a minibatch there is: on this rank, and on all.
struct StepSize {
  std::int64_t samples = 0, columns = 0;
  std::int64_t global_samples = 0, global_columns = 0;
};

class RunningMethod {
 public:
  // `ranks` of the run, which all take part.
  RunningMethod(ParallelMethod m, int ranks)
      : method(std::move(m)), metrics(method.metrics, method.traits.delayed), ranks_(ranks) {}

  // Collective over the ranks that make one update together.
  StepInfo step_info(const StepSize&, const StepRates&) const;
  // After the update: the weights of the ranks.
  WeightChange exchange_weights(const StepInfo&);
  // Nothing is in flight any more, but for metrics. Late gradients go to the sink. Collective.
  WeightChange drain(ReducedGradientSink&);

  // What this rank has spent since the last call; complete after drain() and the end of the epoch.
  ExchangeStats exchange_stats_and_reset();

  ParallelMethod method;
  MetricsReducer metrics;

 private:
  const int ranks_;
  StepInfo last_;                 // its gradients may still come, where the method is delayed
  std::int64_t steps_since_ = 0;  // since drain()
};

}  // namespace tutti

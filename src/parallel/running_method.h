// SPDX-License-Identifier: Apache-2.0
// running_method.h -- a running parallel method: counts steps, and handles delays and step metrics for the step loop.
#pragma once

#include <cstdint>

#include "parallel/metrics_reducer.h"
#include "tutti/parallel_method.h"

namespace tutti {

// The size of a minibatch: on this rank and on all ranks.
struct StepSize {
  std::int64_t samples = 0, columns = 0;
  std::int64_t global_samples = 0, global_columns = 0;
};

class RunningMethod {
 public:
  // `ranks`: all ranks of the run.
  RunningMethod(ParallelMethod m, int ranks)
      : method(std::move(m)), metrics(method.metrics, method.traits.delayed), ranks_(ranks) {}

  // Collective over the ranks that make one update together.
  StepInfo step_info(const StepSize&, const StepRates&) const;
  // Exchanges weights; call after the update.
  WeightChange exchange_weights(const StepInfo&);
  // Completes everything in flight except metrics. Delayed gradients go to the sink. Collective.
  WeightChange drain(ReducedGradientSink&);

  // Returns and resets the statistics of this rank; complete after drain() and the end of the epoch.
  ExchangeStats exchange_stats_and_reset();

  ParallelMethod method;
  MetricsReducer metrics;

 private:
  const int ranks_;
  StepInfo last_;                 // its gradients may still arrive if the method is delayed
  std::int64_t steps_since_ = 0;  // since drain()
};

}  // namespace tutti

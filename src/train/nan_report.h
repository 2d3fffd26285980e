// SPDX-License-Identifier: Apache-2.0
// nan_report.h -- what happens when a criterion or a gradient is NaN or wrong.
#pragma once

#include <string>

#include "train/training.h"

namespace tutti {

// Ends the run. `minibatch` counts from 1 in the epoch.
[[noreturn]] void stop_at_nan(const Training&, std::int64_t minibatch, const std::string& what);
// The same for a deferred result of a reader's plan: reads the minibatch again to find the first NaN.
[[noreturn]] void stop_at_deferred_nan(Training&, const EpochPlan&, std::int64_t minibatches_before,
                                       const DeferredNumericError&);
// If the run is to continue: announces NaN gradients so that all ranks see them. Returns NaN metrics.
StepMetrics announce_nan(Training&, const Batch&, GradientSink& chunks);

// gradientCheck: compares this rank's gradients with finite differences, and ends the run if they differ.
void check_gradients_or_stop(Training&, const Batch&);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// nan_report.h -- what happens when a criterion or a gradient is not a number.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/network.h"
#include "tutti/parameters.h"
#include "tutti/reader.h"

namespace tutti {

struct Training;

// Ends the run. `minibatch` counts from 1 in the epoch.
[[noreturn]] void stop_at_nan(const Training&, std::int64_t minibatch, const std::string& what);
// The same for a result that came some steps late: reads the minibatch once more to find what was not a number.
[[noreturn]] void stop_at_deferred_nan(Training&, const EpochPlan&, std::int64_t minibatches_before,
                                       const DeferredNumericError&);
// Where the run is to go on: announces gradients that are not numbers, so that all ranks see it. Returns such metrics.
StepMetrics announce_nan(Training&, const Batch&, GradientSink&);
// gradientCheck: compares this rank's gradients with differences, and ends the run if they differ.
void check_gradients_or_stop(Training&, const Batch&);

}  // namespace tutti

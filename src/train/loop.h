// SPDX-License-Identifier: Apache-2.0
// loop.h -- the state shared by the steps of a phase, and the work around a step. Used by step_loop.cpp.
#pragma once

#include <cstdint>

#include "train/gradient_reduction.h"
#include "train/training.h"
#include "train/weight_update.h"

namespace tutti {

struct Loop {
  Loop(Training&, const Phase&);

  void start_reading(std::int64_t from, std::int64_t end);  // samples of the epoch
  const Batch* read();                                      // null at the end
  // Passes the batch to parts that watch the data. Returns whether this rank takes part in the step.
  bool joins_step(const Batch&);
  // Returns whether the gradients of the step came too late and are discarded.
  bool exchange_weights(const StepInfo&);
  void report(const Batch&, const StepMetrics&);
  void drain_exchange();
  void end_epoch();
  void add_times(double seconds);
  std::int64_t number_of(std::int64_t minibatch) const { return minibatches_before + minibatch + 1; }  // in the epoch

  Training& t;
  const Phase& phase;
  RunningMethod& running;
  ParallelMethod& method;
  WeightUpdate update;
  GradientReduction reduction;
  bool deferred = false;                // metrics arrive some steps later, so that the host does not wait for a device
  std::int64_t minibatches_before = 0;  // in this epoch, before the reader started
  std::int64_t steps = 0;               // since then
  double reading = 0, working = 0;      // seconds

 private:
  void apply(const WeightChange&);
};

// Handles the metrics that have not arrived yet.
void finish_deferred_metrics(Loop&);

}  // namespace tutti

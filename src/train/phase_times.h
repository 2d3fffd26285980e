// SPDX-License-Identifier: Apache-2.0
// phase_times.h -- how this rank spends the time of a phase. The parts of the step loop measure themselves; here their
// figures come together in Training::times, at log lines and at the end of the phase.
#pragma once

#include "train/gradient_reduction.h"
#include "train/training.h"

namespace tutti {

class PhaseTimes {
 public:
  // Starts with the phase. All arguments must outlive it.
  PhaseTimes(Training& t, RunningMethod& running, const WeightUpdate& update)
      : t_(t), running_(running), update_(update) {}
  // Brings Training::times up to date. Within a phase, an exchange in flight counts later.
  void update();

 private:
  Training& t_;
  RunningMethod& running_;
  const WeightUpdate& update_;
  Clock::time_point since_ = Clock::now();
  double updating_ = 0;  // seconds of `update_` that are counted
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// adjust.h -- automatic learning rates and minibatch sizes (AutoAdjust; docs/training.md): adjusted after epochs, and
// searched before them with trials that are undone. Works with every method; all ranks decide alike.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tutti/archive.h"

namespace tutti {

struct ControlCriterion;
struct Training;

// What earlier epochs have led to. Saved in checkpoints.
struct AdjustState {
  double learning_rate = 0;  // per sample; 0 = use the schedule
  double previous_criterion = std::numeric_limits<double>::infinity();
  double criterion_sum = 0;         // over the epochs of this interval
  std::int64_t criteria = 0;        // number of those epochs
  bool reducing = false;            // continueReduce is active
  std::int64_t minibatch_size = 0;  // chosen size; 0 = use the schedule
  std::int64_t retried_to = -1;     // up to this epoch, learning_rate is that of a roll-back, also in listed epochs
  std::vector<double> rates;        // of finished epochs, newest last

  void archive(Archive&);
};

// The settings of an epoch.
struct EpochSettings {
  double learning_rate = 0, momentum_per_sample = 0;
  std::int64_t minibatch = 0;
  bool bears_nan = false;  // a NaN criterion does not end the run
  bool trial = false;      // nothing is saved
};
// Before epoch progress.epoch: searches if it is due, then returns the settings. Collective.
EpochSettings settle_settings(Training&);
// The settings without a search.
EpochSettings current_settings(const Training&);

// After a state was loaded: forgets the rate and the minibatch size that AutoAdjust had chosen where this run's
// settings do not use them. `announces`: says so in the log; not for states of CNTK, which hold both for every epoch.
void forget_unused_settings(Training&, bool announces);

// Whether an epoch whose criterion is NaN is rolled back instead of ending the run.
bool bears_nan(const Training&);

struct Verdict {
  bool rolled_back = false, ends = false;
};
// After epoch progress.epoch (not counted yet): adjusts by the criterion. After a roll-back, the earlier
// model is loaded and progress is set to it. Collective.
Verdict judge_epoch(Training&, const ControlCriterion&, const EpochSettings&);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// adjust.h -- learning rates and minibatch sizes that a run finds for itself (AutoAdjust; docs/training.md): judged
// after epochs, searched before them by trials that are undone. Works with every method; all ranks decide alike.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tutti/archive.h"

namespace tutti {

struct Training;

// What earlier epochs have led to. Part of checkpoints.
struct AdjustState {
  double learning_rate = 0;  // per sample; 0 = the schedule holds
  double previous_criterion = std::numeric_limits<double>::infinity();
  double criterion_sum = 0;         // of the epochs of this interval
  std::int64_t criteria = 0;        // their number
  bool reducing = false;            // continueReduce has begun
  std::int64_t minibatch_size = 0;  // chosen; 0 = the schedule holds
  std::vector<double> rates;        // of finished epochs, the newest last

  void archive(Archive&);
};

// What an epoch is trained with.
struct EpochSettings {
  double learning_rate = 0, momentum_per_sample = 0;
  std::int64_t minibatch = 0;
};
// Before epoch progress.epoch: searches if it is to, then says what holds. Collective.
EpochSettings settle_settings(Training&);
// What holds without a search.
EpochSettings current_settings(const Training&);

// Whether an epoch that does not end in numbers is taken back instead of ending the run.
bool bears_nan(const Training&);

enum class Verdict { go_on, rolled_back, finished };
// After epoch progress.epoch (not yet counted): judges it by `criterion`, which rank 0 decides. A roll-back has loaded
// the earlier model and set progress. Collective.
Verdict judge_epoch(Training&, double criterion, const EpochSettings&);

// src/train/search.cpp
double search_learning_rate(Training&, std::int64_t minibatch);
std::int64_t search_minibatch_size(Training&, double learning_rate, double rate_factor);

}  // namespace tutti

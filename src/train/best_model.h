// SPDX-License-Identifier: Apache-2.0
// best_model.h -- keepBest: a copy of the best model of a training, modelPath.best; and patience: the training ends
// when it does not get better. Both use the value that AutoAdjust uses.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "tutti/archive.h"

namespace tutti {

struct Training;

// Saved in checkpoints.
struct BestModel {
  double value = std::numeric_limits<double>::infinity();
  std::int64_t epoch = 0;         // the best one, from 1; 0 = none
  std::int64_t epochs_since = 0;  // none of them better
  bool unsaved = false;           // the next checkpoint also saves the copy
  void archive(Archive&);
};

std::string best_model_name(const std::string& model_path);  // "m.best"

// What an epoch is judged by, smaller is better. The same on all ranks.
struct ControlCriterion {
  double value = 0;
  std::int64_t samples = 0;  // that the epoch has trained; without any there is nothing to judge
  std::string name;          // "ce on the validation data"
};

// After epoch progress.epoch (not counted yet). Says in the log what it decides and why. Returns whether the training
// ends.
bool judge_patience(Training&, const ControlCriterion&);

}  // namespace tutti

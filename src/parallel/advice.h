// SPDX-License-Identifier: Apache-2.0
// advice.h -- warnings about an exchange before a training of known length starts: settings that are allowed but will
// not serve it. Called by src/train/train.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/options.h"

namespace tutti {

// The parallel part of a training.
struct TrainingLength {
  std::int64_t epochs = 1;
  std::int64_t samples_per_epoch = 0;
  std::int64_t minibatch = 1;  // samples over all ranks
};

// Returns one line per warning, each with its fix.
std::vector<std::string> exchange_advice(const ParallelTrainOptions&, const TrainingLength&, int ranks);

}  // namespace tutti

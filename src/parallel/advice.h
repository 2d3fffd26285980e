// SPDX-License-Identifier: Apache-2.0
// advice.h -- settings of an exchange that are allowed but have no effect, and warnings before a training of known
// length starts about those that will not serve it.
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

// Returns one line per setting that others leave without effect, at every level. Configs of CNTK have such: they are
// not refused.
std::vector<std::string> unused_settings(const ParallelTrainOptions&);

}  // namespace tutti

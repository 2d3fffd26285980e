// SPDX-License-Identifier: Apache-2.0
// exchange_advice.h -- warns if an epoch on several ranks took longer than a single rank would have needed.
#pragma once

#include <cstdint>
#include <string>

#include "train/report.h"

namespace tutti {

struct SharedEpoch {
  std::int64_t epoch = 1;  // counts from 1
  int ranks = 1;
  std::int64_t minibatch = 0;  // over all ranks
  std::int64_t minibatches = 0;
};

// Returns a warning with its reason and the setting to change; empty if the ranks gain time, or lose it to something
// other than the exchange. A single rank is assumed to compute and read as long as all ranks together.
std::string slow_exchange_warning(const EpochTimes&, const SharedEpoch&);

}  // namespace tutti

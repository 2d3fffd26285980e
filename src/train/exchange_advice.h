// SPDX-License-Identifier: Apache-2.0
// exchange_advice.h -- whether an epoch on several ranks took longer than one rank alone would have needed.
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

// What to tell the user, with the reason and the setting to change; empty when the ranks gain time, or lose it to
// something other than the exchange. One rank alone would compute as long as all ranks together and read as long.
std::string slow_exchange_warning(const EpochTimes&, const SharedEpoch&);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// warm_start.h -- parallelizationStartEpoch and -Sample: two phases of a run, under two methods.
#pragma once

#include <cstdint>
#include <limits>

namespace tutti {

// Before this place in the data every rank trains on all of them alone.
struct WarmStart {
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::int64_t epoch = never;  // from 0; never: no rank works with another
  std::int64_t sample = 0;     // of that epoch
  bool over = false;           // the ranks have begun to work together

  // The sample of this epoch from which on they do: 0, a place within it, or more than it has.
  std::int64_t parallel_from(std::int64_t e) const { return e == epoch ? sample : e < epoch ? never : 0; }
  bool parallel_throughout(std::int64_t e) const { return parallel_from(e) == 0; }
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// warm_start.h -- parallelizationStartEpoch and parallelizationStartSample: two phases of a run with different methods.
#pragma once

#include <cstdint>
#include <limits>

namespace tutti {

// Before this place in the data, every rank trains on its own with all data.
struct WarmStart {
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::int64_t epoch = never;  // from 0; never: ranks never train together
  std::int64_t sample = 0;     // of that epoch
  bool over = false;           // the ranks train together by now

  // The sample of the given epoch from which on ranks train together; may be 0, or beyond the end of the epoch.
  std::int64_t parallel_from(std::int64_t e) const { return e == epoch ? sample : e < epoch ? never : 0; }
  bool parallel_throughout(std::int64_t e) const { return parallel_from(e) == 0; }
};

}  // namespace tutti

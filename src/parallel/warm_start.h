// SPDX-License-Identifier: Apache-2.0
// warm_start.h -- parallelizationStartEpoch and parallelizationStartSample: two phases of a run with different methods.
#pragma once

#include <cstdint>
#include <limits>

namespace tutti {

// Before this place in the data, every rank trains on its own with all data; if layers or the optimizer are divided among
// ranks, they share the data and sum gradients in 32 bits, which gives the same numbers (but for batch normalisation that
// is not synchronized).
struct WarmStart {
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::int64_t epoch = never;  // from 0; never: ranks never train together
  std::int64_t sample = 0;     // of that epoch
  bool over = false;           // the method of ParallelTrain is at work by now
  bool shares_data = false;    // before it, too

  // The sample of the given epoch from which on that method works; may be 0, or beyond the end of the epoch.
  std::int64_t parallel_from(std::int64_t e) const { return e == epoch ? sample : e < epoch ? never : 0; }
  bool parallel_throughout(std::int64_t e) const { return parallel_from(e) == 0; }
};

}  // namespace tutti

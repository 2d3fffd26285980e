// SPDX-License-Identifier: Apache-2.0
// samples_seen.h -- the sample count of batch normalisation beside its running statistics, stored in two floats of the
// model so that it is exact beyond 2^24.
#pragma once

#include <cmath>

namespace tutti::graph {

constexpr double count_of_upper_half = 16777216;

inline double samples_seen(const float* count) {
  return static_cast<double>(count[1]) * count_of_upper_half + static_cast<double>(count[0]);
}
inline void set_samples_seen(float* count, double seen) {
  count[1] = static_cast<float>(std::floor(seen / count_of_upper_half));
  count[0] = static_cast<float>(seen - static_cast<double>(count[1]) * count_of_upper_half);
}

}  // namespace tutti::graph

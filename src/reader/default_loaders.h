// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <omp.h>

#include <algorithm>

#include "base/thread_pool.h"

namespace tutti::reader {

// The number of loader threads for this process: the cores that training leaves free, or a few shared ones if there are
// none.
inline std::size_t default_loaders() {
  const auto cores = static_cast<int>(cores_allowed()), left = cores - omp_get_max_threads();
  constexpr int most = 16;
  return static_cast<std::size_t>(left > 0 ? std::min(left, most) : std::max(cores / 8, 1));
}

}  // namespace tutti::reader

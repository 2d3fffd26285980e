// SPDX-License-Identifier: Apache-2.0
// sum_up.h -- the last step of sums that criteria compute in parts.
#pragma once

#include "backend/cuda/team.h"

namespace tutti::cuda {

// One block; `y` may be null.
static __global__ void sum_up(const double* sums, std::size_t count, double* sum, float* y) {
  double total = 0;
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) total += sums[i];
  total = together<threads_per_block>(total, Plus());
  if (threadIdx.x > 0) return;
  *sum = total;
  if (y) *y = static_cast<float>(total);
}

}  // namespace tutti::cuda

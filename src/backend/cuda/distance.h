// SPDX-License-Identifier: Apache-2.0
// distance.h -- what two algorithms for one operation leave, compared.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tutti/image_ops.h"

namespace tutti::cuda {

// Sums over the elements: of the sizes of the differences, and of the sizes of what is expected.
struct Distance {
  double apart = 0, size = 0;
};
// Waits for the device.
Distance distance(const void* expected, const void* got, std::size_t count, Element, cudaStream_t);

// Operands to try algorithms with: from -1 to 1, exact in every type, the same ones each time.
void put_trial_numbers(void* to, std::size_t count, Element, unsigned seed, cudaStream_t);

}  // namespace tutti::cuda

// SPDX-License-Identifier: Apache-2.0
// distance.h -- compares the results of two algorithms for one operation.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tutti/image_ops.h"

namespace tutti::cuda {

// Sums over the elements: of the absolute differences, and of the absolute expected values.
struct Distance {
  double apart = 0, size = 0;
};
// Waits for the device.
Distance distance(const void* expected, const void* got, std::size_t count, Element, cudaStream_t);

// Operands for trials: from -1 to 1, exact in every type, the same each time.
void put_trial_numbers(void* to, std::size_t count, Element, unsigned seed, cudaStream_t);

}  // namespace tutti::cuda

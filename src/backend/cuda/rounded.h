// SPDX-License-Identifier: Apache-2.0
// rounded.h -- rounds float32 matrices for 16-bit products.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tutti/image_ops.h"

namespace tutti::cuda {

// Copies `width` numbers of each row; rows are `step` and `to_step` numbers apart.
void round_rows(std::size_t rows, std::size_t width, const float* x, std::size_t step, Element element, void* to,
                std::size_t to_step, cudaStream_t);

}  // namespace tutti::cuda

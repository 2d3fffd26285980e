// SPDX-License-Identifier: Apache-2.0
// rounded.h -- matrices of float32 as products of 16 bits read them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tutti/image_ops.h"

namespace tutti::cuda {

// `width` numbers of each row, row by row; rows begin `step` and `to_step` numbers apart.
void round_rows(std::size_t rows, std::size_t width, const float* x, std::size_t step, Element element, void* to,
                std::size_t to_step, cudaStream_t);

}  // namespace tutti::cuda

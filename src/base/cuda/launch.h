// SPDX-License-Identifier: Apache-2.0
// launch.h -- starting kernels. Only the runtime's own functions, no <<<>>>: so a kernel's file is plain C++ to any
// implementation of the runtime. Kernels use static shared memory only.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "base/cuda/runtime.h"

namespace tutti::cuda {

template <class... Wanted, class... Given>
void launch(void (*kernel)(Wanted...), dim3 grid, dim3 block, cudaStream_t stream, const Given&... given) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Wanted>(given)...), "starting a kernel");
}

constexpr unsigned threads_per_block = 256;

// The most blocks of a grid whose threads stride over their work. Tests compile kernels with few, so that small work
// takes several strides, too.
#ifndef TUTTI_MOST_BLOCKS
#define TUTTI_MOST_BLOCKS 4096
#endif

// Blocks for `count` threads of work that strides over the grid; bounded, so that each thread has some work.
inline unsigned blocks_for(std::size_t count, std::size_t per_block = threads_per_block) {
  constexpr std::size_t most = TUTTI_MOST_BLOCKS;
  return static_cast<unsigned>(std::clamp<std::size_t>((count + per_block - 1) / per_block, 1, most));
}

// The first element of this thread and the distance to its next, in a grid of one dimension.
__device__ inline std::size_t first_element() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::size_t element_step() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

}  // namespace tutti::cuda

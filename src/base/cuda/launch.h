// SPDX-License-Identifier: Apache-2.0
// launch.h -- launches kernels with functions of the runtime only, without <<<>>>, so that a kernel file is plain C++
// for any implementation of the runtime.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "base/cuda/runtime.h"

namespace tutti::cuda {

// The dynamic shared memory of a launch, for kernels that declare none.
extern __shared__ uint4 asked_for[];

// The maximum per block of this device.
inline std::size_t most_shared_memory() {
  int device = 0, bytes = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "asking for shared memory");
  return static_cast<std::size_t>(bytes);
}

template <class... Wanted, class... Given>
void launch_with_shared(void (*kernel)(Wanted...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
                        const Given&... given) {
  constexpr std::size_t without_asking = std::size_t{48} << 10;
  // Sets the limit to the maximum, because another thread may launch the same kernel with more.
  if (shared > without_asking)
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(most_shared_memory())),
          "asking for shared memory");
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Wanted>(given)...), "starting a kernel");
}

template <class... Wanted, class... Given>
void launch(void (*kernel)(Wanted...), dim3 grid, dim3 block, cudaStream_t stream, const Given&... given) {
  launch_with_shared(kernel, grid, block, 0, stream, given...);
}

constexpr unsigned threads_per_block = 256;

// The maximum number of blocks of a grid-stride kernel. Tests compile kernels with few, so that small work needs
// several strides.
#ifndef TUTTI_MOST_BLOCKS
#define TUTTI_MOST_BLOCKS 4096
#endif

// Number of blocks for `count` threads of grid-stride work; bounded, so that each thread has some work.
inline unsigned blocks_for(std::size_t count, std::size_t per_block = threads_per_block) {
  constexpr std::size_t most = TUTTI_MOST_BLOCKS;
  return static_cast<unsigned>(std::clamp<std::size_t>((count + per_block - 1) / per_block, 1, most));
}

// The first element of this thread and its stride, in a one-dimensional grid.
__device__ inline std::size_t first_element() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::size_t element_step() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

}  // namespace tutti::cuda

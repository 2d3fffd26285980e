// SPDX-License-Identifier: Apache-2.0
// launch.h -- launches kernels with functions of the runtime only, without <<<>>>, so that a kernel file is plain C++
// for any implementation of the runtime; and what kernels share.
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

// A grid-stride kernel with a thread for each of `count`, as far as there may be so many.
template <class... Wanted, class... Given>
void launch_for(void (*kernel)(Wanted...), std::size_t count, cudaStream_t stream, const Given&... given) {
  launch(kernel, blocks_for(count), threads_per_block, stream, given...);
}

// The first element of this thread and its stride, in a one-dimensional grid.
__device__ inline std::size_t first_element() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::size_t element_step() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }
// The same in 32 bits, where values are found by division.
__device__ inline unsigned first_element32() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline unsigned element_step32() { return gridDim.x * blockDim.x; }

// ---- several values are read before any result is written. After a store the compiler delays the next load, because
// both might refer to the same address; the number of loads in flight determines the speed of a memory-bound kernel.

// Calls write(i, read(i)) for `Batch` indices i = first, first + step, ... below end; the first one must be below end.
// Reads beyond the end repeat the first one, because the compiler serializes conditional reads.
template <unsigned Batch, class Index, class Read, class Write>
__device__ inline void batch(Index first, Index step, Index end, const Read& read, const Write& write) {
  decltype(read(first)) values[Batch];
#pragma unroll
  for (unsigned u = 0; u < Batch; ++u) values[u] = read(first + u * step < end ? first + u * step : first);
#pragma unroll
  for (unsigned u = 0; u < Batch; ++u)
    if (first + u * step < end) write(first + u * step, values[u]);
}

// For all indices.
template <unsigned Batch, class Index, class Read, class Write>
__device__ inline void in_batches(Index i, Index step, Index end, const Read& read, const Write& write) {
#pragma unroll 1
  for (; i + (Batch - 1) * step < end; i += Batch * step) {
    decltype(read(i)) values[Batch];
#pragma unroll
    for (unsigned u = 0; u < Batch; ++u) values[u] = read(i + u * step);
#pragma unroll
    for (unsigned u = 0; u < Batch; ++u) write(i + u * step, values[u]);
  }
  if (i < end) batch<Batch>(i, step, end, read, write);
}

}  // namespace tutti::cuda

// SPDX-License-Identifier: Apache-2.0
// tile.h -- the tile of shared memory in which a block of tile x rows_at_once threads transposes a matrix, so that both
// sides access whole lines of memory.
#pragma once

#include <cuda_runtime.h>

namespace tutti::cuda {

inline constexpr unsigned tile = 32, rows_at_once = 8;

// read(row, column, value of the tile), then write(row, column, what was read in that column of that row). Values may
// be left out on both sides.
template <class Read, class Write>
__device__ inline void through_tile(const Read& read, const Write& write) {
  __shared__ float values[tile][tile + 1];
  for (unsigned r = threadIdx.y; r < tile; r += rows_at_once) read(r, threadIdx.x, values[r][threadIdx.x]);
  __syncthreads();
  for (unsigned r = threadIdx.y; r < tile; r += rows_at_once) write(r, threadIdx.x, values[threadIdx.x][r]);
}

}  // namespace tutti::cuda

// SPDX-License-Identifier: Apache-2.0
// batch.h -- reads several values before it writes any result. After a store the compiler delays the next load, because
// both might refer to the same address; the number of loads in flight determines the speed of a memory-bound kernel.
#pragma once

#include <cuda_runtime.h>

namespace tutti::cuda {

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

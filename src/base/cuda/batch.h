// SPDX-License-Identifier: Apache-2.0
// batch.h -- several values read before any result is written. Behind a store the compiler lets the next load wait, for
// both might mean the same place; how much is on the way at a time is what makes a kernel as fast as the memory.
#pragma once

#include <cuda_runtime.h>

namespace tutti::cuda {

// write(i, read(i)) for `Batch` numbers i = first, first + step, ..., as far as they are below end, as the first one
// is. Instead of what is behind the end, that one is read again: of reads behind conditions the compiler makes a chain.
template <unsigned Batch, class Index, class Read, class Write>
__device__ inline void batch(Index first, Index step, Index end, const Read& read, const Write& write) {
  decltype(read(first)) values[Batch];
#pragma unroll
  for (unsigned u = 0; u < Batch; ++u) values[u] = read(first + u * step < end ? first + u * step : first);
#pragma unroll
  for (unsigned u = 0; u < Batch; ++u)
    if (first + u * step < end) write(first + u * step, values[u]);
}

// For as many as there are.
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

// SPDX-License-Identifier: Apache-2.0
// fold.h -- sums over the elements of a layout that map to one element of an operand, in a fixed order.
#pragma once

#include "backend/cuda/walk.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {

constexpr unsigned threads_of_fold = 512;

// `lanes` neighbouring elements of the operand are summed concurrently, each by threads_of_fold / lanes threads.
template <class F>
__global__ void fold_each(F f, Walk kept, Walk folded, unsigned k, unsigned lanes, float* target, bool add) {
  __shared__ float partial[threads_of_fold];
  const unsigned lane = threadIdx.x % lanes, member = threadIdx.x / lanes, members = threads_of_fold / lanes;
  const std::size_t groups = (kept.count + lanes - 1) / lanes;
  for (std::size_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const std::size_t element = group * lanes + lane;
    Places here;
    float sum = 0;
    if (element < kept.count) {
      advance(kept, element, here);
      for (std::size_t i = member; i < folded.count; i += members) {
        Places p = here;
        advance(folded, i, p);
        sum += f(p);
      }
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = members / 2; half > 0; half /= 2) {
      if (member < half) partial[threadIdx.x] += partial[threadIdx.x + half * lanes];
      __syncthreads();
    }
    if (member == 0 && element < kept.count) {
      float& to = target[here.of(k)];
      to = add ? to + partial[threadIdx.x] : partial[threadIdx.x];
    }
    __syncthreads();
  }
}

// Operand k gets the sums of f over all elements that it is repeated for.
template <class F>
void fold(const Layout& joined, std::size_t k, const F& f, float* target, bool add, cudaStream_t stream) {
  const Folded parts = folded(joined, k);
  const unsigned lanes = parts.fastest_kept ? 32 : 1;
  launch(fold_each<F>, blocks_for(parts.kept.count, lanes), threads_of_fold, stream, f, parts.kept, parts.folded,
         static_cast<unsigned>(k), lanes, target, add);
}

}  // namespace tutti::cuda

// SPDX-License-Identifier: Apache-2.0
// fold.h -- layouts on the device, and sums over the elements of one that map to one element of an operand, in a fixed
// order.
#pragma once

#include "backend/cpu/layout.h"
#include "base/cuda/launch.h"
#include "tutti/backend.h"

namespace tutti::cuda {

// A Layout on the device: maps the index of an element to its offset in each operand.
struct Walk {
  unsigned rank = 0;
  std::size_t size[Layout::max_rank] = {};
  std::size_t stride[4][Layout::max_rank] = {};
  std::size_t count = 1;

  void add(const Layout& l, std::size_t axis) {
    size[rank] = l.size[axis];
    for (std::size_t k = 0; k < 4; ++k) stride[k][rank] = l.stride[k][axis];
    count *= l.size[axis];
    ++rank;
  }
};

inline Walk whole(const Layout& l) {
  Walk w;
  for (std::size_t axis = 0; axis < l.rank; ++axis) w.add(l, axis);
  return w;
}

// A layout in which elements of operand k are repeated: its elements, and those that map to one of them.
struct Folded {
  Walk kept, folded;
  bool fastest_kept = false;
};
inline Folded folded(const Layout& l, std::size_t k) {
  Folded f;
  f.fastest_kept = l.stride[k][0] != 0;
  for (std::size_t axis = 0; axis < l.rank; ++axis) (l.stride[k][axis] != 0 ? f.kept : f.folded).add(l, axis);
  return f;
}

struct Places {
  std::size_t at[4] = {};
  // at[k], for a k that the compiler does not know: indexing would move all four values to memory.
  __device__ std::size_t of(unsigned k) const { return k == 0 ? at[0] : k == 1 ? at[1] : k == 2 ? at[2] : at[3]; }
};

__device__ inline void advance(const Walk& w, std::size_t element, Places& p) {
  // 64-bit divisions are slow; few walks need them.
  const bool narrow = w.count <= 0xffffffffu;
  for (unsigned axis = 0; axis < w.rank; ++axis) {
    std::size_t i = element;
    if (axis + 1 < w.rank) {
      if (narrow) {
        const unsigned n = static_cast<unsigned>(w.size[axis]), e = static_cast<unsigned>(element);
        i = e % n, element = e / n;
      } else {
        i = element % w.size[axis], element /= w.size[axis];
      }
    }
    for (unsigned k = 0; k < 4; ++k) p.at[k] += i * w.stride[k][axis];
  }
}

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

// SPDX-License-Identifier: Apache-2.0
// walk.h -- a Layout on the device: maps the index of an element to its offset in each operand.
#pragma once

#include <cuda_runtime.h>

#include "backend/cpu/layout.h"
#include "tutti/backend.h"

namespace tutti::cuda {

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

}  // namespace tutti::cuda

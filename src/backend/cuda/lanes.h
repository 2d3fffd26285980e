// SPDX-License-Identifier: Apache-2.0
// lanes.h -- several floats at once: what keeps a kernel at the speed of memory. One lane where addresses or sizes do
// not allow four.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/cuda/launch.h"

namespace tutti::cuda {

template <unsigned V>
struct alignas(4 * V) Lanes {
  float at[V];
};

template <unsigned V>
__device__ inline Lanes<V> load(const float* p) {
  return *reinterpret_cast<const Lanes<V>*>(p);
}
template <unsigned V>
__device__ inline void store(float* p, const Lanes<V>& v) {
  *reinterpret_cast<Lanes<V>*>(p) = v;
}
// Written, or added to what stands there.
template <unsigned V>
__device__ inline void put(float* p, Lanes<V> v, bool add) {
  if (add) {
    const Lanes<V> before = load<V>(p);
    for (unsigned l = 0; l < V; ++l) v.at[l] = before.at[l] + v.at[l];
  }
  store(p, v);
}

// Whether all of these may be read four floats at a time; null pointers are not read.
template <class... P>
bool in_fours(std::size_t count, const P*... p) {
  const std::uintptr_t all = (std::uintptr_t{0} | ... | reinterpret_cast<std::uintptr_t>(p));
  return count % 4 == 0 && all % 16 == 0;
}

}  // namespace tutti::cuda

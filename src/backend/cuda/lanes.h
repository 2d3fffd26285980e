// SPDX-License-Identifier: Apache-2.0
// lanes.h -- several numbers per load and store, which keeps a kernel at the speed of memory. One lane if addresses or
// sizes do not allow 16 bytes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/cuda/element.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {

template <unsigned V>
struct Lanes {
  float at[V];
};
// Stored with __stwb, because the compiler splits an assignment behind a branch into several stores.
template <std::size_t Bytes>
struct VectorOf;
template <>
struct VectorOf<16> {
  using Type = uint4;
};
template <>
struct VectorOf<8> {
  using Type = uint2;
};
template <>
struct VectorOf<4> {
  using Type = unsigned;
};
template <>
struct VectorOf<2> {
  using Type = unsigned short;
};
template <class T, unsigned V>
using Vector = typename VectorOf<sizeof(T) * V>::Type;

template <unsigned V, class T>
__device__ inline Lanes<V> load(const T* p) {
  const auto vector = *reinterpret_cast<const Vector<T, V>*>(p);
  T numbers[V];
  __builtin_memcpy(numbers, &vector, sizeof numbers);
  Lanes<V> v;
  for (unsigned l = 0; l < V; ++l) v.at[l] = value_of(numbers[l]);
  return v;
}
template <unsigned V, class T>
__device__ inline void store(T* p, const Lanes<V>& v) {
  Vector<T, V> vector;
  if constexpr (sizeof(T) == 2 && V % 2 == 0) {
    unsigned twos[V / 2];
    for (unsigned l = 0; l < V; l += 2) twos[l / 2] = rounded_two(T{}, v.at[l], v.at[l + 1]);
    __builtin_memcpy(&vector, twos, sizeof vector);
  } else {
    T numbers[V];
    for (unsigned l = 0; l < V; ++l) round_to(numbers[l], v.at[l]);
    __builtin_memcpy(&vector, numbers, sizeof vector);
  }
  __stwb(reinterpret_cast<Vector<T, V>*>(p), vector);
}
// Written, or added to the existing values.
template <unsigned V, class T>
__device__ inline void put(T* p, Lanes<V> v, bool add) {
  if (add) {
    const Lanes<V> before = load<V>(p);
    for (unsigned l = 0; l < V; ++l) v.at[l] = before.at[l] + v.at[l];
  }
  store(p, v);
}

// How many numbers are 16 bytes.
template <class T>
constexpr unsigned whole_lanes = 16 / sizeof(T);

// Whether all of these may be accessed 16 bytes at a time; null pointers are not accessed.
template <class T, class... P>
bool in_whole_lanes(std::size_t count, const P*... p) {
  const std::uintptr_t all = (std::uintptr_t{0} | ... | reinterpret_cast<std::uintptr_t>(p));
  return count % whole_lanes<T> == 0 && all % 16 == 0;
}
template <class... P>
bool in_fours(std::size_t count, const P*... p) {
  return in_whole_lanes<float>(count, p...);
}

}  // namespace tutti::cuda

// SPDX-License-Identifier: Apache-2.0
// lanes.h -- 32-bit and 16-bit numbers on the device: kernels compute with floats, whatever they read and write.
// Several numbers per load and store keep a kernel at the speed of memory; one lane if addresses or sizes do not allow
// 16 bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "base/cuda/launch.h"
#include "tutti/image_ops.h"

namespace tutti::cuda {

__device__ inline float value_of(float v) { return v; }
__device__ inline float value_of(__half v) { return __half2float(v); }
__device__ inline float value_of(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ inline void round_to(float& to, float v) { to = v; }
__device__ inline void round_to(__half& to, float v) { to = __float2half_rn(v); }
__device__ inline void round_to(__nv_bfloat16& to, float v) { to = __float2bfloat16_rn(v); }
// Two values, loaded or stored by one instruction.
template <class Two>
__device__ inline unsigned bits_of(const Two& two) {
  unsigned bits;
  static_assert(sizeof bits == sizeof two);
  __builtin_memcpy(&bits, &two, sizeof bits);
  return bits;
}
__device__ inline unsigned rounded_two(__half, float first, float second) {
  return bits_of(__floats2half2_rn(first, second));
}
__device__ inline unsigned rounded_two(__nv_bfloat16, float first, float second) {
  return bits_of(__floats2bfloat162_rn(first, second));
}

// Calls use(a value of the type).
template <class Use>
void with_type(Element e, const Use& use) {
  if (e == Element::bfloat16) return use(__nv_bfloat16{});
  if (e == Element::float16) return use(__half{});
  use(float{});
}
// The same for two types that are equal unless one of them is float32.
template <class Use>
void with_types(Element a, Element b, const Use& use) {
  if (b == Element::float32) return with_type(a, [&](auto of_a) { use(of_a, float{}); });
  if (a == Element::float32) return with_type(b, [&](auto of_b) { use(float{}, of_b); });
  with_type(a, [&](auto of_both) { use(of_both, of_both); });
}

// A float pointer as a pointer to the stored type.
template <class T>
__host__ __device__ T* as(float* p) {
  return reinterpret_cast<T*>(p);
}
template <class T>
__host__ __device__ const T* as(const float* p) {
  return reinterpret_cast<const T*>(p);
}

template <unsigned V>
struct Lanes {
  float at[V];
};
// Stored with __stwb, because the compiler splits an assignment behind a branch into several stores.
template <std::size_t Bytes>
using VectorOf =
    std::conditional_t<Bytes == 16, uint4,
                       std::conditional_t<Bytes == 8, uint2, std::conditional_t<Bytes == 4, unsigned, unsigned short>>>;
template <class T, unsigned V>
using Vector = VectorOf<sizeof(T) * V>;

template <unsigned V, class T>
__device__ inline Lanes<V> load(const T* p) {
  static_assert(sizeof(Vector<T, V>) == sizeof(T) * V);
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
template <class T>
bool in_whole_lanes(std::size_t count, std::initializer_list<const void*> all) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  return count % whole_lanes<T> == 0 && std::all_of(all.begin(), all.end(), aligned);
}

// Calls use(a value of the type, the number of values per thread) with constants, for `count` contiguous values.
template <class Use>
void flat(Element element, std::size_t count, std::initializer_list<const void*> all, const Use& use) {
  with_type(element, [&](auto number) {
    using T = decltype(number);
    if (in_whole_lanes<T>(count, all))
      use(number, std::integral_constant<unsigned, whole_lanes<T>>{});
    else
      use(number, std::integral_constant<unsigned, 1>{});
  });
}

}  // namespace tutti::cuda

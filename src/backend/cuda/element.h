// SPDX-License-Identifier: Apache-2.0
// element.h -- 32-bit and 16-bit numbers on the device: kernels compute with floats, whatever they read and write.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

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
  switch (e) {
    case Element::float32:
      return use(float{});
    case Element::bfloat16:
      return use(__nv_bfloat16{});
    case Element::float16:
      return use(__half{});
  }
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

}  // namespace tutti::cuda

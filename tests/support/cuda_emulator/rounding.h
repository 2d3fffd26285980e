// SPDX-License-Identifier: Apache-2.0
// rounding.h -- what tensor cores make of the float32 that they read, and numbers as they lie in memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace cuda_emulator {

// To the nearest number with `bits` bits behind the point, of two the even one.
inline float rounded(float v, int bits) {
  if (v != v || v - v != 0) return v;
  const auto b = std::bit_cast<std::uint32_t>(v);
  const int cut = 23 - bits;
  const std::uint32_t half = (1u << (cut - 1)) - 1 + (b >> cut & 1u);
  return std::bit_cast<float>((b + half) >> cut << cut);
}
constexpr int bits_of_tf32 = 10, bits_of_bfloat16 = 7;
inline float rounded_to_half(float v) { return __half2float(__float2half_rn(v)); }

enum class Stored { float32, half, bfloat16 };
inline float number_at(const void* p, std::size_t i, Stored s) {
  return s == Stored::float32 ? static_cast<const float*>(p)[i]
         : s == Stored::half  ? __half2float(static_cast<const __half*>(p)[i])
                              : __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
}
inline void set_number(void* p, std::size_t i, Stored s, float v) {
  if (s == Stored::float32)
    static_cast<float*>(p)[i] = v;
  else if (s == Stored::half)
    static_cast<__half*>(p)[i] = __float2half_rn(v);
  else
    static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16_rn(v);
}

}  // namespace cuda_emulator

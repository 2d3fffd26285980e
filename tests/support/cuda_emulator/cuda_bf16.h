// SPDX-License-Identifier: Apache-2.0
// cuda_bf16.h -- an emulator for the header of that name: the upper half of a float, rounded to the nearest even.
#pragma once

#include <bit>
#include <cstdint>

struct __nv_bfloat16 {
  std::uint16_t bits;
};

inline __nv_bfloat16 __float2bfloat16_rn(float v) {
  const auto b = std::bit_cast<std::uint32_t>(v);
  if (v != v) return {0x7fff};
  return {static_cast<std::uint16_t>((b + 0x7fffu + (b >> 16 & 1u)) >> 16)};
}
inline float __bfloat162float(__nv_bfloat16 v) { return std::bit_cast<float>(std::uint32_t{v.bits} << 16); }

struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

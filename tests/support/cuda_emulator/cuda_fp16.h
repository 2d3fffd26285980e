// SPDX-License-Identifier: Apache-2.0
// cuda_fp16.h -- an emulator for the header of that name: half precision, rounded to the nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

struct __half {
  std::uint16_t bits;
};

inline __half __float2half_rn(float v) {
  const auto b = std::bit_cast<std::uint32_t>(v);
  const auto sign = static_cast<std::uint16_t>(b >> 16 & 0x8000u);
  const float size = v < 0 ? -v : v;
  constexpr float overflows = 65520.0f, normal = 6.103515625e-5f, step = 5.9604644775390625e-8f;
  if (v != v) return {0x7fff};
  if (size >= overflows) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (size < normal) return {static_cast<std::uint16_t>(sign | static_cast<unsigned>(std::nearbyint(size / step)))};
  const std::uint32_t s = b & 0x7fffffffu;
  return {static_cast<std::uint16_t>(sign | ((s + 0xfffu + (s >> 13 & 1u) - (112u << 23)) >> 13))};
}
inline float __half2float(__half h) {
  const std::uint32_t size = h.bits & 0x7fffu;
  const float v = size >= 0x7c00u ? std::bit_cast<float>(size << 13 | 0x7f800000u)
                  : size < 0x400u ? static_cast<float>(size) * 5.9604644775390625e-8f
                                  : std::bit_cast<float>((size << 13) + (112u << 23));
  return h.bits & 0x8000u ? -v : v;
}

struct __half2 {
  __half x, y;
};
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }

// SPDX-License-Identifier: Apache-2.0
// half_bits.h -- converts one float to 16 bits and back with integer arithmetic: IEEE half precision and bfloat16,
// rounded to nearest even. Internal linkage (see column_kernels.h), and constexpr so that GPU kernels can use it.
#pragma once

#include <cstdint>

#include "codec/kernels.h"

namespace {

using tutti::codec::Half;

template <Half F>
constexpr float kLargest = F == Half::ieee ? 65504.0f : 3.38953138925153547590470800371487866880e+38f;

// 32 bits of a float to the 16 bits of a half, in lanes of one vector or one number.
[[gnu::always_inline]] constexpr std::uint32_t to_half(float v) {
  const auto bits = __builtin_bit_cast(std::uint32_t, v);
  const std::uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  // Below 2^-14 halves are multiples of 2^-24: adding 1/2 leaves these digits, rounded by the processor.
  const std::uint32_t small = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, size) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (size + 0xc8000fffu + (size >> 13 & 1u)) >> 13;
  const std::uint32_t special = size > 0x7f800000u ? (0x7e00u | (size >> 13 & 0x3ffu)) : 0x7c00u;
  const std::uint32_t finite = size < 0x38800000u ? small : normal;
  return sign | (size >= 0x7f800000u ? special : finite);
}
[[gnu::always_inline]] constexpr float from_half(std::uint32_t h) {
  const std::uint32_t sign = (h & 0x8000u) << 16, size = (h & 0x7fffu) << 13;
  const std::uint32_t normal = size + 0x38000000u;
  const std::uint32_t small = __builtin_bit_cast(
      std::uint32_t, __builtin_bit_cast(float, size + 0x38800000u) - __builtin_bit_cast(float, 0x38800000u));
  const std::uint32_t finite = size < 0x00800000u ? small : normal;
  return __builtin_bit_cast(float, sign | (size >= 0x0f800000u ? size + 0x70000000u : finite));
}
[[gnu::always_inline]] constexpr std::uint32_t to_brain(float v) {
  const auto bits = __builtin_bit_cast(std::uint32_t, v);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return nan ? (bits >> 16 | 0x40u) : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
[[gnu::always_inline]] constexpr float from_brain(std::uint32_t h) { return __builtin_bit_cast(float, h << 16); }

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// rounding.h -- what tensor cores make of the float32 that they read.
#pragma once

#include <bit>
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
constexpr int bits_of_tf32 = 10;

}  // namespace cuda_emulator

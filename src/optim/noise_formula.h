// SPDX-License-Identifier: Apache-2.0
// noise_formula.h -- the arithmetic behind noise.h: integers, and operations that every processor rounds alike.
// Constant expressions, so that kernels of GPUs take them, too.
#pragma once

#include <cstdint>

namespace tutti::optim::noise {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr double symmetric(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-52 - 1.0; }

// ln x of a normal number = 2 artanh((x-1)/(x+1)) after halving the exponent away. Not std::log: its last bit differs
// between libraries.
constexpr double logarithm(double x) {
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  int exponent = static_cast<int>(bits >> 52 & 0x7ffu) - 1022;
  double m = __builtin_bit_cast(double, (bits & 0x000fffffffffffffu) | 0x3fe0000000000000u);  // in [1/2, 1)
  if (m < 0.70710678118654752) m *= 2, --exponent;
  const double z = (m - 1) / (m + 1), z2 = z * z;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * z2 + 1.0 / k;
  return 2 * z * series + exponent * 0.69314718055994531;
}

// The Gaussian number is a * sqrt(square).
struct Polar {
  double a, square;
};
constexpr Polar polar(std::uint64_t step, std::uint64_t index) {
  std::uint64_t state = mix(mix(step) ^ index);
  for (;;) {
    const double a = symmetric(state = mix(state)), b = symmetric(state = mix(state));
    const double q = a * a + b * b;
    if (q > 0 && q < 1) return {a, -2 * logarithm(q) / q};
  }
}

}  // namespace tutti::optim::noise

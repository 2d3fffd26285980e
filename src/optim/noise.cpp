// SPDX-License-Identifier: Apache-2.0
#include "optim/noise.h"

#include <cmath>

namespace tutti::optim {

namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

double symmetric(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-52 - 1.0; }

// ln x = 2 artanh((x-1)/(x+1)) after halving the exponent away. Not std::log: its last bit differs between libraries.
double logarithm(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) m *= 2, --exponent;
  const double z = (m - 1) / (m + 1), z2 = z * z;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * z2 + 1.0 / k;
  return 2 * z * series + exponent * 0.69314718055994531;
}

}  // namespace

double gaussian(std::uint64_t step, std::uint64_t index) {
  std::uint64_t state = mix(mix(step) ^ index);
  for (;;) {
    const double a = symmetric(state = mix(state)), b = symmetric(state = mix(state));
    const double q = a * a + b * b;
    if (q > 0 && q < 1) return a * std::sqrt(-2 * logarithm(q) / q);
  }
}

}  // namespace tutti::optim

// SPDX-License-Identifier: Apache-2.0
// number.h -- numbers of the text format: [+-]digits[.digits][e[+-]digits], correctly rounded to float. "inf", "nan"
// and a missing leading digit are no numbers; what does not fit into a float is refused, as it would train to NaN.
#pragma once

#include <bit>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace tutti::reader {

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

enum class NumberFault { none, no_digit, no_exponent, too_large };

namespace number {

// Eight bytes at once: how many of them, from the first on, are digits. `x` has them as values 0..9 at their places.
struct Digits {
  std::uint64_t x = 0;
  int count = 0;
};
inline Digits load_digits(const char* p) {
  static_assert(std::endian::native == std::endian::little);
  Digits d;
  std::memcpy(&d.x, p, 8);
  d.x ^= 0x3030303030303030u;
  // Carries out of a byte reach only bytes behind the first non-digit, which nobody looks at.
  const std::uint64_t others = ((d.x + 0x7676767676767676u) | d.x) & 0x8080808080808080u;
  d.count = others ? std::countr_zero(others) >> 3 : 8;
  return d;
}
// The value of the first `count` digits, 1 <= count <= 8.
inline std::uint64_t value_of(Digits d) {
  std::uint64_t x = d.x << (64 - 8 * d.count);
  x = (x & 0x0F0F0F0F0F0F0F0Fu) * 2561 >> 8;
  x = (x & 0x00FF00FF00FF00FFu) * 6553601 >> 16;
  return (x & 0x0000FFFF0000FFFFu) * 42949672960001u >> 32;
}

inline constexpr std::uint64_t power_of_ten[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
inline constexpr float float_ten[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
inline constexpr double double_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// Reads a run of digits into `m` (which wraps around when there are too many) and returns how many there were.
// Before `fast_end` eight bytes may be loaded at any place.
inline int digit_run(const char*& p, const char* fast_end, std::uint64_t& m) {
  int n = 0;
  while (p < fast_end) {
    const Digits d = load_digits(p);
    if (d.count == 0) return n;
    m = m * power_of_ten[d.count] + value_of(d);
    p += d.count;
    n += d.count;
    if (d.count < 8) return n;
  }
  for (; is_digit(*p); ++p, ++n) m = m * 10 + static_cast<std::uint64_t>(*p - '0');
  return n;
}

// Any length and exponent; `from` is the first digit. False when the value is beyond float.
inline bool convert_slowly(const char* from, const char* to, float& value) {
  const auto [end, error] = std::from_chars(from, to, value);
  if (error != std::errc::result_out_of_range) return true;
  value = std::strtof(std::string(from, to).c_str(), nullptr);  // tells too large from too small
  return value < 1.0f;
}

// m * 10^exponent where one rounding, or a second that provably changes nothing, gives the float nearest to it.
inline bool convert_fast(std::uint64_t m, int exponent, float& value) {
  if (m < (1u << 24) && exponent >= -10 && exponent <= 10) {
    value = exponent < 0 ? static_cast<float>(m) / float_ten[-exponent] : static_cast<float>(m) * float_ten[exponent];
    return true;
  }
  if (m >= (std::uint64_t{1} << 53) || exponent < -22 || exponent > 22) return false;
  const double d =
      exponent < 0 ? static_cast<double>(m) / double_ten[-exponent] : static_cast<double>(m) * double_ten[exponent];
  // Halfway between two floats the rounded double hides on which side the true value lies; denormals have fewer bits.
  if ((std::bit_cast<std::uint64_t>(d) & 0x1FFFFFFF) == 0x10000000 || d < 1e-37 || d > 1e38) return false;
  value = static_cast<float>(d);
  return true;
}

}  // namespace number

// Reads a number at p and moves p behind it; on a fault p is where it went wrong. With Convert = false only the
// verdict is wanted, and most of the work is left out. The text must end with a character that is part of no number.
template <bool Convert>
inline NumberFault read_number(const char*& p, const char* fast_end, float& value) {
  if (is_digit(*p) && p[1] == ' ') {  // one-hot vectors and sparse pictures consist of little else
    if constexpr (Convert) value = static_cast<float>(*p - '0');
    ++p;
    return NumberFault::none;
  }
  const bool negative = *p == '-';
  if (negative || *p == '+') ++p;
  const char* const first = p;
  std::uint64_t m = 0;
  int digits = number::digit_run(p, fast_end, m);
  if (digits == 0) return NumberFault::no_digit;
  int exponent = 0;
  if (*p == '.') {
    ++p;
    exponent = -number::digit_run(p, fast_end, m);
    digits -= exponent;
  }
  bool slow = digits > 19;  // m may have wrapped around
  if ((*p | 0x20) == 'e') {
    ++p;
    const bool minus = *p == '-';
    if (minus || *p == '+') ++p;
    if (!is_digit(*p)) return NumberFault::no_exponent;
    std::int64_t written = 0;
    for (; is_digit(*p); ++p) written = written < 100000 ? written * 10 + (*p - '0') : written;
    exponent += static_cast<int>(minus ? -written : written);
    if constexpr (!Convert) slow = slow || exponent > 18;
  }
  if constexpr (!Convert) {
    return slow && !number::convert_slowly(first, p, value) ? NumberFault::too_large : NumberFault::none;
  } else {
    if (slow || !number::convert_fast(m, exponent, value))
      if (!number::convert_slowly(first, p, value)) return NumberFault::too_large;
    if (negative) value = -value;
    return NumberFault::none;
  }
}

}  // namespace tutti::reader

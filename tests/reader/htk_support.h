// SPDX-License-Identifier: Apache-2.0
// htk_support.h -- writes small HTK feature files for tests.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::reader {

inline std::string big_endian(std::uint64_t value, int bytes) {
  std::string s;
  for (int b = bytes - 1; b >= 0; --b) s += static_cast<char>(value >> (8 * b));
  return s;
}
inline std::string big_endian(float value) { return big_endian(std::bit_cast<std::uint32_t>(value), 4); }

// Frames of `dim` numbers; kind 9 is "user defined".
inline std::string htk_file(const std::vector<float>& numbers, std::size_t dim, unsigned kind = 9) {
  std::string s =
      big_endian(numbers.size() / dim, 4) + big_endian(100'000, 4) + big_endian(4 * dim, 2) + big_endian(kind, 2);
  for (const float v : numbers) s += big_endian(v);
  return s;
}

// The same numbers as 16-bit integers with a scale and an offset for each place of a frame.
inline std::string compressed_htk_file(const std::vector<std::int16_t>& numbers, const std::vector<float>& scale,
                                       const std::vector<float>& offset) {
  const std::size_t dim = scale.size();
  std::string s = big_endian(numbers.size() / dim + 4, 4) + big_endian(100'000, 4) + big_endian(2 * dim, 2) +
                  big_endian(9 | 02000, 2);
  for (const float v : scale) s += big_endian(v);
  for (const float v : offset) s += big_endian(v);
  for (const std::int16_t v : numbers) s += big_endian(static_cast<std::uint16_t>(v), 2);
  return s;
}

}  // namespace tutti::reader

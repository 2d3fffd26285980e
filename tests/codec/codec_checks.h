// SPDX-License-Identifier: Apache-2.0
// codec_checks.h -- a codec against the plain reference, bit for bit; shared by the tests of all devices.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "../support/reference_quantizer.h"
#include "tutti/codec.h"

namespace tutti::checks {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

inline std::vector<float> random_values(std::size_t n, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.1f, scale);
  std::vector<float> v(n);
  for (float& x : v) x = random() % 16 == 0 ? 0.0f : normal(random);
  return v;
}

inline std::vector<std::byte> wire_of(int bits, std::size_t rows, const reference::Column& c) {
  const auto put = [](std::vector<std::byte>& out, const void* p, std::size_t n) {
    const auto* b = static_cast<const std::byte*>(p);
    out.insert(out.end(), b, b + n);
  };
  std::vector<std::byte> out;
  if (c.whole) {
    put(out, c.values.data(), rows * 4);
    return out;
  }
  const std::size_t per_word = 32 / static_cast<std::size_t>(bits), count = (rows + per_word - 1) / per_word;
  std::vector<std::uint32_t> words(count);
  for (std::size_t r = 0; r < rows; ++r)
    words[r % count] |= c.levels[r] << (r / count * static_cast<std::size_t>(bits));
  put(out, c.head.data(), c.head.size() * 4), put(out, words.data(), count * 4);
  return out;
}

// Two steps with a residual carried over: wire bytes, residual, decode and decode_add equal the reference.
inline void compare(const CodecOptions& options, const Codec& codec, const char* where, std::size_t rows,
                    std::size_t columns, std::vector<float> values) {
  SCOPED_TRACE(testing::Message() << codec.name() << ", " << where << ", " << rows << " x " << columns);
  std::vector<float> residual(rows * columns, 0.0f), expected_residual = residual;
  for (int step = 0; step < 2; ++step) {
    std::vector<std::byte> bytes(codec.bytes(rows, columns) + 1, std::byte{0x5a}), expected_bytes;
    codec.encode(rows, columns, values.data(), residual.data(), bytes.data());
    EXPECT_EQ(bytes.back(), std::byte{0x5a}) << "wrote beyond the end";
    bytes.pop_back();
    std::vector<float> expected, decoded(rows * columns + 1, 7.0f), added = random_values(rows * columns, 99),
                                                                    sum = added;
    for (std::size_t c = 0; c < columns; ++c) {
      const auto column = reference::quantize(options, std::span(values).subspan(c * rows, rows),
                                              std::span(expected_residual).subspan(c * rows, rows));
      expected.insert(expected.end(), column.values.begin(), column.values.end());
      const auto wire = wire_of(options.bits, rows, column);
      expected_bytes.insert(expected_bytes.end(), wire.begin(), wire.end());
    }
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += expected[i];
    bool finite = true;
    for (const float v : expected) finite = finite && std::isfinite(v);
    if (finite) {
      EXPECT_TRUE(bytes == expected_bytes) << "wire, step " << step;
    }
    EXPECT_TRUE(reference::same(residual, expected_residual)) << "residual, step " << step;
    codec.decode(rows, columns, bytes.data(), decoded.data());
    EXPECT_EQ(decoded.back(), 7.0f) << "decoded beyond the end";
    decoded.pop_back();
    EXPECT_TRUE(reference::same(decoded, expected)) << "values, step " << step;
    codec.decode_add(rows, columns, bytes.data(), added.data());
    EXPECT_TRUE(reference::same(added, sum)) << "sum, step " << step;
    for (float& v : values) v *= -0.7f;
  }
}

inline CodecOptions original(int bits) { return {.bits = bits, .quantizer = Quantizer::original}; }
const std::vector<CodecOptions> kQuantizers{{1, true}, {1, false},  {2},         {4},         {8},
                                            {16},      original(2), original(4), original(8), original(16)};

}  // namespace tutti::checks

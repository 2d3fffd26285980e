// SPDX-License-Identifier: Apache-2.0
// float16 and bfloat16: every number there is, rounding, residuals, in every instruction set with the same bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "codec/kernels.h"
#include "tutti/codec.h"

namespace tutti::half_test {
namespace {

constexpr CodecOptions kHalf{.bits = 16, .format = NumberFormat::half},
    kBrain{.bits = 16, .format = NumberFormat::brain};
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<const codec::Kernels*> variants() {
  std::vector<const codec::Kernels*> found;
  for_each_set([&]<InstructionSet set>() { found.push_back(&codec::kernels<set>()); });
  return found;
}

// What the 16 bits stand for, in double precision.
double meaning(bool brain, std::uint16_t h) {
  if (brain) return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
  const int exponent = h >> 10 & 31, digits = h & 1023;
  const double size = exponent == 31  ? (digits ? kNan : kInf)
                      : exponent == 0 ? std::ldexp(digits, -24)
                                      : std::ldexp(1024 + digits, exponent - 25);
  return h & 0x8000 ? -size : size;
}

std::vector<std::uint16_t> encode(const CodecOptions& o, const codec::Kernels& k, const std::vector<float>& v,
                                  float* residual = nullptr) {
  const auto codec = make_codec(o, k);
  std::vector<std::uint16_t> out(v.size());
  EXPECT_EQ(codec->bytes(v.size(), 1), 2 * v.size());
  codec->encode(v.size(), 1, v.data(), residual, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

std::vector<float> decode(const CodecOptions& o, const codec::Kernels& k, const std::vector<std::uint16_t>& h) {
  std::vector<float> v(h.size());
  make_codec(o, k)->decode(h.size(), 1, reinterpret_cast<const std::byte*>(h.data()), v.data());
  return v;
}

TEST(Half, EveryNumberGoesThereAndBack) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const auto* k : variants())
    for (const auto& o : {kHalf, kBrain}) {
      SCOPED_TRACE(k->name);
      const auto values = decode(o, *k, all);
      const auto back = encode(o, *k, values);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const double expected = meaning(o.format == NumberFormat::brain, all[i]);
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(values[i])) << i;
          ASSERT_TRUE(std::isnan(meaning(o.format == NumberFormat::brain, back[i]))) << i;
        } else {
          ASSERT_EQ(values[i], expected) << i;
          ASSERT_EQ(back[i], all[i]) << i;
        }
      }
    }
}

// Between two neighbours, and just beside the middle, for all numbers: the nearer one, the even one in the middle.
TEST(Half, RoundsToTheNearestEven) {
  for (const auto* k : variants())
    for (const auto& o : {kHalf, kBrain}) {
      const bool brain = o.format == NumberFormat::brain;
      const int last = brain ? 0x7f7f : 0x7bff;
      std::vector<float> v;
      std::vector<std::uint16_t> expected;
      for (int h = brain ? 0x0080 : 0; h < last; ++h) {
        const auto low = static_cast<std::uint16_t>(h), high = static_cast<std::uint16_t>(h + 1);
        const auto middle = static_cast<float>((meaning(brain, low) + meaning(brain, high)) / 2);
        for (const float sign : {1.0f, -1.0f}) {
          const std::uint16_t bit = sign < 0 ? 0x8000 : 0;
          v.push_back(sign * middle), expected.push_back(bit | (h % 2 == 0 ? low : high));
          v.push_back(sign * std::nextafter(middle, 0.0f)), expected.push_back(bit | low);
          v.push_back(sign * std::nextafter(middle, kInf)), expected.push_back(bit | high);
        }
      }
      EXPECT_EQ(encode(o, *k, v), expected) << k->name;
    }
}

TEST(Half, FiniteStaysFiniteAndTroubleShows) {
  for (const auto* k : variants())
    for (const auto& o : {kHalf, kBrain}) {
      const float largest = std::numeric_limits<float>::max();
      const auto v = decode(o, *k, encode(o, *k, {largest, -largest, kInf, -kInf, kNan, 1e-30f, -0.0f}));
      EXPECT_TRUE(std::isfinite(v[0]) && v[0] > 65000) << v[0];
      EXPECT_EQ(v[1], -v[0]);
      EXPECT_EQ(v[2], kInf);
      EXPECT_EQ(v[3], -kInf);
      EXPECT_TRUE(std::isnan(v[4]));
      EXPECT_TRUE(std::signbit(v[6]) && v[6] == 0);
    }
}

TEST(Half, AllInstructionSetsGiveTheSameBitsAndLoseNothing) {
  std::mt19937 random(3);
  for (const std::size_t n : {0, 1, 2, 15, 16, 17, 31, 33, 1000})
    for (const auto& o : {kHalf, kBrain}) {
      std::vector<float> values(n), residual(n), sent_before(n);
      for (float& x : values)
        x = std::ldexp(static_cast<float>(random()) / 4e9f - 0.5f, static_cast<int>(random() % 40) - 30);
      std::vector<std::vector<float>> residuals(variants().size(), std::vector<float>(n));
      for (int step = 0; step < 3; ++step) {
        std::vector<std::uint16_t> first;
        for (std::size_t i = 0; i < variants().size(); ++i) {
          const auto before = residuals[i];
          const auto wire = encode(o, *variants()[i], values, residuals[i].data());
          const auto received = decode(o, *variants()[i], wire);
          if (i == 0) first = wire;
          EXPECT_EQ(wire, first) << variants()[i]->name;
          EXPECT_EQ(residuals[i], residuals[0]) << variants()[i]->name;
          for (std::size_t j = 0; j < n; ++j) ASSERT_EQ(received[j] + residuals[i][j], values[j] + before[j]);
          std::vector<float> sum(n, 1.5f);
          make_codec(o, *variants()[i])->decode_add(n, 1, reinterpret_cast<const std::byte*>(wire.data()), sum.data());
          for (std::size_t j = 0; j < n; ++j) ASSERT_EQ(sum[j], 1.5f + received[j]);
        }
      }
    }
}

}  // namespace
}  // namespace tutti::half_test

// SPDX-License-Identifier: Apache-2.0
// Every codec in every instruction set against the plain reference, bit for bit.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "codec/kernels.h"
#include "codec_checks.h"
#include "tutti/codec.h"
#include "tutti/error.h"

namespace tutti::codec_test {
namespace {

using checks::kInf, checks::kNan, checks::kQuantizers, checks::random_values;

std::vector<const codec::Kernels*> variants() {
  std::vector<const codec::Kernels*> found;
  for_each_set([&]<InstructionSet set>() { found.push_back(&codec::kernels<set>()); });
  return found;
}

void compare(const CodecOptions& options, const codec::Kernels& kernels, std::size_t rows, std::size_t columns,
             std::vector<float> values) {
  checks::compare(options, *make_codec(options, kernels), kernels.name, rows, columns, std::move(values));
}

TEST(Codec, EqualsTheReferenceForEveryShape) {
  std::mt19937 random(5);
  for (const auto* kernels : variants())
    for (const auto& options : kQuantizers) {
      for (std::size_t rows = 1; rows <= 40; ++rows)
        compare(options, *kernels, rows, 1 + random() % 40, random_values(rows * 40, rows));
      for (const std::size_t rows : {63, 64, 65, 100, 127, 257, 500, 511, 512, 513, 1000, 2048, 3001})
        compare(options, *kernels, rows, 3, random_values(rows * 3, static_cast<unsigned>(rows)));
      compare(options, *kernels, 100003, 1, random_values(100003, 1));
      compare(options, *kernels, 50, 0, {});
    }
}

TEST(Codec, SpecialColumns) {
  for (const auto* kernels : variants())
    for (const auto& options : kQuantizers)
      for (const std::size_t rows : {1, 2, 7, 10, 33, 200}) {
        const auto filled = [&](float v) { return std::vector<float>(rows * 3, v); };
        compare(options, *kernels, rows, 3, filled(0.0f));
        compare(options, *kernels, rows, 3, filled(-0.0f));
        compare(options, *kernels, rows, 3, filled(3.25f));
        compare(options, *kernels, rows, 3, filled(-1e-40f));  // denormal
        compare(options, *kernels, rows, 3, random_values(rows * 3, 4, 1e-39f));
        compare(options, *kernels, rows, 3, random_values(rows * 3, 4, 1e37f));
        for (const float bad : {kNan, kInf, -kInf, 3e38f}) {
          auto values = random_values(rows * 3, 6);
          values[rows] = values[rows + rows / 2] = bad;  // in the middle column only
          compare(options, *kernels, rows, 3, values);
        }
      }
}

// What is not a number must not vanish: its whole column comes back as NaN, its neighbours are untouched.
TEST(Codec, NanAndInfinityShow) {
  for (const auto* kernels : variants())
    for (const auto& options : kQuantizers)
      for (const std::size_t rows : {1, 2, 3, 10, 40, 300})
        for (const float bad : {kNan, kInf, -kInf}) {
          const auto codec = make_codec(options, *kernels);
          auto values = random_values(rows * 3, 6);
          values[2 * rows - 1] = bad;
          std::vector<float> residual(values.size()), back(values.size());
          std::vector<std::byte> bytes(codec->bytes(rows, 3));
          codec->encode(rows, 3, values.data(), residual.data(), bytes.data());
          codec->decode(rows, 3, bytes.data(), back.data());
          for (std::size_t i = 0; i < back.size(); ++i)
            EXPECT_EQ(std::isnan(back[i]), i / rows == 1)
                << options.bits << " bits, " << kernels->name << ", row " << i % rows << " of " << rows;
        }
}

// Sent + new residual = gradient + old residual. Exact where the numbers are: halves and signs of one magnitude.
TEST(Codec, SentPlusResidualIsWhatWasThere) {
  for (const auto* kernels : variants())
    for (const auto& options : kQuantizers)
      for (const std::size_t rows : {1, 5, 16, 48, 700}) {
        const auto codec = make_codec(options, *kernels);
        const std::size_t n = rows * 4;
        std::mt19937 random(3);
        std::vector<float> values(n), residual(n), back(n);
        for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
        for (float& v : residual) v = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 8;
        const auto before = residual;
        std::vector<std::byte> bytes(codec->bytes(rows, 4));
        codec->encode(rows, 4, values.data(), residual.data(), bytes.data());
        codec->decode(rows, 4, bytes.data(), back.data());
        for (std::size_t i = 0; i < n; ++i) {
          EXPECT_EQ(residual[i], (values[i] + before[i]) - back[i]);
          EXPECT_NEAR(double{back[i]} + residual[i], double{values[i]} + before[i], 1e-4 * (1 + std::fabs(values[i])));
        }
      }
}

TEST(Codec, ThirtyTwoBitsAreACopy) {
  const auto codec = make_codec({32, true});
  EXPECT_FALSE(codec->lossy());
  const auto values = random_values(130, 2);
  std::vector<std::byte> bytes(codec->bytes(13, 10));
  ASSERT_EQ(bytes.size(), 520u);
  codec->encode(13, 10, values.data(), nullptr, bytes.data());
  EXPECT_EQ(std::memcmp(bytes.data(), values.data(), 520), 0);
  std::vector<float> back(130), sum(130, 1.5f), residual(130, 0.25f);
  codec->decode(13, 10, bytes.data(), back.data());
  EXPECT_EQ(back, values);
  codec->decode_add(13, 10, bytes.data(), sum.data());
  for (std::size_t i = 0; i < 130; ++i) EXPECT_EQ(sum[i], 1.5f + values[i]);
  // A residual left by a lossy codec before it is sent once.
  codec->encode(13, 10, values.data(), residual.data(), bytes.data());
  codec->decode(13, 10, bytes.data(), back.data());
  for (std::size_t i = 0; i < 130; ++i) EXPECT_EQ(back[i], values[i] + 0.25f);
  EXPECT_EQ(residual, std::vector<float>(130, 0.0f));
}

TEST(Codec, BytesOfTheLargeNetworkAreAThirtiethOfFloats) {
  const auto one = make_codec({1, true}), full = make_codec({32, true});
  std::size_t small = 0, large = 0;
  for (const auto& [rows, columns] : std::vector<std::pair<std::size_t, std::size_t>>{
           {2048, 784}, {2048, 1}, {2048, 2048}, {2048, 1}, {2048, 2048}, {2048, 1}, {10, 2048}, {10, 1}})
    small += one->bytes(rows, columns), large += full->bytes(rows, columns);
  EXPECT_LE(30 * small, large);
}

TEST(Codec, BytesNeverExceedFloatsAndAddOverColumns) {
  for (const auto& options : kQuantizers)
    for (std::size_t rows = 1; rows < 200; ++rows) {
      const auto codec = make_codec(options);
      EXPECT_LE(codec->bytes(rows, 1), 4 * rows);
      EXPECT_EQ(codec->bytes(rows, 7), 7 * codec->bytes(rows, 1));
    }
}

TEST(Codec, OtherBitsAreRefused) {
  for (const int bits : {0, 3, 5, 31, 64, -1}) EXPECT_THROW(make_codec({bits, true}), Error);
}

}  // namespace
}  // namespace tutti::codec_test

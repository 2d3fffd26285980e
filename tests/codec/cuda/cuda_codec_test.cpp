// SPDX-License-Identifier: Apache-2.0
// The codecs for GPUs against the plain reference and the host's codecs, bit for bit, over the stand-in of the runtime.
#include "codec/cuda/cuda_codec.h"

#include "../codec_checks.h"

namespace tutti {
namespace {

using namespace checks;

void compare_on_device(const CodecOptions& options, std::size_t rows, std::size_t columns, std::vector<float> values) {
  compare(options, *cuda::make_codec(options, nullptr), "cuda", rows, columns, std::move(values));
}

TEST(CudaCodec, EqualsTheReferenceForEveryShape) {
  std::mt19937 random(5);
  for (const auto& options : kQuantizers) {
    for (std::size_t rows = 1; rows <= 40; ++rows) {
      const std::size_t columns = 1 + random() % 140;  // more than a block
      compare_on_device(options, rows, columns, random_values(rows * columns, static_cast<unsigned>(rows)));
    }
    for (const std::size_t rows : {63, 64, 65, 100, 127, 257, 500, 511, 512, 513, 1000, 2047, 2048, 2049, 3001})
      compare_on_device(options, rows, 5, random_values(rows * 5, static_cast<unsigned>(rows)));
    for (const std::size_t rows : {10240, 10241, 25003})  // the last ones do not fit the shared memory
      compare_on_device(options, rows, 2, random_values(rows * 2, 1));
    compare_on_device(options, 50, 0, {});
  }
}

TEST(CudaCodec, SpecialColumns) {
  for (const auto& options : kQuantizers)
    for (const std::size_t rows : {1, 2, 7, 10, 33, 200, 3000}) {
      const auto filled = [&](float v) { return std::vector<float>(rows * 3, v); };
      compare_on_device(options, rows, 3, filled(0.0f));
      compare_on_device(options, rows, 3, filled(-0.0f));
      compare_on_device(options, rows, 3, filled(3.25f));
      compare_on_device(options, rows, 3, filled(-1e-40f));  // denormal
      compare_on_device(options, rows, 3, random_values(rows * 3, 4, 1e-39f));
      compare_on_device(options, rows, 3, random_values(rows * 3, 4, 1e37f));
      for (const float bad : {kNan, kInf, -kInf, 3e38f}) {
        auto values = random_values(rows * 3, 6);
        values[rows] = values[rows + rows / 2] = bad;  // in the middle column only
        compare_on_device(options, rows, 3, values);
      }
    }
}

// Bytes, residual and values of the codecs that work value by value are those of the host.
TEST(CudaCodec, HalvesAndFloatsAreTheHosts) {
  std::mt19937 random(3);
  for (const auto& options : {CodecOptions{.bits = 16, .format = NumberFormat::half},
                              CodecOptions{.bits = 16, .format = NumberFormat::brain}, CodecOptions{.bits = 32}})
    for (const std::size_t n : {0, 1, 2, 31, 255, 256, 257, 1023, 1024, 1025, 5000})
      for (const bool with_residual : {true, false}) {
        const auto host = make_codec(options), device = cuda::make_codec(options, nullptr);
        EXPECT_EQ(device->name(), host->name());
        std::vector<float> values(n), left(n), expected_left(n);
        for (float& v : values)
          v = std::ldexp(static_cast<float>(random()) / 4e9f - 0.5f, static_cast<int>(random() % 60) - 40);
        if (n > 8) values[0] = kInf, values[1] = -kInf, values[2] = kNan, values[3] = 3e38f, values[4] = -0.0f;
        for (int step = 0; step < 2; ++step) {
          std::vector<std::byte> bytes(host->bytes(n, 1)), expected(bytes.size());
          device->encode(n, 1, values.data(), with_residual ? left.data() : nullptr, bytes.data());
          host->encode(n, 1, values.data(), with_residual ? expected_left.data() : nullptr, expected.data());
          EXPECT_TRUE(bytes == expected) << n;
          EXPECT_TRUE(reference::same(left, expected_left)) << n;
          std::vector<float> back(n, 9), sum(n, 1.5f), expected_back(n, 9), expected_sum(n, 1.5f);
          device->decode(n, 1, bytes.data(), back.data());
          device->decode_add(n, 1, bytes.data(), sum.data());
          host->decode(n, 1, bytes.data(), expected_back.data());
          host->decode_add(n, 1, bytes.data(), expected_sum.data());
          EXPECT_TRUE(reference::same(back, expected_back) && reference::same(sum, expected_sum)) << n;
        }
      }
}

}  // namespace
}  // namespace tutti

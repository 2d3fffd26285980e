// SPDX-License-Identifier: Apache-2.0
// The codecs for GPUs against the plain reference and the host's codecs, bit for bit.
#include <algorithm>

#include "../../support/on_gpu.h"
#include "../codec_checks.h"

namespace tutti::cuda_codec_test {
namespace {

using namespace checks;

// A codec of a device for values of the host: they travel there and back.
class Carried : public Codec {
 public:
  Carried(const CodecOptions& options, const FloatMemory& memory)
      : memory_(memory), codec_(make_codec(options, memory, false)) {}
  std::string name() const override { return codec_->name(); }
  bool lossy() const override { return codec_->lossy(); }
  std::size_t bytes(std::size_t rows, std::size_t columns) const override { return codec_->bytes(rows, columns); }
  void encode(std::size_t rows, std::size_t columns, const float* values, float* residual,
              std::byte* out) const override {
    const std::size_t n = rows * columns, size = bytes(rows, columns);
    FloatBuffer there = carried(values, n), left = carried(residual, residual ? n : 0);
    MessageBytes message(size + 1, *codec_);  // and what stands behind it
    message.data()[size] = out[size];
    codec_->encode(rows, columns, there.data(), residual ? left.data() : nullptr, message.data());
    memory_.synchronize();
    std::copy_n(message.data(), size + 1, out);
    if (residual) std::copy_n(left.data(), n, residual);
  }
  void decode(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    work(&Codec::decode, rows, columns, in, values);
  }
  void decode_add(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    work(&Codec::decode_add, rows, columns, in, values);
  }

 private:
  FloatBuffer carried(const float* values, std::size_t n) const {
    FloatBuffer there(n, memory_);
    std::copy_n(values, n, there.data());
    return there;
  }
  void work(void (Codec::*decode)(std::size_t, std::size_t, const std::byte*, float*) const, std::size_t rows,
            std::size_t columns, const std::byte* in, float* values) const {
    FloatBuffer there = carried(values, rows * columns);
    MessageBytes message(bytes(rows, columns), *codec_);
    std::copy_n(in, message.span().size(), message.data());
    ((*codec_).*decode)(rows, columns, message.data(), there.data());
    memory_.synchronize();
    std::copy_n(there.data(), there.size(), values);
  }

  const FloatMemory& memory_;
  std::unique_ptr<Codec> codec_;
};

class CudaCodec : public OnGpu {
 protected:
  std::unique_ptr<Codec> codec(const CodecOptions& options) const {
    return std::make_unique<Carried>(options, gpu->shared_memory());
  }
  void compare_on_device(const CodecOptions& options, std::size_t rows, std::size_t columns,
                         std::vector<float> values) {
    compare(options, *codec(options), "cuda", rows, columns, std::move(values));
  }
};

TEST_F(CudaCodec, EqualsTheReferenceForEveryShape) {
  std::mt19937 random(5);
  for (const auto& options : kQuantizers) {
    for (std::size_t rows = 1; rows <= 40; ++rows) {
      const std::size_t columns = 1 + random() % 140;  // more than a block
      compare_on_device(options, rows, columns, random_values(rows * columns, static_cast<unsigned>(rows)));
    }
    for (const std::size_t rows : {63, 64, 65, 100, 127, 257, 500, 511, 512, 513, 1000, 2047, 2048, 2049, 3001})
      compare_on_device(options, rows, 5, random_values(rows * 5, static_cast<unsigned>(rows)));
    for (const std::size_t rows : {10241, 13000, 60001})  // more than blocks have usually; the last no block can keep
      compare_on_device(options, rows, 2, random_values(rows * 2, 1));
    compare_on_device(options, 50, 0, {});
  }
}

TEST_F(CudaCodec, SpecialColumns) {
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

// What the host reads from both messages; of numbers that are none a GPU keeps other bits.
void expect_same_message(const Codec& host, std::size_t n, const std::vector<std::byte>& got,
                         const std::vector<std::byte>& expected) {
  std::vector<float> from_got(n), from_expected(n);
  host.decode(n, 1, got.data(), from_got.data());
  host.decode(n, 1, expected.data(), from_expected.data());
  EXPECT_TRUE(reference::same(from_got, from_expected)) << n;
  EXPECT_EQ(got.back(), expected.back()) << "wrote beyond the end";
}

// Bytes, residual and values of the codecs that work value by value are those of the host.
TEST_F(CudaCodec, HalvesAndFloatsAreTheHosts) {
  std::mt19937 random(3);
  for (const auto& options : {CodecOptions{.bits = 16, .format = NumberFormat::half},
                              CodecOptions{.bits = 16, .format = NumberFormat::brain}, CodecOptions{.bits = 32}})
    for (const std::size_t n : {0, 1, 2, 31, 255, 256, 257, 1023, 1024, 1025, 5000})
      for (const bool with_residual : {true, false}) {
        const auto host = make_codec(options), device = codec(options);
        EXPECT_EQ(device->name(), host->name());
        std::vector<float> values(n), left(n), expected_left(n);
        for (float& v : values)
          v = std::ldexp(static_cast<float>(random()) / 4e9f - 0.5f, static_cast<int>(random() % 60) - 40);
        if (n > 8) values[0] = kInf, values[1] = -kInf, values[2] = kNan, values[3] = 3e38f, values[4] = -0.0f;
        for (int step = 0; step < 2; ++step) {
          std::vector<std::byte> bytes(host->bytes(n, 1) + 1), expected(bytes.size());
          device->encode(n, 1, values.data(), with_residual ? left.data() : nullptr, bytes.data());
          host->encode(n, 1, values.data(), with_residual ? expected_left.data() : nullptr, expected.data());
          expect_same_message(*host, n, bytes, expected);
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
}  // namespace tutti::cuda_codec_test

// SPDX-License-Identifier: Apache-2.0
// Codecs on a GPU against a copy from and to memory of the device alone. Copy and codec take turns; the figures are
// medians. Bytes: encode reads values and reads and writes the residual (12 per value, and what travels), decode_add
// reads and writes values (8, and what travels), decode writes them (4, and what travels); a copy of n bytes moves 2n.
// Usage: device_codec_benchmark [DEVICE], by default cuda:0.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "tutti/backend.h"
#include "tutti/codec.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr int rounds = 11, calls = 20;

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// Seconds of a call, many of them in the queue behind each other.
template <class Call>
double seconds(Backend& device, const Call& call) {
  device.synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  device.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
}

struct Matrix {
  std::size_t rows, columns;
  std::size_t values() const { return rows * columns; }
};

class Comparison {
 public:
  Comparison(Backend& device, Matrix m)
      : device_(device),
        matrix_(m),
        values_(m.values(), device.shared_memory()),
        residual_(m.values(), device.shared_memory()),
        target_(m.values(), device.shared_memory()),
        from_(device.allocate(m.values())),
        to_(device.allocate(m.values())) {
    std::minstd_rand random(1);
    std::vector<float> made(m.values());
    for (float& v : made) v = static_cast<float>(random()) / 1e9f - 1;
    device.upload(made.data(), values_.data(), made.size());
    device.upload(made.data(), from_, made.size());
  }
  ~Comparison() { device_.release(from_), device_.release(to_); }
  Comparison(const Comparison&) = delete;

  void run(const CodecOptions& options) {
    const auto codec = make_codec(options, values_.memory(), true);
    const auto copy = make_codec({}, values_.memory(), true);
    MessageBytes wire(codec->bytes(matrix_.rows, matrix_.columns), *codec);
    const auto [r, c] = matrix_;
    float* residual = options.bits < 32 ? residual_.data() : nullptr;
    const std::size_t n = matrix_.values(), travels = codec->bytes(r, c);
    report(codec->name() + ", encode", (residual ? 12 : 4) * n + travels, *copy,
           [&] { codec->encode(r, c, values_.data(), residual, wire.data()); });
    report(codec->name() + ", decode", 4 * n + travels, *copy,
           [&] { codec->decode(r, c, wire.data(), target_.data()); });
    report(codec->name() + ", decode and add", 8 * n + travels, *copy,
           [&] { codec->decode_add(r, c, wire.data(), target_.data()); });
  }

 private:
  template <class Call>
  void report(const std::string& name, std::size_t bytes, const Codec& copy, const Call& call) {
    auto* to = reinterpret_cast<std::byte*>(to_);
    std::vector<double> copied, worked;
    for (int round = 0; round < rounds; ++round) {
      copied.push_back(seconds(device_, [&] { copy.encode(matrix_.values(), 1, from_, nullptr, to); }));
      worked.push_back(seconds(device_, call));
    }
    const double copy_rate = 8e-9 * static_cast<double>(matrix_.values()) / median(copied);
    const double rate = 1e-9 * static_cast<double>(bytes) / median(worked);
    fmt::print("| {} x {} | {} | {:.0f} | {:.0f} | {:.0f} % |\n", matrix_.rows, matrix_.columns, name, rate, copy_rate,
               100 * rate / copy_rate);
  }

  Backend& device_;
  const Matrix matrix_;
  FloatBuffer values_, residual_, target_;
  float *from_, *to_;
};

void run(const std::string& name) {
  const auto device = make_backend(name);
  fmt::print("{}\n\n| matrix | codec | GB/s | copy, GB/s | of the copy |\n|---|---|---:|---:|---:|\n", device->name());
  // A dense layer, a wide one, the kernels of a convolution, columns that no block can keep.
  for (const Matrix m : {Matrix{2048, 16384}, Matrix{512, 65536}, Matrix{3, 9437184}, Matrix{16384, 2048}}) {
    Comparison comparison(*device, m);
    for (const CodecOptions& options :
         {CodecOptions{.bits = 1}, CodecOptions{.bits = 1, .zero_threshold = false}, CodecOptions{.bits = 2},
          CodecOptions{.bits = 4}, CodecOptions{.bits = 8}, CodecOptions{.bits = 16},
          CodecOptions{.bits = 16, .format = NumberFormat::half},
          CodecOptions{.bits = 16, .format = NumberFormat::brain}, CodecOptions{.bits = 32}})
      comparison.run(options);
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  try {
    tutti::run(argc > 1 ? argv[1] : "cuda:0");
  } catch (const tutti::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}

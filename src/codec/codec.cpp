// SPDX-License-Identifier: Apache-2.0
// The codecs by number of bits, over the loops that fit this processor.
#include "tutti/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/cuda_library.h"
#include "codec/kernels.h"
#include "tutti/error.h"

namespace tutti {
namespace codec {

const Kernels& best_kernels() {
  return *of_widest_set([]<InstructionSet set>() { return &kernels<set>(); });
}

Format format_of(const CodecOptions& options) {
  return {options.bits, options.bits > 1 && options.quantizer == Quantizer::adaptive,
          options.zero_threshold ? Threshold::zero : Threshold::mean};
}

}  // namespace codec

namespace {

class QuantizingCodec : public Codec {
 public:
  QuantizingCodec(codec::Format format, const codec::Kernels& kernels) : format_(format), kernels_(kernels) {}

  std::string name() const override {
    if (format_.bits > 1) return fmt::format("{} bits{}", format_.bits, format_.adaptive ? "" : ", original levels");
    return format_.threshold == codec::Threshold::zero ? "1 bit, zero threshold" : "1 bit, mean threshold";
  }
  bool lossy() const override { return true; }
  std::size_t bytes(std::size_t rows, std::size_t columns) const override {
    return columns * codec::column_bytes(format_, rows);
  }
  void encode(std::size_t rows, std::size_t columns, const float* values, float* residual,
              std::byte* out) const override {
    if (rows == 0 || columns == 0) return;
    assert(residual);
    kernels_.encode(format_, rows, columns, values, residual, out);
  }
  void decode(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    if (rows > 0) kernels_.decode(format_, false, rows, columns, in, values);
  }
  void decode_add(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    if (rows > 0) kernels_.decode(format_, true, rows, columns, in, values);
  }

 private:
  codec::Format format_;
  const codec::Kernels& kernels_;
};

class HalfCodec : public Codec {
 public:
  HalfCodec(codec::Half format, const codec::Kernels& kernels) : format_(format), kernels_(kernels) {}

  std::string name() const override { return format_ == codec::Half::ieee ? "float16" : "bfloat16"; }
  bool lossy() const override { return true; }
  std::size_t bytes(std::size_t rows, std::size_t columns) const override { return 2 * rows * columns; }
  void encode(std::size_t rows, std::size_t columns, const float* values, float* residual,
              std::byte* out) const override {
    kernels_.encode_halves(format_, rows * columns, values, residual, out);
  }
  void decode(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    kernels_.decode_halves(format_, false, rows * columns, in, values);
  }
  void decode_add(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    kernels_.decode_halves(format_, true, rows * columns, in, values);
  }

 private:
  codec::Half format_;
  const codec::Kernels& kernels_;
};

class FloatCodec : public Codec {
 public:
  std::string name() const override { return "32 bits"; }
  bool lossy() const override { return false; }
  std::size_t bytes(std::size_t rows, std::size_t columns) const override { return rows * columns * sizeof(float); }
  void encode(std::size_t rows, std::size_t columns, const float* values, float* residual,
              std::byte* out) const override {
    const std::size_t n = rows * columns;
    if (!residual) {
      if (n > 0) std::memcpy(out, values, n * sizeof(float));
      return;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const float v = values[i] + residual[i];
      residual[i] = 0;
      std::memcpy(out + i * sizeof(float), &v, sizeof v);
    }
  }
  void decode(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    if (rows * columns > 0) std::memcpy(values, in, rows * columns * sizeof(float));
  }
  void decode_add(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    const auto* const from = reinterpret_cast<const float*>(in);
    for (std::size_t i = 0; i < rows * columns; ++i) values[i] += from[i];
  }
};

}  // namespace

std::unique_ptr<Codec> make_codec(const CodecOptions& options, const codec::Kernels& kernels) {
  if (options.bits == 16 && options.format != NumberFormat::levels)
    return std::make_unique<HalfCodec>(options.format == NumberFormat::half ? codec::Half::ieee : codec::Half::brain,
                                       kernels);
  if (options.bits == 32) return std::make_unique<FloatCodec>();
  const auto possible = {1, 2, 4, 8, 16};
  if (std::find(possible.begin(), possible.end(), options.bits) == possible.end())
    throw Error(fmt::format("there is no codec of {} bits: 1, 2, 4, 8, 16 or 32 are possible", options.bits));
  return std::make_unique<QuantizingCodec>(codec::format_of(options), kernels);
}

std::unique_ptr<Codec> make_codec(const CodecOptions& options) { return make_codec(options, codec::best_kernels()); }

std::unique_ptr<Codec> make_codec(const CodecOptions& options, const FloatMemory& values, bool device_messages) {
  if (is_host(values)) return make_codec(options);
  return std::unique_ptr<Codec>(
      cuda_function<Codec*(const CodecOptions&, bool)>("tutti_cuda_make_codec")(options, device_messages));
}

}  // namespace tutti

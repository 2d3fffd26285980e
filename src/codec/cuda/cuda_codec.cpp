// SPDX-License-Identifier: Apache-2.0
#include "codec/cuda/cuda_codec.h"

#include <cassert>

#include "codec/cuda/kernels.h"
#include "codec/make_codec.h"

namespace tutti::cuda {
namespace {

// Names and sizes are the host codec's.
class CudaCodec : public Codec {
 public:
  CudaCodec(const CodecOptions& options, cudaStream_t stream) : host_(tutti::make_codec(options)), stream_(stream) {}
  std::string name() const override { return host_->name(); }
  bool lossy() const override { return host_->lossy(); }
  std::size_t bytes(std::size_t rows, std::size_t columns) const override { return host_->bytes(rows, columns); }

 protected:
  std::unique_ptr<Codec> host_;
  cudaStream_t stream_;
};

class Quantizing : public CudaCodec {
 public:
  Quantizing(const CodecOptions& options, cudaStream_t stream)
      : CudaCodec(options, stream),
        bits_(options.bits),
        statistic_(options.bits > 1         ? codec::cuda::Statistic::spread
                   : options.zero_threshold ? codec::cuda::Statistic::zero_threshold
                                            : codec::cuda::Statistic::mean_threshold) {}
  void encode(std::size_t rows, std::size_t columns, const float* values, float* residual,
              std::byte* out) const override {
    assert(residual || rows * columns == 0);
    codec::cuda::encode({bits_, statistic_, rows, columns, values, residual, out}, stream_);
  }
  void decode(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    codec::cuda::decode({bits_, false, rows, columns, in, values}, stream_);
  }
  void decode_add(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    codec::cuda::decode({bits_, true, rows, columns, in, values}, stream_);
  }

 private:
  int bits_;
  codec::cuda::Statistic statistic_;
};

class Halves : public CudaCodec {
 public:
  Halves(const CodecOptions& options, cudaStream_t stream)
      : CudaCodec(options, stream),
        format_(options.format == NumberFormat::half ? codec::Half::ieee : codec::Half::brain) {}
  void encode(std::size_t rows, std::size_t columns, const float* values, float* residual,
              std::byte* out) const override {
    codec::cuda::encode_halves(format_, rows * columns, values, residual, out, stream_);
  }
  void decode(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    codec::cuda::decode_halves(format_, false, rows * columns, in, values, stream_);
  }
  void decode_add(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    codec::cuda::decode_halves(format_, true, rows * columns, in, values, stream_);
  }

 private:
  codec::Half format_;
};

class Floats : public CudaCodec {
 public:
  using CudaCodec::CudaCodec;
  void encode(std::size_t rows, std::size_t columns, const float* values, float* residual,
              std::byte* out) const override {
    codec::cuda::encode_floats(rows * columns, values, residual, out, stream_);
  }
  void decode(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    codec::cuda::decode_floats(false, rows * columns, in, values, stream_);
  }
  void decode_add(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    codec::cuda::decode_floats(true, rows * columns, in, values, stream_);
  }
};

}  // namespace

std::unique_ptr<Codec> make_codec(const CodecOptions& options, cudaStream_t stream) {
  if (options.bits == 32) return std::make_unique<Floats>(options, stream);
  if (options.bits == 16 && options.format != NumberFormat::levels) return std::make_unique<Halves>(options, stream);
  return std::make_unique<Quantizing>(options, stream);
}

}  // namespace tutti::cuda

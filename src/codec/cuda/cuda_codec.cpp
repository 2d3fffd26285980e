// SPDX-License-Identifier: Apache-2.0
#include "codec/cuda/cuda_codec.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/cuda/events.h"
#include "base/cuda/queue.h"
#include "base/cuda/runtime.h"
#include "codec/cuda/kernels.h"
#include "codec/make_codec.h"

namespace tutti::cuda {
namespace {

float* allocate_pinned(std::size_t count) {
  void* p = nullptr;
  if (cudaHostAlloc(&p, std::max<std::size_t>(count, 1) * sizeof(float), cudaHostAllocPortable) != cudaSuccess)
    return nullptr;
  std::memset(p, 0, count * sizeof(float));
  return static_cast<float*>(p);
}

float* allocate_device(std::size_t count) {
  const std::size_t bytes = std::max<std::size_t>(count, 1) * sizeof(float);
  void* const p = take_device_memory(bytes);
  if (!p) return nullptr;
  clear_memory(p, bytes, current_queue());
  return static_cast<float*>(p);
}

void synchronize() { check(cudaStreamSynchronize(current_queue()), "exchanging gradients"); }

// What is queued may still read or write it; cudaFreeHost does not promise to wait for that.
void release_pinned(float* p) {
  cudaStreamSynchronize(current_queue());
  cudaFreeHost(p);
}

constexpr FloatMemory pinned_memory{"pinned", allocate_pinned, release_pinned, synchronize};
constexpr FloatMemory device_memory{"device", allocate_device, [](float* p) { cudaFree(p); }, synchronize};

// Names and sizes are the host codec's.
class CudaCodec : public Codec {
 public:
  CudaCodec(const CodecOptions& options, cudaStream_t stream, bool device_messages)
      : host_(tutti::make_codec(options)), stream_(stream), memory_(device_messages ? device_memory : pinned_memory) {}
  std::string name() const override { return host_->name(); }
  bool lossy() const override { return host_->lossy(); }
  std::size_t bytes(std::size_t rows, std::size_t columns) const override { return host_->bytes(rows, columns); }
  std::uint64_t record_event() const override { return events_.add(stream_); }
  bool query(std::uint64_t event) const override { return events_.query(event); }
  const FloatMemory& memory() const override { return memory_; }
  const Codec& on_host() const override { return *host_; }

 protected:
  std::unique_ptr<Codec> host_;
  cudaStream_t stream_;

 private:
  const FloatMemory& memory_;
  mutable Events events_{"exchanging with other ranks"};
};

class Quantizing : public CudaCodec {
 public:
  Quantizing(const CodecOptions& options, cudaStream_t stream, bool device_messages)
      : CudaCodec(options, stream, device_messages),
        format_(codec::format_of(options)),
        threshold_(options.zero_threshold ? codec::Threshold::zero : codec::Threshold::mean) {}
  void encode(std::size_t rows, std::size_t columns, const float* values, float* residual,
              std::byte* out) const override {
    assert(residual || rows * columns == 0);
    codec::cuda::encode({format_, threshold_, rows, columns, values, residual, out}, stream_);
  }
  void decode(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    codec::cuda::decode({format_, false, rows, columns, in, values}, stream_);
  }
  void decode_add(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    codec::cuda::decode({format_, true, rows, columns, in, values}, stream_);
  }

 private:
  codec::Format format_;
  codec::Threshold threshold_;
};

class Halves : public CudaCodec {
 public:
  Halves(const CodecOptions& options, cudaStream_t stream, bool device_messages)
      : CudaCodec(options, stream, device_messages),
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

std::unique_ptr<Codec> make_codec(const CodecOptions& options, cudaStream_t stream, bool device_messages) {
  if (options.bits == 32) return std::make_unique<Floats>(options, stream, device_messages);
  if (options.bits == 16 && options.format != NumberFormat::levels)
    return std::make_unique<Halves>(options, stream, device_messages);
  return std::make_unique<Quantizing>(options, stream, device_messages);
}

}  // namespace tutti::cuda

// What codec/codec.cpp looks up in the library.
extern "C" tutti::Codec* tutti_cuda_make_codec(const tutti::CodecOptions& options, bool device_messages) {
  return tutti::cuda::make_codec(options, tutti::cuda::current_queue(), device_messages).release();
}

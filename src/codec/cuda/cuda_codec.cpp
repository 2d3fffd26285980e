// SPDX-License-Identifier: Apache-2.0
// Codecs in GPU memory. Calls enqueue work in the stream and return; bytes, values and residuals are complete when the
// stream is. They equal those of the host codecs bit for bit.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>

#include "base/cuda/runtime.h"
#include "codec/cuda/kernels.h"
#include "tutti/codec.h"

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
class CudaCodec final : public Codec {
 public:
  CudaCodec(const CodecOptions& o, cudaStream_t stream, bool device_messages)
      : host_(make_codec(o)),
        stream_(stream),
        memory_(device_messages ? device_memory : pinned_memory),
        wire_(o.bits == 32                                       ? Wire::floats
              : o.bits == 16 && o.format != NumberFormat::levels ? Wire::halves
                                                                 : Wire::levels),
        half_(o.format == NumberFormat::half ? codec::Half::ieee : codec::Half::brain),
        format_(codec::format_of(o)) {}
  std::string name() const override { return host_->name(); }
  bool lossy() const override { return host_->lossy(); }
  std::size_t bytes(std::size_t rows, std::size_t columns) const override { return host_->bytes(rows, columns); }
  std::uint64_t record_event() const override { return events_.add(stream_); }
  bool query(std::uint64_t event) const override { return events_.query(event); }
  const FloatMemory& memory() const override { return memory_; }
  const Codec& on_host() const override { return *host_; }

  void encode(std::size_t rows, std::size_t columns, const float* values, float* residual,
              std::byte* out) const override {
    switch (wire_) {
      case Wire::floats:
        return codec::cuda::encode_floats(rows * columns, values, residual, out, stream_);
      case Wire::halves:
        return codec::cuda::encode_halves(half_, rows * columns, values, residual, out, stream_);
      case Wire::levels:
        assert(residual || rows * columns == 0);
        return codec::cuda::encode({format_, rows, columns, values, residual, out}, stream_);
    }
  }
  void decode(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    decode(false, rows, columns, in, values);
  }
  void decode_add(std::size_t rows, std::size_t columns, const std::byte* in, float* values) const override {
    decode(true, rows, columns, in, values);
  }

 private:
  enum class Wire { floats, halves, levels };

  void decode(bool add, std::size_t rows, std::size_t columns, const std::byte* in, float* values) const {
    switch (wire_) {
      case Wire::floats:
        return codec::cuda::decode_floats(add, rows * columns, in, values, stream_);
      case Wire::halves:
        return codec::cuda::decode_halves(half_, add, rows * columns, in, values, stream_);
      case Wire::levels:
        return codec::cuda::decode({format_, add, rows, columns, in, values}, stream_);
    }
  }

  const std::unique_ptr<Codec> host_;
  const cudaStream_t stream_;
  const FloatMemory& memory_;
  const Wire wire_;
  const codec::Half half_;
  const codec::Format format_;
  mutable Events events_{"exchanging with other ranks"};
};

}  // namespace
}  // namespace tutti::cuda

// What codec/codec.cpp looks up in the library. `device_messages`: bytes are in device memory; otherwise in pinned host
// memory that the kernels access directly.
extern "C" tutti::Codec* tutti_cuda_make_codec(const tutti::CodecOptions& options, bool device_messages) {
  return new tutti::cuda::CudaCodec(options, tutti::cuda::current_queue(), device_messages);
}

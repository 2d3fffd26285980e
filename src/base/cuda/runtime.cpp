// SPDX-License-Identifier: Apache-2.0
#include "base/cuda/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tutti/error.h"

namespace tutti::cuda {
namespace {

constexpr std::size_t staging_half = std::size_t{16} << 20;

}  // namespace

void fail(const char* what, const char* doing, const std::source_location& at) {
  throw Error(fmt::format("CUDA failed while {}: {} ({}:{})", doing, what, at.file_name(), at.line()));
}

Stream make_stream() {
  Stream s;
  check(cudaStreamCreateWithFlags(s.out(), cudaStreamNonBlocking), "making a stream");
  return s;
}

Event make_event() {
  Event e;
  check(cudaEventCreateWithFlags(e.out(), cudaEventDisableTiming), "making an event");
  return e;
}

Scratch::~Scratch() {
  if (data_) cudaFree(data_);
}

void* Scratch::bytes(std::size_t count) {
  if (count <= bytes_) return data_;
  // cudaFree waits for the device, so nothing that is under way loses its memory.
  if (data_) check(cudaFree(std::exchange(data_, nullptr)), "giving back scratch memory");
  bytes_ = 0;
  check(cudaMalloc(&data_, count), "taking scratch memory");
  bytes_ = count;
  return data_;
}

Staging::Staging() {
  check(cudaHostAlloc(&pinned_, halves * staging_half, cudaHostAllocDefault), "taking pinned memory");
  for (auto& event : free_) event = make_event();
}
Staging::~Staging() {
  for (auto& event : free_) cudaEventSynchronize(event.get());
  cudaFreeHost(pinned_);
}

void Staging::upload(const void* host, void* device, std::size_t bytes, cudaStream_t stream) {
  const auto* from = static_cast<const char*>(host);
  auto* to = static_cast<char*>(device);
  while (bytes > 0) {
    if (used_ == staging_half) {
      check(cudaEventRecord(free_[half_].get(), stream), "uploading");
      half_ = (half_ + 1) % halves, used_ = 0;
      check(cudaEventSynchronize(free_[half_].get()), "uploading");
    }
    const std::size_t n = std::min(bytes, staging_half - used_);
    char* pinned = static_cast<char*>(pinned_) + half_ * staging_half + used_;
    std::memcpy(pinned, from, n);
    check(cudaMemcpyAsync(to, pinned, n, cudaMemcpyHostToDevice, stream), "uploading");
    used_ = std::min(staging_half, (used_ + n + 63) / 64 * 64);
    from += n, to += n, bytes -= n;
  }
}

}  // namespace tutti::cuda

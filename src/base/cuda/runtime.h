// SPDX-License-Identifier: Apache-2.0
// runtime.h -- what everything on a GPU shares: checked calls, handles that destroy themselves, staging memory. Host
// code; kernels are started through launch.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <source_location>

#include "base/handle.h"

namespace tutti::cuda {

// Throws Error: what was being done, what the runtime says, where.
[[noreturn]] void fail(const char* what, const char* doing, const std::source_location& at);
inline void check(cudaError_t status, const char* doing,
                  const std::source_location& at = std::source_location::current()) {
  if (status != cudaSuccess) fail(cudaGetErrorString(status), doing, at);
}

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using Event = Handle<cudaEvent_t, cudaEventDestroy>;

Stream make_stream();
Event make_event();  // without a time, to be waited for

// Memory of the device that grows when asked and does not keep what it held. Waits for the device when it grows.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& o) noexcept : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
  ~Scratch();
  void* bytes(std::size_t count);
  template <class T>
  T* room(std::size_t count) {
    return static_cast<T*>(bytes(count * sizeof(T)));
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Small pieces of host memory on their way to the device: copied into pinned memory at once, so that the caller may
// reuse what he gave, and from there asynchronously, in the order of the stream.
class Staging {
 public:
  Staging();
  ~Staging();
  Staging(const Staging&) = delete;
  void upload(const void* host, void* device, std::size_t bytes, cudaStream_t stream);

 private:
  static constexpr std::size_t halves = 2;
  void* pinned_ = nullptr;
  std::size_t half_ = 0, used_ = 0;
  Event free_[halves];  // recorded behind the last copy out of a half
};

}  // namespace tutti::cuda

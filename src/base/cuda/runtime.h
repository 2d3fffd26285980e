// SPDX-License-Identifier: Apache-2.0
// runtime.h -- what everything on a GPU shares: checked calls, handles that destroy themselves, staging memory. Host
// code; kernels are started through launch.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

#include "base/handle.h"
#include "base/thread_pool.h"

namespace tutti::cuda {

// Throws Error: what was being done, what the runtime says, where.
[[noreturn]] void fail(const char* what, const char* doing, const std::source_location& at);
inline void check(cudaError_t status, const char* doing,
                  const std::source_location& at = std::source_location::current()) {
  if (status != cudaSuccess) fail(cudaGetErrorString(status), doing, at);
}

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using Event = Handle<cudaEvent_t, cudaEventDestroy>;
using Pinned = Handle<void*, cudaFreeHost>;

Stream make_stream();
Event make_event();  // without a time, to be waited for

// Memory of the device, and memory that the host sees too; null when not so much is free. More than that is not even
// asked for: managed memory would be moved to the host and back while kernels use it, and the device might hang.
void* take_device_memory(std::size_t bytes);
void* take_managed_memory(std::size_t bytes);
// Throws Error within a captured graph: for questions to the libraries, which answer them wrongly there.
void not_while_capturing(cudaStream_t);
// Zeros, there when it returns. Waits for that stream alone: another thread may be capturing.
void clear_memory(void*, std::size_t bytes, cudaStream_t);
// Throws Error: what it was for, and what there is.
[[noreturn]] void out_of_memory(std::size_t bytes, const char* purpose);

// How often memory that work in a stream may have used was given back.
std::uint64_t times_given_back();
void count_giving_back();

// Memory of the device that grows when asked and does not keep what it held. Waits for the device when it grows.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& o) noexcept : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
  Scratch& operator=(Scratch&& o) noexcept {
    std::swap(data_, o.data_), std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~Scratch();
  void* bytes(std::size_t count);
  template <class T>
  T* reserve(std::size_t count) {
    return static_cast<T*>(bytes(count * sizeof(T)));
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Host memory on its way to the device: copied into pinned memory at once, so that the caller may reuse what he gave.
// From there small chunks go in the order of the stream. Large ones travel in a stream of their own, while the other
// one still computes what it was given before, to a landing place on the device, and in the order of the stream from
// there to where they belong. Blocks are added while the earlier ones are in use, so that nobody waits. Several cores
// copy, for one is slower than the way to the device.
class Staging {
 public:
  Staging();
  ~Staging();
  Staging(const Staging&) = delete;
  void upload(const void* host, void* device, std::size_t bytes, cudaStream_t stream);

 private:
  struct Block {
    Pinned pinned;
    Scratch landing;
    Event arrived;  // behind the last journey to the landing place
    Event free;     // behind the last use of the block
  };
  void next_block(cudaStream_t);
  void copy(char* to, const char* from, std::size_t bytes);

  ThreadPool copiers_;
  std::vector<Block> blocks_;  // a ring
  std::size_t at_ = 0, used_ = 0;
  Stream journey_;
};

}  // namespace tutti::cuda

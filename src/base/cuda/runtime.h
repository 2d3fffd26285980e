// SPDX-License-Identifier: Apache-2.0
// runtime.h -- shared by all GPU host code: checked calls, owning handles, events, staging memory, the stream of a
// thread. Kernels are launched through launch.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

#include "base/handle.h"
#include "base/thread_pool.h"

namespace tutti::cuda {

// Throws an Error with the action, the message of the runtime, and the place.
[[noreturn]] void fail(const char* what, const char* doing, const std::source_location& at);
inline void check(cudaError_t status, const char* doing,
                  const std::source_location& at = std::source_location::current()) {
  if (status != cudaSuccess) fail(cudaGetErrorString(status), doing, at);
}

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using Event = Handle<cudaEvent_t, cudaEventDestroy>;
using Pinned = Handle<void*, cudaFreeHost>;

Stream make_stream();
Event make_event();  // without timing, for synchronization

// Events in a stream that the host queries or another stream waits for: of codecs after encoding, of sums over the
// ranks, of backends after the forward pass. They are recorded in stream order, so the oldest completes first, and are
// reused.
class Events {
 public:
  explicit Events(const char* doing) : doing_(doing) {}  // for errors
  std::uint64_t add(cudaStream_t);
  bool query(std::uint64_t event);
  void synchronize(std::uint64_t event);
  // Work enqueued in `stream` later waits for the event.
  void stream_wait(cudaStream_t stream, std::uint64_t event);

 private:
  Event& at(std::size_t i) { return events_[(first_ + i) % events_.size()]; }
  void grow();

  const char* doing_;
  std::vector<Event> events_;
  std::size_t first_ = 0, waiting_ = 0;
  std::uint64_t passed_ = 0;
};

// The current stream of a thread. A GPU backend sets it on the thread that creates it, and again in make_current();
// optimizers and codecs of that thread use the same stream implicitly.
cudaStream_t current_queue();
// In device memory: while it is not 0, weights are not changed. May be null.
const int* current_halt();
void set_current_queue(cudaStream_t, const int* halt);

// Device memory, and managed memory that the host can access too; null if not enough is free. More is not even
// requested, because managed memory would be moved to the host and back while kernels use it, and the device might
// hang.
void* take_device_memory(std::size_t bytes);
void* take_managed_memory(std::size_t bytes);
// Throws Error during a capture: for library queries, whose answers are wrong then.
void not_while_capturing(cudaStream_t);
// Zeroes memory and waits for that stream alone, because another thread may be capturing.
void clear_memory(void*, std::size_t bytes, cudaStream_t);
// Throws an Error with the purpose and the free memory.
[[noreturn]] void out_of_memory(std::size_t bytes, const char* purpose);

// Counts how often memory that enqueued work may have used was freed.
std::uint64_t times_given_back();
void count_giving_back();

// Device memory that grows on demand and does not keep its contents. Waits for the device when it grows.
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

// Staging memory for uploads. Host memory is copied into pinned memory at once, so that the caller may reuse it. Small
// chunks are then sent in the stream. Large ones are sent in a stream of their own, concurrently with earlier work, to
// a landing buffer on the device, and copied from there in the order of the stream. Blocks are added while earlier ones
// are in use, so that nothing waits. Several cores copy, because one is slower than the bus.
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

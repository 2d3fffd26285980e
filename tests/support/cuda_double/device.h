// SPDX-License-Identifier: Apache-2.0
// device.h -- what the streams and the memory of the stand-in share.
#pragma once

#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "calls.h"
#include "order.h"

namespace cuda_double {

struct Memory {
  enum class Kind { device, managed, pinned } kind;
  void* mapping;  // of whole pages
  std::size_t mapped, bytes;
};

// One device does one thing at a time, whichever thread waits for it.
struct Device {
  std::recursive_mutex mutex;
  std::vector<CudaDoubleStream*> streams;  // in the order in which they were made
  std::vector<CudaDoubleEvent*> events;
  std::map<const void*, Memory> memory;  // by where it begins
  int working = 0;
  bool open = false;       // its memory
  std::uint64_t time = 0;  // pieces of work done
  CudaDoubleCalls calls;

  static constexpr std::size_t total = std::size_t{64} << 30;
  std::size_t available() const {
    std::size_t taken = 0;
    for (const auto& [p, block] : memory)
      if (block.kind != Memory::Kind::pinned) taken += block.bytes;
    return total - std::min(taken, total);
  }
  void show_memory(bool shown) {
    if (std::exchange(open, shown) == shown) return;
    for (const auto& [p, block] : memory)
      if (block.kind == Memory::Kind::device)
        mprotect(block.mapping, block.mapped, shown ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
};
Device& device();

// The device works, and its memory is open meanwhile. In a drawn order it stays so: there the device works so often
// that closing it would take longer than the work.
class Working {
 public:
  Working() {
    if (device().working++ == 0) device().show_memory(true);
  }
  ~Working() {
    if (--device().working == 0) device().show_memory(Order::of_thread().drawn());
  }
  Working(const Working&) = delete;
};

// Whether this thread captures a stream. What cannot be captured has then broken the capture.
bool breaks_capture();
// Everything that the device which this thread uses still has to do is done.
void drain_all();

}  // namespace cuda_double

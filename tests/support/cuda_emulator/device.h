// SPDX-License-Identifier: Apache-2.0
// device.h -- what the streams and the memory of the emulator share.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "calls.h"

namespace cuda_emulator {

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
  // Of its memory: with it each thread of the host opens that for itself, and begins with it closed. -1 where the CPU
  // or the system has no such keys; then all threads see what one has opened.
  const int key = new_key();
  bool open = false;       // its memory, where there is no key
  int closings = 0;        // asked for, where there is none
  std::uint64_t time = 0;  // chunks of work done
  bool faulted = false;    // told to whoever waits next; of a real device that is the end
  CudaDoubleCalls calls;

  static constexpr std::size_t total = std::size_t{64} << 30;
  std::size_t available() const {
    std::size_t taken = 0;
    for (const auto& [p, block] : memory)
      if (block.kind != Memory::Kind::pinned) taken += block.bytes;
    return total - std::min(taken, total);
  }
  void open_memory();
  void close_memory();

 private:
  static int new_key();
  void protect_memory(int access);
};
Device& device();

// The device works, and this thread sees its memory meanwhile.
class Working {
 public:
  Working() {
    if (device().working++ == 0) device().open_memory();
  }
  ~Working() {
    if (--device().working == 0) device().close_memory();
  }
  Working(const Working&) = delete;
};

// Whether this thread captures a stream. What cannot be captured has then broken the capture.
bool breaks_capture();
// Everything that the device which this thread uses still has to do is done.
void drain_all();

}  // namespace cuda_emulator

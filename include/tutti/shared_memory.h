// SPDX-License-Identifier: Apache-2.0
// shared_memory.h -- memory that all ranks of a communicator see (Communicator::share_memory()), and the counters in it
// that take the place of messages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

// Every rank has brought a part of it. Who writes where, and from when on others may read, the users agree upon.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  virtual std::span<std::byte> of(int rank) const = 0;  // zeroed at first, 64-byte aligned
  // For a rank that waits for a counter: moves messages on, and throws where it waits in vain since a rank has failed.
  virtual void poll() = 0;
};

// One rank raises it, the others look: who has seen a number sees all that the rank wrote before it raised it to that.
// A line of the cache each, so that ranks that write do not disturb each other. Lies in zeroed memory.
struct alignas(64) SharedCounter {
  std::uint64_t value;

  void raise_to(std::uint64_t n) { std::atomic_ref(value).store(n, std::memory_order_release); }
  bool reached(std::uint64_t n) { return std::atomic_ref(value).load(std::memory_order_acquire) >= n; }
};
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);  // else it would not work between processes

}  // namespace tutti

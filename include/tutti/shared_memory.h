// SPDX-License-Identifier: Apache-2.0
// shared_memory.h -- memory shared by all ranks of a communicator (Communicator::share_memory()), and counters in it
// that replace messages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

// Each rank contributes a part. The users agree on who writes where, and when others may read.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  virtual std::span<std::byte> of(int rank) const = 0;  // zeroed at first, 64-byte aligned
  // Called by a rank that waits for a counter: makes progress on messages, and throws if a rank has failed.
  virtual void poll() = 0;
};

// A counter that one rank increases and others read. A rank that reads a value sees everything the writer wrote before
// it stored that value. Each counter has its own cache line. Must be in zeroed memory.
struct alignas(64) SharedCounter {
  std::uint64_t value;

  void raise_to(std::uint64_t n) { std::atomic_ref(value).store(n, std::memory_order_release); }
  bool reached(std::uint64_t n) { return std::atomic_ref(value).load(std::memory_order_acquire) >= n; }
};
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);  // else it would not work between processes

}  // namespace tutti

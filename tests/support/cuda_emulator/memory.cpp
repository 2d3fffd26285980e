// SPDX-License-Identifier: Apache-2.0
// Memory. That of the device is closed to the host except for the thread that works for the device. Each block ends
// before a page that nobody may touch. What the device still has to do when memory that it sees is given back is done
// first, as the runtime does; nobody promises that for pinned memory, so whoever gives it back too early faults.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "device.h"
#include "order.h"
#include "queue.h"

namespace cuda_emulator {
namespace {

std::size_t whole(std::size_t bytes, std::size_t unit) {
  return (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit;
}
std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

constexpr int reads_and_writes = PROT_READ | PROT_WRITE;

// A file in memory, full of one byte. Fresh blocks are private copies of it, of which only pages that somebody writes
// are made: most of a large workspace never is.
class FreshBytes {
 public:
  explicit FreshBytes(unsigned char byte) {
    const std::vector<unsigned char> bytes(size, byte);
    file_ = memfd_create("fresh memory", MFD_CLOEXEC);
    if (file_ < 0 || write(file_, bytes.data(), size) != static_cast<ssize_t>(size)) {
      std::perror("cuda_emulator: a file in memory");
      std::abort();
    }
  }
  bool put(char* to, std::size_t bytes) const {
    for (std::size_t at = 0; at < bytes; at += size)
      if (mmap(to + at, std::min(size, bytes - at), reads_and_writes, MAP_PRIVATE | MAP_FIXED, file_, 0) == MAP_FAILED)
        return false;
    return true;
  }

 private:
  static constexpr std::size_t size = std::size_t{1} << 20;
  int file_;
};

const FreshBytes& fresh(unsigned char byte) {
  static std::array<std::unique_ptr<FreshBytes>, 256> of;
  auto& bytes = of[byte];
  if (!bytes) bytes = std::make_unique<FreshBytes>(byte);
  return *bytes;
}

cudaError_t take(void** p, std::size_t bytes, Memory::Kind kind) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  constexpr std::size_t alignment = 256;
  const std::lock_guard lock(device().mutex);
  if (kind == Memory::Kind::device && bytes > device().available()) return cudaErrorMemoryAllocation;
  const std::size_t size = whole(bytes, page());
  void* mapping = mmap(nullptr, size + page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return cudaErrorMemoryAllocation;
  if (!fresh(Order::of_thread().fresh_byte()).put(static_cast<char*>(mapping), size)) {
    munmap(mapping, size + page());
    return cudaErrorMemoryAllocation;
  }
  if (kind == Memory::Kind::device && !device().open)
    pkey_mprotect(mapping, size, device().key < 0 ? PROT_NONE : reads_and_writes, device().key);
  *p = static_cast<char*>(mapping) + size - whole(bytes, alignment);
  device().memory[*p] = {kind, mapping, size, bytes};
  return cudaSuccess;
}

cudaError_t give_back(void* p, bool pinned) {
  if (!p) return cudaSuccess;
  const std::lock_guard lock(device().mutex);
  const auto found = device().memory.find(p);
  if (found == device().memory.end() || (found->second.kind == Memory::Kind::pinned) != pinned)
    return cudaErrorInvalidValue;
  munmap(found->second.mapping, found->second.mapped + page());
  device().memory.erase(found);
  return cudaSuccess;
}

}  // namespace

int Device::new_key() {
  const char* const keys = std::getenv("TUTTI_CUDA_EMULATOR_KEYS");
  return keys && std::atoi(keys) == 0 ? -1 : pkey_alloc(0, PKEY_DISABLE_ACCESS);
}
void Device::open_memory() {
  if (key >= 0)
    pkey_set(key, 0);
  else if (!std::exchange(open, true))
    protect_memory(reads_and_writes);
}
// Without a key every CPU has to be told, which takes longer than most work: then it stays open in a drawn order, where
// the device works most often, and elsewhere, when it has been closed often, most of the time.
void Device::close_memory() {
  constexpr int often = 1000, sometimes = 64;
  if (key >= 0)
    pkey_set(key, PKEY_DISABLE_ACCESS);
  else if (!Order::of_thread().drawn() && (++closings < often || closings % sometimes == 0) &&
           std::exchange(open, false))
    protect_memory(PROT_NONE);
}
void Device::protect_memory(int access) {
  for (const auto& [p, block] : memory)
    if (block.kind == Memory::Kind::device) mprotect(block.mapping, block.mapped, access);
}

const Memory* memory_of(const void* p, std::size_t bytes) {
  auto block = device().memory.upper_bound(p);
  if (!p || block == device().memory.begin()) return nullptr;
  --block;
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(p) - static_cast<const char*>(block->first));
  return offset <= block->second.bytes && bytes <= block->second.bytes - offset ? &block->second : nullptr;
}

bool on_device(const void* p, std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  const Memory* const block = memory_of(p, bytes);
  return block && block->kind == Memory::Kind::device;
}

bool is_pageable(const void* p, std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  return !memory_of(p, bytes);
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

cudaError_t cudaMalloc(void** p, std::size_t bytes) { return take(p, bytes, Memory::Kind::device); }
// More of it than is free would be moved to and fro while kernels run.
cudaError_t cudaMallocManaged(void** p, std::size_t bytes, unsigned) {
  if (bytes == 0) return cudaErrorInvalidValue;
  const std::lock_guard lock(device().mutex);
  if (bytes > device().available()) {
    std::fputs("cuda_emulator: more managed memory than the device has free\n", stderr);
    std::abort();
  }
  return take(p, bytes, Memory::Kind::managed);
}
cudaError_t cudaFree(void* p) {
  if (breaks_capture()) return cudaErrorStreamCaptureUnsupported;
  drain_all();
  return give_back(p, false);
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) { return take(p, bytes, Memory::Kind::pinned); }
cudaError_t cudaFreeHost(void* p) { return give_back(p, true); }
cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  const std::lock_guard lock(device().mutex);
  *available = device().available(), *total = Device::total;
  return cudaSuccess;
}

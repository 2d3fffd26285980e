// SPDX-License-Identifier: Apache-2.0
// shared_memory_space.h -- the space in /dev/shm, where Open MPI keeps what the ranks of a host share.
#pragma once

#include <sys/statvfs.h>

#include <cstdint>

namespace tutti {

constexpr std::uint64_t kSharedMemoryPerRank = 32 << 20;  // bytes that Open MPI wants in /dev/shm

// Free bytes; 0 if there is no /dev/shm.
inline std::uint64_t free_shared_memory() {
  struct statvfs memory {};
  return statvfs("/dev/shm", &memory) == 0 ? std::uint64_t{memory.f_bavail} * memory.f_frsize : 0;
}

}  // namespace tutti

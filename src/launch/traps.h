// SPDX-License-Identifier: Apache-2.0
// traps.h -- what stops or slows Open MPI on a host: `trainer launch` works around it, `trainer doctor` names it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::launch {

constexpr std::uint64_t kSharedMemoryPerRank = 32 << 20;  // bytes that Open MPI wants in /dev/shm

int cores_here();  // that this process may use
// Whether a process may read the memory of another one of its user (CMA).
bool may_read_neighbours();
// Network interfaces of containers and virtual machines.
std::vector<std::string> bridges();
std::uint64_t free_shared_memory();  // bytes in /dev/shm; 0 if there is none

}  // namespace tutti::launch

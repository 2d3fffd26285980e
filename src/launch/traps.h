// SPDX-License-Identifier: Apache-2.0
// traps.h -- what stops or slows Open MPI on a host: `trainer launch` works around it, `trainer doctor` names it.
#pragma once

#include <string>
#include <vector>

namespace tutti::launch {

int cores_here();  // that this process may use
// Whether a process may read the memory of another one of its user (CMA).
bool may_read_neighbours();
// Network interfaces of containers and virtual machines.
std::vector<std::string> bridges();

}  // namespace tutti::launch

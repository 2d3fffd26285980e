// SPDX-License-Identifier: Apache-2.0
#include "launch/traps.h"

#include <ifaddrs.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

namespace tutti::launch {

int cores_here() {
  cpu_set_t mine;
  return sched_getaffinity(0, sizeof mine, &mine) == 0 ? std::max(1, CPU_COUNT(&mine)) : 1;
}

// Containers often forbid it, even between ranks of one user.
bool may_read_neighbours() {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  static const int value = 42;
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    int copy = 0;
    iovec to{&copy, sizeof copy}, from{const_cast<int*>(&value), sizeof value};
    _exit(process_vm_readv(parent, &to, 1, &from, 1, 0) == sizeof copy && copy == value ? 0 : 1);
  }
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  prctl(PR_SET_PTRACER, 0, 0, 0, 0);
  return child > 0 && status == 0;
}

// They have the same addresses on every host, and lead nowhere.
std::vector<std::string> bridges() {
  std::set<std::string> names;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    const std::string name = i->ifa_name;
    if (name.starts_with("docker") || name.starts_with("virbr") || name.starts_with("br-") ||
        name.starts_with("podman"))
      names.insert(name);
  }
  freeifaddrs(all);
  return {names.begin(), names.end()};
}

}  // namespace tutti::launch

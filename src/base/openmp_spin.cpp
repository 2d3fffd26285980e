// SPDX-License-Identifier: Apache-2.0
#include "base/openmp_spin.h"

#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace tutti {

void limit_openmp_spinning(char* const* argv) {
  const char* const threads = std::getenv("OMP_NUM_THREADS");
  cpu_set_t cores;
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY") || (threads && std::string_view(threads) == "1") ||
      sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) == 1)
    return;
  setenv("GOMP_SPINCOUNT", "2000", 0);
  execv("/proc/self/exe", argv);
  // Where that fails, waits are long ones.
}

}  // namespace tutti

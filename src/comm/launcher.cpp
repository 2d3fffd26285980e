// SPDX-License-Identifier: Apache-2.0
// Recognises MPI launchers by the environment variables that they set for every rank.
#include <cstdlib>

#include "comm/session.h"

namespace tutti {

Launcher find_launcher() {
  Launcher found;
  // Open MPI, MVAPICH, and PMI of MPICH, Intel MPI and Slurm. A batch script of Slurm alone sets none of them.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* text = std::getenv(name)) {
      found.present = true;
      if (const int n = std::atoi(text); n > 0) found.ranks = n;
      return found;
    }
  for (const char* name : {"PMIX_RANK", "PMI_RANK", "PMI_FD"})
    if (std::getenv(name)) found.present = true;
  return found;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// runner.h -- carries out runs: several at once on this machine, each on cores of its own, or as a Slurm array.
#pragma once

#include <vector>

#include "sweep/plan.h"

namespace tutti::sweep {

struct Job {
  std::size_t run = 0;  // its index
  int until = 0;        // pause after this epoch; 0 = run to the end
};

// Whether nothing is left to do for it: it ended with exit code 0, or its log holds that epoch or the last one of its
// last training, or this training has ended before.
bool is_done(const Plan&, const std::vector<Run>&, const Job&);
// Carries out the jobs that are not done. A run that fails is noted and the others go on. Returns false if a signal
// stopped the sweep; runs under way have then saved their state.
bool run_here(const Plan&, const std::vector<Run>&, const std::vector<Job>&);
// The same as one array of Slurm jobs per call; waits for its end.
bool run_in_slurm(const Plan&, const std::vector<Run>&, const std::vector<Job>&);

// Makes SIGTERM, SIGINT and SIGUSR1 stop the sweep.
void watch_signals();

}  // namespace tutti::sweep

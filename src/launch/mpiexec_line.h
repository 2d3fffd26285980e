// SPDX-License-Identifier: Apache-2.0
// mpiexec_line.h -- the command line of mpiexec, with what Open MPI needs on this machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launch/options.h"

namespace tutti::launch {

struct MpiexecLine {
  std::vector<std::string> words;                              // of mpiexec and the trainer
  std::vector<std::pair<std::string, std::string>> variables;  // of the environment
  std::vector<std::string> notes;                              // why a flag is there
};
// `hosts`: those of this attempt; empty = chosen by mpiexec.
MpiexecLine mpiexec_line(const Options&, int ranks, const std::vector<Host>& hosts);
// As one would type it.
std::string to_string(const MpiexecLine&);

}  // namespace tutti::launch

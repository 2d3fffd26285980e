// SPDX-License-Identifier: Apache-2.0
// auto_method.h -- parallelizationMethod = auto: before the actions of a run are created, names a method by times of
// real steps, or by the checkpoint that the run resumes from.
#pragma once

#include <string>
#include <vector>

#include "actions/prepare.h"
#include "config/command_line.h"
#include "config/top_level.h"
#include "tutti/communicator.h"

namespace tutti::actions {

// What the command line says, for the trials, which read it again.
struct AutoRun {
  std::vector<std::string> words;  // without the program
  std::string directory;           // where the program was started
  const config::CommandLine& line;
  const config::TopLevel& top;
  HostPlace place;
};

// For every training with `auto`: adds the word that sets its method to `overrides`, and says what was chosen and why.
// --check times nothing. Collective; all ranks get the choice of rank 0.
MethodChoices choose_methods(const AutoRun&, Communicator&, config::Notices&, std::vector<std::string>& overrides);

}  // namespace tutti::actions

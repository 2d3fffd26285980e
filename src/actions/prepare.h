// SPDX-License-Identifier: Apache-2.0
// prepare.h -- everything that can be wrong is found here, before anything runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actions/action.h"
#include "config/command_line.h"
#include "config/top_level.h"

namespace tutti::actions {

struct Prepared {
  std::string command, action;
  bool on_all_ranks = true;
  std::unique_ptr<Action> what;
};

// Makes all actions of all commands, on this device. Mistakes land in `problems`, remarks in `notices`.
std::vector<Prepared> prepare(const config::CommandLine&, const config::TopLevel&, const std::string& device,
                              Communicator&, Problems&, config::Notices&);

}  // namespace tutti::actions

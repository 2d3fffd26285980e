// SPDX-License-Identifier: Apache-2.0
// prepare.h -- finds all mistakes before anything runs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actions/action.h"
#include "config/command_line.h"
#include "config/top_level.h"

namespace tutti::actions {

struct Prepared {
  std::string command, action;
  bool on_all_ranks = true;
  std::optional<Action> what;  // none if there are mistakes
};

// What parallelizationMethod = auto has chosen, by command.
using MethodChoices = std::map<std::string, MethodChoice>;

// Creates all actions of all commands on this device. Adds mistakes to `problems` and notices to `notices`.
std::vector<Prepared> prepare(const config::CommandLine&, const config::TopLevel&, const std::string& device,
                              Communicator&, Problems&, config::Notices&, const MethodChoices& = {});

}  // namespace tutti::actions

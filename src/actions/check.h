// SPDX-License-Identifier: Apache-2.0
// check.h -- what --check and --dry-run print: a config, and as its comments what a run would do.
#pragma once

#include <string>
#include <vector>

#include "actions/run.h"
#include "config/command_line.h"
#include "tutti/communicator.h"

namespace tutti::actions {

// What the user has set, how a run would be set up (`settings`), and the memory it would need. Collective: the ranks add
// up their memory. Rank 0 prints.
void print_check(Communicator& world, const Run&, const config::CommandLine&, const config::Notices&,
                 const std::vector<std::string>& settings, int local_ranks, const std::string& device);
// A step of every training, from what the check has created, and the memory that they have allocated. Collective.
void dry_run(const Run&, Communicator& world);

}  // namespace tutti::actions

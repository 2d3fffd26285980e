// SPDX-License-Identifier: Apache-2.0
// check.h -- the output of --check: what the user has set, what a run would do, and the memory it would need.
#pragma once

#include <string>
#include <vector>

#include "actions/prepare.h"
#include "config/top_level.h"

namespace tutti::actions {

struct Check {
  const config::TopLevel& top;
  const std::vector<Prepared>& actions;
  std::vector<std::string> notices, settings;  // lines
  HostPlace place;
  std::string device;  // "cpu", "cuda:0"
  bool all = false;    // every option, not only what differs from its default
};

// Collective: the ranks add up their memory. Rank 0 prints.
void print_check(Communicator& world, const Check&);

}  // namespace tutti::actions

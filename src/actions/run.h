// SPDX-License-Identifier: Apache-2.0
// run.h -- a run from the command line to its end. Called by main.
#pragma once

#include <memory>
#include <vector>

#include "actions/prepare.h"
#include "config/top_level.h"
#include "train/model_lock.h"
#include "tutti/communicator.h"

namespace tutti::actions {

// A checked configuration. Its models are locked and its log is open, unless it is dry.
struct Run {
  bool dry = false;  // --dry-run: one step of each training, and nothing is written
  config::TopLevel top;
  std::vector<Prepared> actions;
  std::vector<ModelLock> locks;
};

// Null if there is nothing to run: `code` is 0 after an answer (help, --check) and 2 if the configuration is wrong,
// which rank 0 has reported once.
std::unique_ptr<Run> prepare_run(int argc, const char* const* argv, Communicator& world, int& code);
// Runs the actions in order.
void run_actions(Run&, Communicator& world);

}  // namespace tutti::actions

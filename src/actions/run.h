// SPDX-License-Identifier: Apache-2.0
// run.h -- from the command line to the exit code: checks everything, then runs the actions in turn. Called by main.
#pragma once

#include "tutti/communicator.h"

namespace tutti::actions {

// 0 = done, 2 = the configuration is wrong (already reported, once, by rank 0).
int run(int argc, const char* const* argv, Communicator& world);

}  // namespace tutti::actions

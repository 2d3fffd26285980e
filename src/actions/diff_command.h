// SPDX-License-Identifier: Apache-2.0
// diff_command.h -- `trainer diff A B`: two configs, or a config and the settings beside a model.
#pragma once

namespace tutti::actions {

// `argv` begins after "diff". Exit codes as those of diff: 0 equal, 1 different, 2 error.
int run_diff(int argc, const char* const* argv);

}  // namespace tutti::actions

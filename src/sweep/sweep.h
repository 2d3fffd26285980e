// SPDX-License-Identifier: Apache-2.0
// sweep.h -- `trainer sweep FILE`: many runs of one config with different settings.
#pragma once

namespace tutti::sweep {

// `argv` begins after "sweep". Exit code: 0, 1 if a run failed, 2 for mistakes, 75 if a signal stopped it.
int run(int argc, const char* const* argv);

}  // namespace tutti::sweep

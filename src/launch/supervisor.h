// SPDX-License-Identifier: Apache-2.0
// supervisor.h -- "trainer launch": starts the run, and again after failures.
#pragma once

namespace tutti::launch {

// The whole command; returns the exit code. `argv` begins behind "launch".
int run(int argc, const char* const* argv);

}  // namespace tutti::launch

// SPDX-License-Identifier: Apache-2.0
// doctor.h -- `trainer doctor`: looks at hosts, network and files before a run, a line for each thing.
#pragma once

namespace tutti::doctor {

// `argv` begins after "doctor". Exit code: 0 all is well, 1 warnings, 2 failures.
int run(int argc, const char* const* argv);

}  // namespace tutti::doctor

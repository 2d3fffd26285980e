// SPDX-License-Identifier: Apache-2.0
// report.h -- `trainer report DIR...`: runs as a page. Works without MPI; called by main.
#pragma once

namespace tutti::report {

// Takes the words after `report`; returns the exit code.
int run(int argc, const char* const* argv);

}  // namespace tutti::report

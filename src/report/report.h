// SPDX-License-Identifier: Apache-2.0
// report.h -- `trainer report DIR...`: runs as a page. A program of its own, without MPI; called by main.
#pragma once

namespace tutti::report {

// Takes the words behind `report`; returns the exit code.
int run(int argc, const char* const* argv);

}  // namespace tutti::report

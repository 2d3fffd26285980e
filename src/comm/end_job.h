// SPDX-License-Identifier: Apache-2.0
// end_job.h -- ends all ranks of a job so that what the program has printed stays the last that a user reads: launchers
// and MPI_Abort print texts of their own about exit codes.
#pragma once

#include <string>

#include "tutti/communicator.h"

namespace tutti {

// One rank speaks for itself: prints "[rank R on HOST] text" and ends every rank, which may be anywhere. MPI is up.
[[noreturn]] void abort_all(const std::string& text, int code);

// Collective, the last that a rank does: ends all of them with this exit code, not 0. Returns where the MPI library
// knows no way that the launcher does not remark upon.
void end_all(Communicator& world, int code);

// Collective over MPI_COMM_WORLD, as far as the ranks come: whether all of them come within a moment. Once per process.
bool all_come_soon();

}  // namespace tutti

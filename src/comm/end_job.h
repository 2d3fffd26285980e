// SPDX-License-Identifier: Apache-2.0
// end_job.h -- ends all ranks of a job such that the program's own message is the last output. Launchers and MPI_Abort
// would otherwise print their own texts about exit codes.
#pragma once

#include <string>

#include "tutti/communicator.h"

namespace tutti {

// Called by one failing rank: prints "[rank R on HOST] text" and ends every rank, whatever it does. MPI must be
// initialised.
[[noreturn]] void abort_all(const std::string& text, int code);

// Collective; the last call of a rank. Ends all ranks with this exit code (not 0). Returns if this MPI library cannot
// end without a message of the launcher.
void end_all(Communicator& world, int code);

// Non-blocking barrier on MPI_COMM_WORLD: true if all ranks arrive within 150 ms. Call at most once per process.
bool all_come_soon();

}  // namespace tutti

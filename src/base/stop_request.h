// SPDX-License-Identifier: Apache-2.0
// stop_request.h -- stops a training between two minibatches when a signal asks for it, on all ranks after the same
// one. The signal may reach any rank. The watchdog of rank 0 lets all ranks hold before their next minibatch, asks
// which was their last, and decides that all go on to the foremost of these (src/comm/watchdog.cpp).
#pragma once

#include <cstdint>

namespace tutti {

// From now on one of these signals ends the process at once with this exit code, except while StopSignals lives:
// outside of a training there is nothing to save. `says`: with a line on stderr. Not under a launcher, which signals
// all ranks after a failure: the message of the failed one must be the last.
void end_on_signals(int exit_code, bool says);

// While it lives, SIGTERM, SIGINT and SIGUSR1 ask for a stop. A second one ends the process at once. A different
// one of the three within ten seconds does not count: the same request came twice. A signal too late to stop one
// training stops the next.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

namespace stop_request {

// The signal that this process got; 0 = none.
int signal();
// The signal that stops the run, on every rank once it is decided.
int deciding_signal();
int wake_fd();  // readable once a signal came; -1 outside of StopSignals

// Of the training thread: whether the minibatch at this position may begin. Positions grow throughout the run, over all
// its trainings; all ranks count alike. Blocks while the ranks agree.
bool admits(std::int64_t position);

// Of the watchdog. From now on admits() blocks. Returns the last position that it was asked about, -1 if none.
std::int64_t hold();
// admits() goes on: positions up to `last` may begin.
void decide(std::int64_t last, int signal);
void release();  // nothing is decided
bool decided();

// All ranks are done with what had to be saved. A later signal, as that of a launcher which has seen one of them end,
// ends the process at once with this code.
void state_saved(int exit_code);

}  // namespace stop_request
}  // namespace tutti

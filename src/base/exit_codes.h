// SPDX-License-Identifier: Apache-2.0
// exit_codes.h -- why the program ended, one code per cause (docs/faults.md), and the exceptions that carry them to
// main.
#pragma once

#include <string>

#include "tutti/error.h"

namespace tutti {

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,              // files, memory, MPI, ...: the message says which
  kWrongConfiguration = 2,  // found before the run, or when it cannot resume an earlier one
  kPreempted = 75,          // a signal asked for it; starting again goes on. EX_TEMPFAIL of sysexits.h
  kRankDied = 80,           // the process of another rank ended
  kRankFrozen = 81,         // it exists and its host answers, but it does not run (SIGSTOP)
  kLinkCut = 82,            // its host does not answer
  kRankStalled = 83,        // it runs, but its training makes no progress
  kReplicasDiffer = 84,     // weights that should be equal on all ranks are not
  kNotANumber = 85,         // a criterion or gradient is NaN
  kCheckpointsFail = 86,    // several checkpoints in a row could not be written
  kMessageDamaged = 87,     // a message's checksum is wrong
};

// An error with an exit code of its own.
class CodedError : public Error {
 public:
  CodedError(ExitCode code, const std::string& text) : Error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// All ranks stop together in good order, after everything was said: not a failure.
struct StopRun {
  ExitCode code = kPreempted;
};

}  // namespace tutti

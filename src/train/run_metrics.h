// SPDX-License-Identifier: Apache-2.0
// run_metrics.h -- the records of a training run in the files of `metrics` that are not lines of its report.
#pragma once

#include "train/report.h"
#include "tutti/communicator.h"

namespace tutti {

struct Training;

// Opens the files and writes the first record. `fresh`: removes the records of an earlier run. Collective.
void begin_metrics(Training&, bool fresh);
// Lines of the log are not recorded any more.
void end_metrics();
// After a checkpoint was loaded: removes the records of what is trained again.
void rewind_metrics(Training&);
// "checkpoint" or "end", at the run's position.
void record_event(Training&, const char* event, double seconds);

// Times, bytes and work units of an epoch. Collective.
ValuesByRank times_by_rank(Communicator&, const EpochTimes&);

}  // namespace tutti

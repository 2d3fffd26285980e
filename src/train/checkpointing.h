// SPDX-License-Identifier: Apache-2.0
// checkpointing.h -- when a training run saves its state, and how it resumes. The contents of files are in
// checkpoint.h.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "train/training.h"

namespace tutti {

enum class Start { fresh, resumed, finished };

// Finds the newest usable state of an earlier run and loads weights, optimizer and progress from it. Collective.
Start resume(Training&);
// Starts the methods of the run with equal weights on all ranks; again after a roll-back. Collective.
void start_method(Training&);
// Loads the method's part of that state, after the method has started, and rewinds the metrics to that point.
// Collective.
void restore_method(Training&);

// A copy in memory of all state that a training run changes, to restore it. Use between epochs, or between the last
// step of an epoch and its checkpoint.
struct StateCopy {
  using Values = std::map<std::string, std::vector<std::byte>, std::less<>>;
  Values values;
  Progress progress;
};
StateCopy copy_state(Training&);
void restore_state(Training&, StateCopy&);

// Returns to the state after `epoch` epochs and removes what was saved later. Returns false, after a warning, if that
// state cannot be loaded any more. Collective.
bool roll_back(Training&, std::int64_t epoch);
// onNaN = rewind: returns to the newest checkpoint, with a lower learning rate. Collective.
void rewind(Training&);
// The final model of a training that ends before the last epoch.
void save_final_model(Training&);

void save_initial_model(Training&);       // modelPath.0
void checkpoint_at_epoch_end(Training&);  // progress already refers to the next epoch
// After a step: whether a mid-epoch checkpoint is due by `checkpointEverySamples`, and saving it. The method must have
// been drained. Collective.
bool checkpoint_due(const Training&, std::int64_t samples_of_step);
// The sample of this epoch at which the next one is due; the largest integer if none is.
std::int64_t next_checkpoint(const Training&);
void checkpoint(Training&, bool ends = false);  // ends: the run ends after it
// Bytes that rank 0 allocates for the copy of model and state that is written in the background; 0 if no checkpoint is
// due before the last one, which needs no copy.
std::uint64_t checkpoint_memory(const Training&);
// Call when the run has started, and nothing in the files of an earlier one can refuse it any more. Until then these
// stay as they are: here a final model gets the name of its epoch, older models are removed, and Training::begins is
// called. Prepares the memory for checkpoints, in the background, so that the first one takes no longer than others.
// Collective.
void prepare_checkpoints(Training&);
// Waits until everything saved is on disk; throws the Error of its last attempt. Collective.
void finish_checkpoints(Training&);
// Makes running statistics equal on all ranks, before they are evaluated or saved. Collective.
void share_statistics(Training&);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// checkpointing.h -- when a training run stores itself and how it goes on; what the files hold is checkpoint.h's
// matter.
#pragma once

#include "train/training.h"

namespace tutti {

enum class Start { fresh, resumed, finished };

// Finds the newest usable state of an earlier run and loads weights, optimizer and progress from it. Collective.
Start resume(Training&);
// Starts the methods of the run with equal weights on all ranks. Collective; again after a roll-back.
void start_method(Training&);
// The method's part of that state, once it has been started. Collective.
void restore_method(Training&);

// The method's part of what checkpoints hold, common and of this rank.
void archive_exchange_state(Training&, Archive&);

// Goes back to the state after `epoch` epochs; what was saved after it is removed. Collective.
void roll_back(Training&, std::int64_t epoch);
// The final model, before the last epoch.
void save_final_model(Training&);

void save_initial_model(Training&);       // modelPath.0
void checkpoint_at_epoch_end(Training&);  // progress already says the next epoch
// After a step: whether `checkpointEverySamples` are full, and the checkpoint in mid-epoch. What the method has in
// flight must have been drained. Collective.
bool checkpoint_due(const Training&, std::int64_t samples_of_step);
// The samples of this epoch with which the next one is due; the largest number there is when none will be.
std::int64_t next_checkpoint(const Training&);
void checkpoint(Training&);
// Running statistics become equal on all ranks: before they are evaluated or stored. Collective.
void share_statistics(Training&);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// checkpoint.h -- where a run's files lie, which of them a restart uses, and saving and loading them so that a kill at
// any moment leaves a complete set (docs/checkpoints.md). Collective functions say so; rank 0 alone touches files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/adjust.h"
#include "train/model_file.h"
#include "train/rank_state.h"
#include "tutti/archive.h"
#include "tutti/communicator.h"
#include "tutti/optimizer.h"
#include "tutti/parameters.h"

namespace tutti {

// Where a run stands, beside weights, optimizer and exchange. The reader needs no more than epoch and samples_in_epoch.
struct CheckpointState {
  std::int64_t epoch = 0;                 // epochs finished; the next or running one has this index from 0
  std::int64_t samples_in_epoch = 0;      // done of the running epoch; 0 between epochs
  std::int64_t minibatches_in_epoch = 0;  // likewise
  std::int64_t total_samples_seen = 0;
  std::int64_t minibatch_size = 0;
  double learning_rate = 0;  // per sample
  double previous_criterion = 0;
  StepMetrics epoch_metrics;  // of samples_in_epoch
  std::int64_t dropped_samples = 0;
  StepMetrics interval_metrics;  // of the minibatches not reported yet
  AdjustState adjust;

  void archive(Archive&);
};

// "m.0" before training, "m.1", "m.2", ..., and "m" for the last epoch.
std::string model_name(const std::string& model_path, std::int64_t epoch, std::int64_t max_epochs);
std::string numbered_model_name(const std::string& model_path, std::int64_t epoch);  // "m.3"
std::string checkpoint_name(const std::string& model);                               // its ".ckp"
std::string mid_epoch_name(const std::string& model_path, std::int64_t epoch);  // epoch from 0: "m.<epoch + 1>.mid"

struct ResumePoint {
  bool finished = false;   // the final model is there: nothing to do
  std::int64_t epoch = 0;  // epochs finished; more than max_epochs where an earlier run was longer
  bool mid_epoch = false;  // `model` is a mid-epoch file, which holds model and state in one
  std::string model;       // path
  std::string checkpoint;  // path of the state; empty when there is none
  std::string_view model_kind() const { return mid_epoch ? "checkpoint" : "model"; }  // of container.h
};

// The newest usable state of earlier runs. What is damaged or missing is said in `warnings` and passed over.
std::optional<ResumePoint> find_resume_point(const std::string& model_path, std::int64_t max_epochs,
                                             std::vector<std::string>& warnings);
// Collective; only rank 0 looks and gets the warnings.
std::optional<ResumePoint> find_resume_point(const std::string& model_path, std::int64_t max_epochs, Communicator&,
                                             std::vector<std::string>& warnings);

// Whether there is anything to go on from, sound or not. Rank 0.
bool earlier_run_left_files(const std::string& model_path);
// Collective. A final model of fewer epochs than the run has now gets its number by a copy, so that the files are those
// of a run that was as long from the start. Returns the point with the new names.
ResumePoint number_final_model(const std::string& model_path, const ResumePoint&, Communicator&);

// Before a run from scratch: removes the states (not the models) of earlier runs, which must not be continued. Rank 0.
void discard_checkpoints(const std::string& model_path);
// Takes back the epochs after the first `epoch` ones, of which `last` were begun: their models and states. Rank 0.
void discard_epochs(const std::string& model_path, std::int64_t epoch, std::int64_t last, std::int64_t max_epochs);

// Tries to make the directories and to write there, and compares the free space with what the first model and state
// will need; leaves nothing behind. Error. Rank 0, before any training.
void check_writable(const std::string& model_path, std::size_t model_bytes);

// What a checkpoint is made of. Every rank passes its own.
struct CheckpointParts {
  ModelView model;
  Optimizer* optimizer = nullptr;  // rank 0's; equal on all ranks unless rank_state says more
  // What each rank has for itself, such as residuals: archive(ParallelMethod&). May be empty, as may `common_state`,
  // which is equal on all ranks. `rank_state_name` says whose they are; a resuming run must agree on it for them to be
  // used.
  Visit common_state;
  Visit rank_state;
  std::string rank_state_name;
};
struct CheckpointFiles {
  std::string model_path;
  std::int64_t max_epochs = 0;
  bool keep_all = false;  // keepCheckPointFiles
  std::int64_t keep = 2;  // otherwise: so many of the newest states
};

// Collective. Within an epoch (state.samples_in_epoch > 0) the mid-epoch file; after an epoch, model and .ckp; before
// the first, only the model, for nothing else has a state yet. Older files are removed once the new ones are on disk.
void save_checkpoint(const CheckpointFiles&, CheckpointState, CheckpointParts&, Communicator&);

// Collective. Values of the model, on every rank.
void load_model(const ResumePoint&, ModelView&, Communicator&);
// Collective. State and optimizer, on every rank. Without a .ckp: the optimizer stays fresh, the state says only the
// epoch.
CheckpointState load_state(const ResumePoint&, Optimizer&, Communicator&);
// Collective. The common state of the exchange. Returns "" or why it is lost (no checkpoint, another name).
std::string load_common_state(const ResumePoint&, const Visit&, const std::string& rank_state_name, Communicator&);
// What has become of the state of the ranks: `lost` says why none of it could be used (no checkpoint, another name),
// `gone` what ranks that do not go on have taken with them.
struct RankStateReport {
  std::string lost, gone;
  std::int64_t ranks = 0;  // that wrote it
};
// Collective. What each rank had for itself, resharded if there were more or fewer of them.
RankStateReport load_rank_state(const ResumePoint&, const Visit&, const std::string& rank_state_name, Communicator&);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// checkpoint.h -- the files of a run: their names, which of them a restart uses, and how they are saved so that a kill
// at any moment leaves a complete set (docs/checkpoints.md). Only rank 0 accesses files; collective functions say so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/adjust.h"
#include "train/background_writer.h"
#include "train/best_model.h"
#include "train/kernel_record.h"
#include "train/method_choice.h"
#include "train/model_file.h"
#include "train/rank_state.h"
#include "tutti/archive.h"
#include "tutti/communicator.h"
#include "tutti/optimizer.h"
#include "tutti/parameters.h"

namespace tutti {

// The position of a run. The reader needs only epoch and samples_in_epoch.
struct Progress {
  std::int64_t epoch = 0;                 // finished epochs, which is also the index of the next or running one
  std::int64_t samples_in_epoch = 0;      // samples done in the running epoch; 0 between epochs
  std::int64_t minibatches_in_epoch = 0;  // likewise
  std::int64_t total_samples_seen = 0;    // by finished epochs, as in the log
  std::int64_t samples_before = 0;        // where the running epoch begins: samples_per_epoch may change
  StepMetrics epoch_metrics = {};         // of samples_in_epoch
  std::int64_t dropped_samples = 0;       // of them: skipped, or computed in vain
  void begin_epoch() {
    *this = {.epoch = epoch, .total_samples_seen = total_samples_seen, .samples_before = samples_before};
  }
  // In metrics records, after `samples` of the running epoch: samples since the start of the run. Sequences may go
  // beyond the end of the epoch; positions do not.
  std::int64_t position(std::int64_t samples, std::int64_t samples_per_epoch) const {
    return samples_before + std::min(samples, samples_per_epoch);
  }
  // For a resume with other samples_per_epoch. Those beyond its new end are added to samples_before, so that positions
  // never repeat.
  void resize_epoch(std::int64_t samples_per_epoch) {
    samples_before += std::max<std::int64_t>(0, samples_in_epoch - samples_per_epoch);
  }
};

// What is saved of a run beside weights, optimizer and exchange.
struct CheckpointState : Progress {
  std::int64_t minibatch_size = 0;
  double learning_rate = 0;      // per sample
  StepMetrics interval_metrics;  // of the minibatches not reported yet
  AdjustState adjust;
  double rate_factor = 1;
  BestModel best;
  MethodChoice choice;
  std::int64_t samples_per_epoch = 0;  // 0 = unknown, as in older files
  std::string kernels;                 // KernelRecord::lines
  std::int64_t ended_early = 0;        // maxEpochs, if the training has ended before that epoch

  void archive(Archive&);
};
// The entry of `ended_early`, which only the state of such a final model has.
constexpr const char* kEndedEarly = "ended early with maxEpochs";

// "m.0" before training, "m.1", "m.2", ..., and "m" for the last epoch.
std::string model_name(const std::string& model_path, std::int64_t epoch, std::int64_t max_epochs);
std::string numbered_model_name(const std::string& model_path, std::int64_t epoch);  // "m.3"
std::string checkpoint_name(const std::string& model);                               // its ".ckp"
std::string mid_epoch_name(const std::string& model_path, std::int64_t epoch);  // epoch from 0: "m.<epoch + 1>.mid"

// Calls `use` for the files "<model_path>.<epoch><end>".
void each_numbered_file(const std::string& model_path,
                        const std::function<void(std::int64_t epoch, std::string_view end)>& use);
std::int64_t last_model_epoch(const std::string& model_path);  // the largest e of modelPath.<e>, -1 if there is none

struct ResumePoint {
  bool finished = false;         // the last epoch is done: nothing to do
  std::int64_t epoch = 0;        // finished epochs; more than max_epochs if an earlier run was longer
  bool mid_epoch = false;        // `model` is a mid-epoch file, which holds model and state
  std::string model;             // path
  std::string checkpoint;        // path of the state; empty when there is none
  std::int64_t ended_early = 0;  // of CheckpointState, if finished
  std::string_view model_kind() const { return mid_epoch ? "checkpoint" : "model"; }  // of container.h
};

// The newest usable state of earlier runs. Skips damaged or missing files and reports them in `warnings`.
std::optional<ResumePoint> find_resume_point(const std::string& model_path, std::int64_t max_epochs,
                                             std::vector<std::string>& warnings);
// Collective; only rank 0 reads files and gets the warnings.
std::optional<ResumePoint> find_resume_point(const std::string& model_path, std::int64_t max_epochs, Communicator&,
                                             std::vector<std::string>& warnings);

// Visits the state that a training would resume from on rank 0, before the training is made; not if there is none, or
// if CNTK wrote it. Collective.
void peek_state(const std::string& model_path, std::int64_t max_epochs, Communicator&, const Visit&);

// The state after `epoch` epochs, if it is usable. Collective, likewise.
std::optional<ResumePoint> find_epoch(const std::string& model_path, std::int64_t epoch, std::int64_t max_epochs,
                                      Communicator&, std::vector<std::string>& warnings);

// Whether the files of a point that was found are still there and intact. Collective.
bool is_readable(const ResumePoint&, Communicator&);
// Says that there is nothing to do at a finished point, and what would continue its training.
void log_finished(const ResumePoint&, const std::string& model_path);

// Whether there are files of an earlier run, intact or not. Rank 0.
bool earlier_run_left_files(const std::string& model_path);
// A run from scratch would write among the files of an unfinished run of more epochs: throws
// CodedError(kWrongConfiguration). Collective; only rank 0 looks.
void refuse_later_epochs(const std::string& model_path, std::int64_t max_epochs, Communicator&);
// Where maxEpochs has changed: copies model and state to another name, so that the files are those of a run of the new
// length. Returns the point with the new names. Collective.
ResumePoint copy_model(const ResumePoint&, const std::string& model, Communicator&);

// Before a run from scratch: removes the states (not the models) of earlier runs so that they cannot be resumed. Rank
// 0.
void discard_checkpoints(const std::string& model_path);
// Once the first model of a run from scratch is saved: gives models of earlier runs that are not older, because the
// clock was set back, a time before it, so that a restart knows them as leftovers. Rank 0.
void date_back_leftovers(const std::string& model_path, std::int64_t max_epochs);
// Removes the models and states of the epochs after `epoch`, of which `last` were begun. Rank 0.
void discard_epochs(const std::string& model_path, std::int64_t epoch, std::int64_t last, std::int64_t max_epochs);

// Tests that the directory is writable, or the nearest one above it that exists, and compares the free space with the
// size of the first model and state; leaves nothing behind. Throws Error. Rank 0, before any training.
void check_writable(const std::string& model_path, std::size_t model_bytes);

// The parts of a checkpoint. Every rank passes its own.
struct CheckpointParts {
  ModelView model;
  // The optimizer's state; equal on all ranks unless rank_state holds more. The archive is null on ranks other than 0,
  // which only contribute the parts that they hold of it.
  std::function<void(Archive*)> optimizer;
  // The local state of each rank, such as residuals: archive(ParallelMethod&). May be empty, as may `common_state`,
  // which is equal on all ranks. `rank_state_name` names the method; a resumed run uses the state only if the name is
  // equal.
  Visit common_state;
  Visit rank_state;
  std::string rank_state_name;
  // The part of common_state that does not depend on how layers are divided.
  Visit undivided_state = {};
  // The network is that of files, as one that action edit has made; a restart takes it from the files again.
  bool network_of_files = false;
};
struct CheckpointFiles {
  std::string model_path;
  std::int64_t max_epochs = 0;
  bool keep_all = false;         // keepCheckPointFiles
  std::int64_t keep = 2;         // otherwise: number of newest states to keep
  std::int64_t keep_models = 0;  // number of newest models to keep; 0 = all
  bool best = false;             // after an epoch: save the model also as the best one
};

// Removes numbered models but the newest keep_models, also those that a run with a larger keep_models left. Rank 0.
void remove_older_models(const CheckpointFiles&, std::int64_t epoch);

// Copies all that is saved, and writes it later, in the background, or at once without a writer: the mid-epoch file
// within an epoch (state.samples_in_epoch > 0), model and .ckp after an epoch, and only the model before the first,
// when nothing else has state. Removes older files once the new ones are on disk. Collective.
void save_checkpoint(const CheckpointFiles&, CheckpointState, const CheckpointParts&, Communicator&,
                     BackgroundWriter* = nullptr);

// For the last checkpoint of a run. Writes the files of save_checkpoint() directly, without copies in memory, and waits
// until they are on disk. `bytes`: about their size, which is compared with the free space. Returns false, after a
// warning, if that failed; save_checkpoint() can then try again. Collective.
bool save_last_checkpoint(const CheckpointFiles&, CheckpointState, const CheckpointParts&, Communicator&,
                          BackgroundWriter&, std::uint64_t bytes);

// Copies the model, and saves it in the background as the best one. Rank 0.
void save_best_model(const std::string& model_path, const CheckpointParts&, BackgroundWriter&);

// Loads the values of the model on every rank. Collective.
void load_model(const ResumePoint&, ModelView&, Communicator&);
// Loads state and optimizer on every rank. Without a .ckp the optimizer stays fresh, and the state holds only the
// epoch. Collective.
CheckpointState load_state(const ResumePoint&, const Visit& optimizer, Communicator&);
// The result of loading the ranks' local state: `lost` says why none of it was used (no checkpoint, another method),
// `gone` names what was lost with missing ranks.
struct RankStateReport {
  std::string lost, gone;
  std::int64_t ranks = 0;  // that wrote it
};
// Loads the common state of the exchange, and the local state of each rank, resharded if the number of ranks has
// changed. Collective.
RankStateReport load_exchange_state(const ResumePoint&, const CheckpointParts&, Communicator&);

}  // namespace tutti

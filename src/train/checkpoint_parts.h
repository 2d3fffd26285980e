// SPDX-License-Identifier: Apache-2.0
// checkpoint_parts.h -- what a checkpoint holds of a training run beside the weights.
#pragma once

#include "train/checkpoint.h"
#include "train/training.h"

namespace tutti {

// The state of the method, with the samples that a warm start has seen.
void archive_exchange_state(Training&, Archive&, WeightExchange::Section);
// The model file holds the average, the checkpoint the weights. A run without an average continues with the weights.
void archive_average(Training&, Archive* to, bool loading);
// Whole values, where ranks hold parts. `to`: null on ranks that do not save.
void archive_optimizer(Training&, Archive* to, bool loading);
CheckpointParts parts_of(Training&, ModelView);
// Bytes of the values of model, optimizer and average that this rank holds, one by one, and their sum: about the size
// of the files.
std::vector<std::uint64_t> sizes_of_checkpoint(const Training&);
std::uint64_t bytes_of_checkpoint(const Training&);

// For a checkpoint within an epoch, when running statistics differ between ranks. The constructor replaces them in the
// network by their mean over the ranks, which the model is saved with. The checkpoint also holds each rank's own
// statistics, which the destructor restores. Collective.
class SavedStatistics {
 public:
  explicit SavedStatistics(Training&);
  ~SavedStatistics();
  SavedStatistics(const SavedStatistics&) = delete;
  SavedStatistics& operator=(const SavedStatistics&) = delete;

 private:
  Training& t_;
  std::vector<Network::State> states_;  // empty on a rank alone
};

}  // namespace tutti

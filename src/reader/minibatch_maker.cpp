// SPDX-License-Identifier: Apache-2.0
// Combines the walk over the global order with the data of the source.
#include "reader/minibatch_maker.h"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/log.h"

namespace tutti::reader {
namespace {

void describe_step(const auto& step, Batch& batch) {
  batch.columns = step.columns;
  batch.global_samples = step.global_samples;
  batch.global_columns = step.global_columns;
  batch.position = step.position;
  batch.minibatch = step.minibatch;
}

// Those of the sequences that are there.
void note_positions(const Step& step, Share& share) {
  auto& left_out = share.left_out();
  for (std::size_t i = 0; i < step.mine.size(); ++i)
    if (std::find(left_out.begin(), left_out.end(), step.mine[i]) == left_out.end())
      share.positions().push_back(step.positions[i]), share.numbers().push_back(step.mine[i]);
}

// Windows consist of whole chunks.
void warn_of_window(const SequenceIndex& index, const Randomization& r) {
  if (r.shuffle && r.window > 0 && r.window < index.samples() && index.chunks().size() == 1)
    log::warning(
        fmt::format("a window of {} samples to shuffle among has no effect: the {} samples are one chunk, which is "
                    "shuffled as a whole; chunkSizeInBytes, where the reader has it, makes smaller ones",
                    r.window, index.samples()));
}

}  // namespace

void MinibatchMaker::start(const EpochPlan& plan) {
  source_->begin_epoch();
  if (!walker_ && !lanes_) warn_of_window(source_->index(), randomization_);
  if (truncated()) {
    if (!lanes_) lanes_.emplace(source_->index(), randomization_, truncation_);
    lanes_->start(plan);
    cutter_.restart();
  } else {
    if (!walker_) walker_.emplace(source_->index(), randomization_, most_sequences_);
    walker_->start(plan);
  }
}

bool MinibatchMaker::make(Share& share) {
  if (truncated()) return make_truncated(share);
  if (!walker_->next(step_)) return false;
  share.clear();
  source_->begin_sweep(step_.sweep);
  source_->read(step_.mine, share);
  note_positions(step_, share);
  describe_step(step_, share.finish());
  return true;
}

bool MinibatchMaker::make_truncated(Share& share) {
  if (!lanes_->next(lane_step_)) return false;
  share.clear();
  source_->begin_sweep(lane_step_.sweep);
  cutter_.read(*source_, lane_step_.mine, share);
  describe_step(lane_step_, share.finish());
  return true;
}

}  // namespace tutti::reader

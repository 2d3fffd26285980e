// SPDX-License-Identifier: Apache-2.0
// A sequence belongs to the epoch in which its first sample lies; a minibatch takes whole sequences while they fit, at
// least one, and ends with the sweep and with the epoch.
#include "reader/minibatch_walker.h"

#include <algorithm>
#include <cassert>

namespace tutti::reader {

void MinibatchWalker::start(const EpochPlan& plan) {
  assert(plan.ranks > 0 && plan.rank >= 0 && plan.rank < plan.ranks && plan.epoch >= 0);
  plan_ = plan;
  const OrderCursor::Stretch epoch = cursor_.epoch(plan);
  cursor_.seek(epoch.begin);
  epoch_begin_ = cursor_.position();
  epoch_end_ = epoch.end;
  if (plan.start > 0) cursor_.seek(epoch_begin_ + plan.start);
}

bool MinibatchWalker::next(Step& step) {
  step.mine.clear();
  const std::int64_t begin = cursor_.position();
  if (begin >= epoch_end_) return false;
  if (cursor_.at_sweep_end()) cursor_.next_sweep();
  step.position = begin - epoch_begin_;
  step.sweep = cursor_.sweep();
  const SequenceIndex& index = cursor_.index();
  const std::int64_t most = std::min(std::max<std::int64_t>(plan_.minibatch, 1), epoch_end_ - begin);
  const std::size_t first_place = cursor_.place();
  lengths_.clear();
  for (bool first = true; !cursor_.at_sweep_end(); first = false) {
    const std::int64_t samples = index.samples_of(cursor_.peek());
    if (!first && cursor_.position() - begin + samples > most) break;
    const bool mine = static_cast<int>(cursor_.place() % static_cast<std::uint32_t>(plan_.ranks)) == plan_.rank;
    const std::uint32_t sequence = cursor_.take();
    if (mine) step.mine.push_back(sequence);
    if (!index.single_samples()) lengths_.push_back(samples);
  }
  step.global_samples = cursor_.position() - begin;
  step.columns = static_cast<std::int64_t>(step.mine.size());
  step.global_columns = step.global_samples;
  if (!index.single_samples()) count_columns(first_place, step);
  return true;
}

void MinibatchWalker::count_columns(std::size_t first_place, Step& step) {
  const auto ranks = static_cast<std::size_t>(plan_.ranks);
  step.columns = step.global_columns = 0;
  for (std::size_t r = 0; r < std::min(ranks, lengths_.size()); ++r) {
    rank_lengths_.clear();
    for (std::size_t i = r; i < lengths_.size(); i += ranks) rank_lengths_.push_back(lengths_[i]);
    const std::int64_t columns = packing_.columns(rank_lengths_);
    step.global_columns += columns;
    if ((first_place + r) % ranks == static_cast<std::size_t>(plan_.rank)) step.columns = columns;
  }
}

}  // namespace tutti::reader

// SPDX-License-Identifier: Apache-2.0
// A sequence belongs to the epoch in which its first sample lies; a minibatch takes whole sequences while they fit, at
// least one, and ends with the sweep and with the epoch.
#include "reader/minibatch_walker.h"

#include <algorithm>
#include <cassert>

namespace tutti::reader {

void MinibatchWalker::start(const EpochPlan& plan) {
  assert(plan.ranks > 0 && plan.rank >= -1 && plan.rank < plan.ranks && plan.epoch >= 0);
  plan_ = plan;
  const OrderCursor::Stretch epoch = cursor_.epoch(plan);
  cursor_.seek(epoch.begin);
  epoch_begin_ = cursor_.position();
  epoch_end_ = epoch.end;
  end_ = plan.end < epoch.end - epoch_begin_ ? epoch_begin_ + plan.end : epoch.end;
  minibatches_ = 0;
  if (plan.start > 0) cursor_.seek(epoch_begin_ + plan.start);
}

bool MinibatchWalker::next(Step& step) {
  if (!plan_.dealer) {
    if (!cut(step)) return false;
    keep(plan_.rank, step);
    return true;
  }
  do {
    const std::int64_t lot = plan_.dealer->next();
    while (minibatches_ <= lot / plan_.ranks)
      if (!cut(step)) return false;
    keep(static_cast<int>(lot % plan_.ranks), step);
  } while (step.mine.empty());
  return true;
}

bool MinibatchWalker::cut(Step& step) {
  const std::int64_t begin = cursor_.position();
  if (begin >= end_) return false;
  if (cursor_.at_sweep_end()) cursor_.next_sweep();
  step.position = begin - epoch_begin_;
  step.sweep = cursor_.sweep();
  step.minibatch = minibatches_++;
  const SequenceIndex& index = cursor_.index();
  const std::int64_t most = std::min(std::max<std::int64_t>(plan_.minibatch, 1), epoch_end_ - begin);
  first_place_ = cursor_.place();
  sequences_.clear();
  lengths_.clear();
  for (bool first = true; !cursor_.at_sweep_end(); first = false) {
    const std::int64_t samples = index.samples_of(cursor_.peek());
    if (!first && cursor_.position() - begin + samples > most) break;
    sequences_.push_back(cursor_.take());
    if (!index.single_samples()) lengths_.push_back(samples);
  }
  step.global_samples = cursor_.position() - begin;
  return true;
}

// A sequence belongs to the share that its place in the sweep says.
void MinibatchWalker::keep(int share, Step& step) {
  const auto ranks = static_cast<std::size_t>(plan_.ranks), mine = static_cast<std::size_t>(share);
  step.mine.clear();
  const std::size_t first = (mine + ranks - first_place_ % ranks) % ranks;
  if (share >= 0)
    for (std::size_t i = first; i < sequences_.size(); i += ranks) step.mine.push_back(sequences_[i]);
  step.columns = static_cast<std::int64_t>(step.mine.size());
  step.global_columns = step.global_samples;
  if (!cursor_.index().single_samples()) count_columns(share, step);
  step.offset = plan_.dealer ? step.global_samples * share / plan_.ranks : 0;
}

void MinibatchWalker::count_columns(int share, Step& step) {
  const auto ranks = static_cast<std::size_t>(plan_.ranks);
  step.columns = step.global_columns = 0;
  for (std::size_t r = 0; r < std::min(ranks, lengths_.size()); ++r) {
    rank_lengths_.clear();
    for (std::size_t i = r; i < lengths_.size(); i += ranks) rank_lengths_.push_back(lengths_[i]);
    const std::int64_t columns = packing_.columns(rank_lengths_);
    step.global_columns += columns;
    if ((first_place_ + r) % ranks == static_cast<std::size_t>(share)) step.columns = columns;
  }
}

}  // namespace tutti::reader

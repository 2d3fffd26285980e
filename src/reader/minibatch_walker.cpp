// SPDX-License-Identifier: Apache-2.0
// A sequence belongs to the epoch that contains its first sample. A minibatch takes whole sequences while they fit, at
// least one, and ends with the sweep and with the epoch.
#include "reader/minibatch_walker.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace tutti::reader {

void MinibatchWalker::start(const EpochPlan& plan) {
  assert(plan.ranks > 0 && plan.rank >= -1 && plan.rank < plan.ranks && plan.epoch >= 0);
  assert(plan.parts > 0 && plan.part >= 0 && plan.part < plan.parts && (plan.work_queue || plan.parts == 1));
  plan_ = plan;
  const OrderCursor::EpochRange epoch = cursor_.epoch(plan);
  cursor_.seek(epoch.begin);
  epoch_begin_ = cursor_.position();
  epoch_end_ = epoch.end;
  end_ = plan.end < epoch.end - epoch_begin_ ? epoch_begin_ + plan.end : epoch.end;
  minibatches_ = 0;
  if (plan.start > 0) cursor_.seek(epoch_begin_ + plan.start);
}

bool MinibatchWalker::next(Step& step) {
  if (!plan_.work_queue) {
    if (!cut(step)) return false;
    keep(plan_.rank, step);
    return true;
  }
  for (;;) {
    const std::int64_t unit = plan_.work_queue->next();
    while (minibatches_ <= unit / plan_.ranks)
      if (!cut(step)) return false;
    if (keep(static_cast<int>(unit % plan_.ranks), step)) return true;
  }
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
  const std::size_t most_sequences = most_sequences_ * static_cast<std::size_t>(plan_.accumulated);
  first_place_ = cursor_.place();
  sequences_.clear();
  lengths_.clear();
  begins_.clear();
  for (bool first = true; !cursor_.at_sweep_end(); first = false) {
    const std::int64_t samples = index.samples_of(cursor_.peek());
    const bool full = most_sequences > 0 ? sequences_.size() == most_sequences || cursor_.position() >= epoch_end_
                                         : cursor_.position() - begin + samples > most;
    if (!first && full) break;
    if (!index.single_samples()) lengths_.push_back(samples), begins_.push_back(cursor_.position() - begin);
    sequences_.push_back(cursor_.take());
  }
  step.global_samples = cursor_.position() - begin;
  return true;
}

// The position of a sequence in the sweep decides the share, and the part of it, that it belongs to.
bool MinibatchWalker::keep(int share, Step& step) {
  const auto ranks = static_cast<std::size_t>(plan_.ranks), mine = static_cast<std::size_t>(share);
  const auto parts = static_cast<std::size_t>(plan_.parts), part = static_cast<std::size_t>(plan_.part);
  step.mine.clear();
  step.positions.clear();
  const std::size_t first = (mine + ranks - first_place_ % ranks) % ranks;
  const std::size_t first_of_part = first + (part + parts - (first_place_ + first) / ranks % parts) % parts * ranks;
  if (share >= 0)
    for (std::size_t i = first_of_part; i < sequences_.size(); i += ranks * parts) {
      step.mine.push_back(sequences_[i]);
      step.positions.push_back(step.position + (begins_.empty() ? static_cast<std::int64_t>(i) : begins_[i]));
    }
  step.columns = static_cast<std::int64_t>(step.mine.size());
  step.global_columns = step.global_samples;
  if (!cursor_.index().single_samples()) count_columns(share, first_of_part, ranks * parts, step);
  return share >= 0 && first < sequences_.size();
}

// Packed as one rank would pack the whole minibatch, so that the count does not depend on the number of ranks.
// `first` and `stride` say which sequences this rank has.
void MinibatchWalker::count_columns(int share, std::size_t first, std::size_t stride, Step& step) {
  step.global_columns = packing_.columns(lengths_);
  rank_lengths_.clear();
  if (share >= 0)
    for (std::size_t i = first; i < lengths_.size(); i += stride) rank_lengths_.push_back(lengths_[i]);
  step.columns = packing_.columns(rank_lengths_);
}

// The tree finds the first row with capacity left in log time, so that large minibatches stay cheap.
std::int64_t Packing::columns(std::span<const std::int64_t> lengths) {
  if (lengths.empty()) return 0;
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  if (*shortest == *longest) return *longest * static_cast<std::int64_t>(lengths.size());

  // Rows not opened yet are empty, so "first row with capacity left" also means "open the next one".
  const std::size_t leaves = std::bit_ceil(lengths.size());
  capacity_.assign(2 * leaves, *longest);
  std::size_t rows = 0;
  for (const std::int64_t length : lengths) {
    std::size_t at = 1;
    while (at < leaves) at = capacity_[2 * at] >= length ? 2 * at : 2 * at + 1;
    rows = std::max(rows, at - leaves + 1);
    capacity_[at] -= length;
    for (at /= 2; at > 0; at /= 2) capacity_[at] = std::max(capacity_[2 * at], capacity_[2 * at + 1]);
  }
  return static_cast<std::int64_t>(rows) * *longest;
}

}  // namespace tutti::reader

// SPDX-License-Identifier: Apache-2.0
// A sequence belongs to the epoch in which its first sample lies; a minibatch takes whole sequences while they fit, at
// least one, and ends with the sweep and with the epoch.
#include "reader/minibatch_walker.h"

#include <algorithm>
#include <cassert>

namespace tutti::reader {

MinibatchWalker::MinibatchWalker(const SequenceIndex& index, Randomization randomization)
    : index_(index), order_(index, randomization) {}

void MinibatchWalker::start(const EpochPlan& plan) {
  assert(plan.ranks > 0 && plan.rank >= 0 && plan.rank < plan.ranks && plan.epoch >= 0);
  plan_ = plan;
  const std::int64_t samples = plan.samples > 0 ? plan.samples : index_.samples();
  std::int64_t begin = 0, end = 0;
  if (__builtin_mul_overflow(plan.epoch, samples, &begin) || __builtin_add_overflow(begin, samples, &end))
    throw Error("reading: epochSize times the number of epochs is beyond all counting");
  epoch_end_ = end;
  seek(begin);
  epoch_begin_ = position_;
  if (plan.start > 0) seek(epoch_begin_ + plan.start);
}

// Goes to the first sequence that starts at or after `position`.
void MinibatchWalker::seek(std::int64_t position) {
  sweep_ = position / index_.samples();
  const std::int64_t offset = position % index_.samples();
  order_.set_sweep(sweep_);
  std::int64_t at = 0;
  if (index_.single_samples()) {
    place_ = static_cast<std::uint32_t>(offset);
    at = offset;
  } else {
    for (place_ = 0; at < offset; ++place_) at += index_.samples_of(order_[place_]);
  }
  position_ = sweep_ * index_.samples() + at;
}

bool MinibatchWalker::next(Step& step) {
  step.mine.clear();
  if (position_ >= epoch_end_) return false;
  if (place_ == index_.sequences()) {
    ++sweep_;
    place_ = 0;
    order_.set_sweep(sweep_);
  }
  step.position = position_ - epoch_begin_;
  step.sweep = sweep_;
  const std::int64_t most = std::min(std::max<std::int64_t>(plan_.minibatch, 1), epoch_end_ - position_);
  const std::uint32_t first = place_;
  lengths_.clear();
  std::int64_t total = 0;
  while (place_ < index_.sequences()) {
    const std::uint32_t sequence = order_[place_];
    const std::int64_t samples = index_.samples_of(sequence);
    if (place_ > first && total + samples > most) break;
    total += samples;
    if (static_cast<int>(place_ % static_cast<std::uint32_t>(plan_.ranks)) == plan_.rank) step.mine.push_back(sequence);
    if (!index_.single_samples()) lengths_.push_back(samples);
    ++place_;
  }
  position_ += total;
  step.global_samples = total;
  step.global_columns = index_.single_samples() ? total : packed_columns();
  return true;
}

std::int64_t MinibatchWalker::packed_columns() {
  const auto ranks = static_cast<std::size_t>(plan_.ranks);
  std::int64_t columns = 0;
  for (std::size_t r = 0; r < std::min(ranks, lengths_.size()); ++r) {
    rank_lengths_.clear();
    for (std::size_t i = r; i < lengths_.size(); i += ranks) rank_lengths_.push_back(lengths_[i]);
    columns += packing_.columns(rank_lengths_);
  }
  return columns;
}

}  // namespace tutti::reader

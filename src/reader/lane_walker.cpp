// SPDX-License-Identifier: Apache-2.0
// A lane with too little data left takes the next sequence of the global order. Lanes run empty at the end of the epoch
// and of the sweep, so that no state crosses it and an epoch can start anywhere.
#include "reader/lane_walker.h"

#include <algorithm>
#include <cassert>

namespace tutti::reader {

void LaneWalker::start(const EpochPlan& plan) {
  assert(plan.ranks > 0 && plan.rank >= -1 && plan.rank < plan.ranks && plan.epoch >= 0);
  assert(!plan.work_queue);
  plan_ = plan;
  const std::int64_t minibatch = std::max<std::int64_t>(plan.minibatch, 1);
  const bool fixed = truncation_.lanes > 0;
  length_ = fixed ? std::max<std::int64_t>(minibatch / plan.accumulated, 1) : truncation_.length;
  lanes_.assign(static_cast<std::size_t>(fixed ? truncation_.lanes * plan.accumulated
                                               : std::max<std::int64_t>(1, minibatch / length_)),
                {});
  const OrderCursor::EpochRange epoch = cursor_.epoch(plan);
  cursor_.seek(epoch.begin);
  epoch_end_ = epoch.end;
  done_ = 0;
  // The contents of lanes within an epoch are found by walking there; no data are read.
  for (LaneStep step; done_ < plan.start && next(step);) {
  }
  minibatches_ = 0;
}

void LaneWalker::fill(Lane& lane) {
  while (lane.left < length_ && cursor_.position() < epoch_end_ && !cursor_.at_sweep_end()) {
    const std::uint32_t sequence = cursor_.take();
    const std::int64_t samples = cursor_.index().samples_of(sequence);
    lane.running.push_back({sequence, 0, samples});
    lane.left += samples;
  }
}

void LaneWalker::cut(Lane& lane, std::size_t number, LaneStep& step) {
  const auto ranks = static_cast<std::size_t>(plan_.ranks);
  const bool mine = number % ranks == static_cast<std::size_t>(plan_.rank);
  std::int64_t capacity = std::min(length_, lane.left), position = step.position + step.global_samples;
  step.global_samples += capacity;
  lane.left -= capacity;
  while (capacity > 0) {
    Running& r = lane.running.front();
    const std::int64_t steps = std::min(capacity, r.samples - r.done);
    const bool ends = r.done + steps == r.samples;
    if (mine)
      step.mine.push_back(
          {r.sequence, r.done, r.done + steps, static_cast<std::int32_t>(number / ranks), ends, position});
    r.done += steps;
    position += steps;
    capacity -= steps;
    if (ends) lane.running.pop_front();
  }
}

bool LaneWalker::next(LaneStep& step) {
  step.mine.clear();
  step.global_samples = 0;
  step.position = done_;
  if (done_ >= plan_.end) return false;
  if (std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& l) { return l.left == 0; })) {
    if (cursor_.position() >= epoch_end_) return false;
    if (cursor_.at_sweep_end()) cursor_.next_sweep();
  }
  step.sweep = cursor_.sweep();
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    fill(lanes_[l]);
    cut(lanes_[l], l, step);
  }
  // As in the original, the block is as wide and as long as it may be, however much of it is used.
  step.global_columns = static_cast<std::int64_t>(lanes_.size()) * length_;
  const std::int64_t lanes = static_cast<std::int64_t>(lanes_.size());
  step.columns = plan_.rank >= 0 ? (lanes + plan_.ranks - 1 - plan_.rank) / plan_.ranks * length_ : 0;
  done_ += step.global_samples;
  step.minibatch = minibatches_++;
  return true;
}

}  // namespace tutti::reader

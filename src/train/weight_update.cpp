// SPDX-License-Identifier: Apache-2.0
#include "train/weight_update.h"

namespace tutti {

void WeightUpdate::begin_step(bool hold) {
  begun_ = skipped_ = false;
  holds_ = hold;
  held_.clear();
}

void WeightUpdate::apply_held() {
  holds_ = false;
  on_reduced(held_, held_columns_);
  held_.clear();
}

void WeightUpdate::on_reduced(std::span<const std::size_t> chunks, std::int64_t columns) {
  if (holds_) {
    held_.insert(held_.end(), chunks.begin(), chunks.end());
    held_columns_ = columns;
  } else if (updates_ && !skipped_ && columns > 0) {
    const auto start = Clock::now();
    begin(columns);
    chunks.size() == 1 ? optimizer_.update(chunks[0]) : optimizer_.update_all(chunks);
    seconds_ += seconds_since(start);
  }
  weights_.poll();
}

Summed WeightUpdate::summed(std::int64_t columns) const {
  if (skipped_) return Summed::nothing;
  const Summed wanted = optimizer_.summed();
  return wanted == Summed::gradients || (updates_ && columns > 0) ? wanted : Summed::nothing;
}

void WeightUpdate::contribute(std::size_t chunk, std::int64_t columns, int ranks) {
  const auto start = Clock::now();
  begin(columns);
  optimizer_.contribute(chunk, ranks);
  seconds_ += seconds_since(start);
}

void WeightUpdate::begin(std::int64_t columns) {
  if (!std::exchange(begun_, true)) optimizer_.begin_step({rates_.learning_rate, rates_.momentum_per_sample, columns});
}

}  // namespace tutti

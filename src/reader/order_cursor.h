// SPDX-License-Identifier: Apache-2.0
// order_cursor.h -- a place in the endless sequence of sweeps: which sequence comes next, and how many samples lie
// before it since the first sweep.
#pragma once

#include "reader/sweep_order.h"
#include "tutti/reader.h"

namespace tutti::reader {

class OrderCursor {
 public:
  OrderCursor(const SequenceIndex& index, Randomization randomization) : index_(index), order_(index, randomization) {}

  const SequenceIndex& index() const { return index_; }
  // Goes to the first sequence that starts at or after `position`.
  void seek(std::int64_t position);
  std::int64_t position() const { return position_; }
  std::int64_t sweep() const { return sweep_; }
  std::uint32_t place() const { return place_; }  // in the sweep
  bool at_sweep_end() const { return place_ == index_.sequences(); }
  void next_sweep();
  std::uint32_t peek() const { return order_[place_]; }
  std::uint32_t take();

  struct EpochRange {
    std::int64_t begin = 0, end = 0;
  };
  // The positions that an epoch covers: of its first sample and of the first one behind it.
  EpochRange epoch(const EpochPlan&) const;

 private:
  const SequenceIndex& index_;
  SweepOrder order_;
  std::int64_t sweep_ = 0;
  std::uint32_t place_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace tutti::reader

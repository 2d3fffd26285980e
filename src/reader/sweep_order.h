// SPDX-License-Identifier: Apache-2.0
// sweep_order.h -- which sequence comes at which place of which pass over the data ("sweep"): a pure function of
// (seed, sweep, place), the same on every rank.
#pragma once

#include <cstdint>
#include <vector>

#include "reader/sequence_index.h"
#include "tutti/reader.h"

namespace tutti::reader {

struct Randomization {
  bool shuffle = true;
  std::int64_t window = 0;  // samples; 0 = the whole data set
  std::uint64_t seed = 0;   // 0 = the original's order
};

class SweepOrder {
 public:
  SweepOrder(const SequenceIndex&, Randomization);
  void set_sweep(std::int64_t sweep);
  // The sequence at place i of the sweep.
  std::uint32_t operator[](std::uint32_t i) const { return randomization_.shuffle ? order_[i] : i; }

 private:
  struct Placed {  // a chunk in randomised order
    SequenceIndex::Chunk chunk;
    std::uint32_t first_place = 0;  // in sequences
    std::int64_t first_sample = 0;
    std::size_t window_begin = 0, window_end = 0;  // in placed chunks
  };
  void place_chunks(std::uint64_t seed);
  void find_windows();
  void shuffle_everything(std::uint64_t seed);
  void shuffle_in_windows(std::uint64_t seed);

  const SequenceIndex& index_;
  Randomization randomization_;
  std::int64_t sweep_ = -1;
  std::vector<Placed> placed_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> home_;  // the placed chunk that the sequence now at a place came from
};

// A place in the endless sequence of sweeps: which sequence comes next, and how many samples lie before it since the
// first sweep.
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

// SPDX-License-Identifier: Apache-2.0
// sweep_order.h -- which sequence comes at which place of which pass over the data ("sweep"): a pure function of
// (seed, sweep, place), the same on every rank.
#pragma once

#include <cstdint>
#include <vector>

#include "reader/sequence_index.h"

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

}  // namespace tutti::reader

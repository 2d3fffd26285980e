// SPDX-License-Identifier: Apache-2.0
// lane_walker.h -- minibatches for truncated back-propagation: a fixed number of lanes, each a queue of whole
// sequences, of which every minibatch takes the next segment. Lanes do not depend on the number of ranks; lane l
// belongs to rank l mod ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "reader/sweep_order.h"

namespace tutti::reader {

struct Truncation {
  std::int64_t length = 0;  // steps of a lane per minibatch; 0 = sequences come whole
  std::int64_t lanes = 0;   // 0 = as many as the minibatch size has capacity for
};

// Steps [begin, end) of a sequence.
struct Segment {
  std::uint32_t sequence = 0;
  std::int64_t begin = 0, end = 0;
  std::int32_t lane = 0;      // of this rank, from 0
  bool ends = false;          // nothing of the sequence comes after
  std::int64_t position = 0;  // samples of the epoch before it, minibatch by minibatch and lane by lane
};

struct LaneStep {
  std::vector<Segment> mine;  // lane by lane
  std::int64_t global_samples = 0;
  std::int64_t columns = 0, global_columns = 0;  // of this rank, of all
  std::int64_t position = 0, minibatch = 0;
  std::int64_t sweep = 0;
};

class LaneWalker {
 public:
  LaneWalker(const SequenceIndex& index, Randomization randomization, Truncation truncation)
      : cursor_(index, randomization), truncation_(truncation) {}
  void start(const EpochPlan&);
  bool next(LaneStep&);  // false at the end of the epoch

 private:
  struct Running {
    std::uint32_t sequence = 0;
    std::int64_t done = 0, samples = 0;
  };
  struct Lane {
    std::deque<Running> running;  // the first one is perhaps begun
    std::int64_t left = 0;        // steps of all of them that are still to come
  };
  void fill(Lane&);
  void cut(Lane&, std::size_t number, LaneStep&);

  OrderCursor cursor_;
  Truncation truncation_;
  EpochPlan plan_;
  std::int64_t length_ = 0;
  std::vector<Lane> lanes_;
  std::int64_t epoch_end_ = 0, done_ = 0, minibatches_ = 0;
};

}  // namespace tutti::reader

// SPDX-License-Identifier: Apache-2.0
// fragments.h -- exchanges weights in fragments, one after the other during a block, while training continues
// (Douillard et al., "Streaming DiLoCo with overlapping communication", 2025). Used by BlockExchange.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/all_reduce.h"
#include "parallel/local_sgd/block_rules.h"

namespace tutti {

struct StreamSettings {
  std::int64_t fragments = 1;
  std::int64_t overlap = 0;  // minibatches between an offer and the use of its result
  double mixing = -1;  // share of the rank's own weights in the result; below 0: add what the rank learned meanwhile
  bool streams() const { return fragments > 1 || overlap > 0; }
};

class FragmentStream {
 public:
  // All arguments must outlive the stream. `block_size` counts samples of all ranks.
  FragmentStream(const StreamSettings&, std::int64_t block_size, AllReduce&, BlockRule&, Parameters& live,
                 Parameters& block);

  std::size_t fragments() const { return fragments_.size(); }
  void advance();                  // makes progress on messages
  bool step(const BlockSamples&);  // call after a minibatch; returns whether the result of an exchange was applied
  // Of a rank alone, whose exchanges change nothing. A result of a run with more ranks may be in flight.
  bool step_alone(const BlockSamples&);
  void restart_alone();                         // applies it, and begins a block: the weights are the common ones
  bool acts_after(std::int64_t samples) const;  // whether step() with that many samples would offer or apply weights
  void drain();                                 // waits for messages; results are still applied when they are due
  void finish();                                // waits for messages and applies the results now
  void exchange_all();                          // exchanges every fragment and waits; starts a new block
  void archive(Archive&);                       // of this rank
  void archive_common(Archive&);
  void sum_samples(Communicator&);  // call after loading: the number of ranks may have changed. Collective
  // The host has changed own weights, and nothing is in flight on a device.
  void moved(const float* before);
  double take_seconds();  // spent in here, without advance()

 private:
  struct Fragment {
    std::size_t first_bucket = 0, end_bucket = 0;
    BlockSamples since;  // since its last offer
  };
  static constexpr std::int64_t kNone = -1;

  void count(const BlockSamples&);
  bool take_when_due();
  void begin(std::size_t fragment);
  bool due(std::int64_t more = 0) const;
  template <class Body>
  void for_chunks(std::size_t fragment, const Body&) const;

  const StreamSettings settings_;
  const std::int64_t block_size_;
  AllReduce& all_reduce_;
  BlockRule& rule_;
  Parameters& live_;
  Parameters& block_;
  const WeightKernels& kernels_;
  std::vector<Fragment> fragments_;
  FloatBuffer offered_;  // own weights at the offer in flight; only with overlap
  std::int64_t position_ = 0, next_ = 0;
  std::int64_t in_flight_ = kNone, waited_ = 0;  // the fragment, and the minibatches since its offer
  bool arrived_ = false;                         // its sums are in block_.gradients
  double seconds_ = 0;
};

}  // namespace tutti

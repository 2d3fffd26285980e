// SPDX-License-Identifier: Apache-2.0
// fragments.h -- weights exchanged in fragments, one after the other in the course of a block, while training
// goes on (Douillard et al., "Streaming DiLoCo with overlapping communication", 2025). Used by BlockSteps.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/all_reduce.h"
#include "parallel/local_sgd/block_rules.h"

namespace tutti {

struct StreamSettings {
  std::int64_t fragments = 1;
  std::int64_t overlap = 0;  // minibatches between an offer and the use of its result
  double mixing = -1;        // share of the rank's weights in the result; below 0: what was learned meanwhile is added
  bool streams() const { return fragments > 1 || overlap > 0; }
};

class FragmentStream {
 public:
  // All outlive the stream. `block_size` counts samples of all ranks.
  FragmentStream(const StreamSettings&, std::int64_t block_size, AllReduce&, BlockRule&, Parameters& live,
                 Parameters& block);

  std::size_t fragments() const { return fragments_.size(); }
  void advance();                               // drives messages
  bool step(const BlockSamples&);               // after a minibatch; whether the result of an exchange was taken
  bool acts_after(std::int64_t samples) const;  // whether that would offer weights or take some
  void drain();                                 // nothing is on its way; results are used when they would have been
  void finish();                                // what is in flight is used now
  void exchange_all();                          // every fragment, waiting for it; the block begins anew
  void archive(Archive&);                       // of this rank
  void archive_common(Archive&);
  // The host has moved own weights, and nothing is in flight in the queue of a device.
  void moved(const float* before);
  double take_seconds();  // spent in here, without advance()

 private:
  struct Fragment {
    std::size_t first_bucket = 0, end_bucket = 0;
    BlockSamples since;  // its last offer
  };
  static constexpr std::int64_t kNone = -1;

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
  std::int64_t in_flight_ = kNone, waited_ = 0;  // the fragment, minibatches since its offer
  bool arrived_ = false;                         // its sums stand in block_.gradients
  double seconds_ = 0;
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// order_options.h -- how any reader's sequences are ordered, and cut for truncated back-propagation.
#pragma once

#include "reader/lane_walker.h"
#include "reader/sweep_order.h"
#include "tutti/config.h"

namespace tutti::reader {

struct OrderOptions {
  bool shuffle = true;
  std::int64_t seed = 0;
  void describe(config::Fields& f) {
    f.choice("randomize", shuffle,
             {{"true", true},
              {"false", false},
              {"auto", true},
              {"none", false},
              {"yes", true},
              {"no", false},
              {"1", true},
              {"0", false}},
             "shuffle the sequences in each sweep; actions other than train keep the order of the file");
    f("randomizationSeed", seed, "seed of the shuffle; 0 = CNTK's order");
  }
  Randomization randomization(std::int64_t window = 0) const {
    return {shuffle, window, static_cast<std::uint64_t>(seed)};
  }
};

// The way of the older readers, where randomize may also be the number of samples among which is shuffled.
struct RandomizeOptions {
  std::string randomize = "auto";
  std::int64_t window = 0, seed = 0;
  void describe(config::Fields& f);
  Randomization randomization(bool training) const;
};

struct TruncationOptions {
  bool truncated = false;
  std::int64_t length = 0;
  bool needs_length = true;
  void describe(config::Fields& f) {
    f("truncated", truncated,
      "cut sequences into segments for truncated back-propagation; SGD needs truncated = true too");
    f("truncationLength", length,
      "steps per segment; a minibatch holds minibatchSize / truncationLength segments side by side");
    if (length < 0) f.problem("truncationLength", "truncationLength must not be negative", "100 steps, say");
    if (truncated && length == 0 && needs_length)
      f.problem("truncated", "truncated sequences need a truncationLength", "truncationLength = 100, say");
  }
  // Outside training sequences come whole: the same results without state to carry.
  Truncation truncation(bool training) const { return {truncated && training ? length : 0, 0}; }
};

}  // namespace tutti::reader

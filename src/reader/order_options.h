// SPDX-License-Identifier: Apache-2.0
// order_options.h -- how any reader's sequences are ordered.
#pragma once

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
             "shuffle the sequences anew in each sweep; in file order when the action does not train");
    f("randomizationSeed", seed, "another shuffling; 0 = the order of the original");
  }
  Randomization randomization(std::int64_t window = 0) const {
    return {shuffle, window, static_cast<std::uint64_t>(seed)};
  }
};

}  // namespace tutti::reader

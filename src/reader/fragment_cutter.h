// SPDX-License-Identifier: Apache-2.0
// fragment_cutter.h -- the data of the segments of a truncated minibatch: reads a sequence at its first segment and
// keeps it until its last.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "reader/lane_walker.h"
#include "reader/sequence_source.h"
#include "reader/share.h"

namespace tutti::reader {

class FragmentCutter {
 public:
  void restart() { held_.clear(); }
  void read(SequenceSource&, const std::vector<Segment>&, Share&);

 private:
  struct Held {
    std::shared_ptr<Share> from;  // several sequences that were read together
    std::size_t number = 0;       // among those
  };
  void fetch(SequenceSource&, const std::vector<Segment>&);
  void append(SequenceSource&, const Held&, const Segment&, Share&);
  std::shared_ptr<Share> spare(const SequenceSource&);

  std::unordered_map<std::uint32_t, Held> held_;
  std::vector<std::shared_ptr<Share>> pool_;
  std::vector<std::uint32_t> wanted_;
};

}  // namespace tutti::reader

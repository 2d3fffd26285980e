// SPDX-License-Identifier: Apache-2.0
// rank_transfers.h -- blocks of floats between this rank and others, for layers that several ranks compute together.
// Transfers are planned once per set of blocks, so that a step of a known size allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tutti/communicator.h"

namespace tutti::graph {

class RankTransfers {
 public:
  struct Block {
    int rank = 0;  // the other one
    bool sends = false;
    float* data = nullptr;  // not written if `sends`
    std::size_t count = 0;
    bool operator==(const Block&) const = default;
  };
  // Starts the transfers of all blocks that are not empty. All ranks pass blocks that match, with the same tag; at most
  // one is sent to each rank.
  void start(Communicator&, int tag, std::span<const Block>);
  void wait();
  void poll();
  std::int64_t values_sent() const;  // by the transfers that were started last

 private:
  struct Plan {
    std::vector<Block> blocks;
    std::vector<std::unique_ptr<Transfer>> transfers;  // receives come first
    std::size_t receives = 0;
  };
  std::vector<std::unique_ptr<Plan>> plans_;  // the one used last comes last
};

}  // namespace tutti::graph

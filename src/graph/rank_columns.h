// SPDX-License-Identifier: Apache-2.0
// rank_columns.h -- the columns of all ranks, for layers that several ranks compute together: how many each rank has,
// the numbers of their samples, and the sparse inputs of all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/rank_transfers.h"
#include "tutti/tensor_ops.h"

namespace tutti::graph {

// The columns of a sparse input that all ranks have, in rank order.
class GatheredInput {
 public:
  // `first`: by rank, the first column, and the number of all. `values`: by rank, the number of values. Collective.
  SparseView gather(Communicator&, int tag, const SparseView& mine, std::span<const std::size_t> first,
                    std::span<const std::int64_t> values);

 private:
  RankTransfers transfers_;
  std::vector<RankTransfers::Block> blocks_;
  std::vector<float> message_;  // of each rank: values per column, indices, values; 32 bits each
  std::vector<float> values_;
  std::vector<std::int32_t> indices_;
  std::vector<std::int64_t> begin_;
};

struct GatheredInputs {
  std::vector<std::int64_t> mine, all;  // columns by own axis, then the number of values by gathered input
  std::vector<std::int64_t> values;     // of one gathered input, by rank
  std::vector<GatheredInput> inputs;    // by tensor
  RankTransfers numbers;                // of samples
  std::vector<RankTransfers::Block> blocks;
};

}  // namespace tutti::graph

// SPDX-License-Identifier: Apache-2.0
// placement.h -- model parallelism: on which ranks the weights of a layer lie. The rest of the network is data
// parallel. Sources: neon's multi-GPU backend (singlenode, replica, fragment); Krizhevsky, "One weird trick for
// parallelizing convolutional neural networks" (2014); Shoeybi et al., "Megatron-LM" (2019), for pairs of column and
// row shards.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tutti/shape.h"

namespace tutti {

class Communicator;

enum class Placement {
  replicate,  // on every rank; gradients are exchanged
  shard,      // every rank holds a part and computes it for the samples of all ranks
  single      // on rank 0, which computes the layer for the samples of all ranks
};
const char* to_string(Placement);

// The ranks that share the layers of one network, and where each layer lies.
struct ModelParallel {
  Communicator* ranks = nullptr;            // null or of size 1: every layer is replicated
  std::map<std::string, Placement> layers;  // by the name of the layer's weight; others are replicated
  // With groups, each of which divides its layers: sums over the ranks, one per group, that hold the same parts.
  std::function<void(std::span<double>)> sum_over_same_parts = {};
  bool in_parts = false;  // shares larger than planned are computed in parts, as many on every rank
};

// The range [first, last) of `size` elements that rank `rank` of `ranks` holds. Sizes differ by at most one.
struct ShardRange {
  std::size_t first = 0, last = 0;
  std::size_t size() const { return last - first; }
};
constexpr ShardRange shard_range(std::size_t size, int rank, int ranks) {
  const auto r = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(ranks);
  return {size * r / n, size * (r + 1) / n};
}

// The part of a parameter that this rank holds: `range` along `axis` of `whole`. `single`: one rank holds all of it,
// rank 0 or the one that `bounds` names. `bounds`: by rank, where its range begins, and the end of the last; empty =
// ranges of about equal size.
struct ParameterShard {
  Shape whole;
  std::size_t axis = 0;
  bool single = false;
  std::vector<std::size_t> bounds = {};
  ShardRange range(int rank, int ranks) const {
    if (!bounds.empty()) return {bounds[static_cast<std::size_t>(rank)], bounds[static_cast<std::size_t>(rank) + 1]};
    if (single) return {0, rank == 0 ? whole[axis] : 0};
    return shard_range(whole[axis], rank, ranks);
  }
  Shape part(int rank, int ranks) const;
};

// Copies between a whole parameter and the part of it that a rank holds.
void take_part(const ParameterShard&, int rank, int ranks, std::span<const float> whole, std::span<float> part);
void put_part(const ParameterShard&, int rank, int ranks, std::span<const float> part, std::span<float> whole);

}  // namespace tutti

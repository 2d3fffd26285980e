// SPDX-License-Identifier: Apache-2.0
// shard_plan.h -- which rank owns which columns. The columns of every chunk are divided among the ranks, and
// neighbouring small chunks share one message per destination. Results do not depend on the plan, because each column
// is encoded on its own.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/codec.h"
#include "tutti/parameters.h"

namespace tutti {

// The columns of one chunk that one rank owns.
struct Shard {
  std::size_t first = 0, columns = 0;  // relative to the chunk
  std::size_t bytes_before = 0;        // in the owner's section of the bucket
};

// A run of chunks, in the order of their announcement, whose shards are exchanged together.
struct Bucket {
  std::size_t first_chunk = 0, end_chunk = 0;
  bool sparse = false;                     // one chunk with an exchange of its own; no shards
  std::vector<std::size_t> section_begin;  // by owner, in the encoded bytes of the bucket, plus the end
  std::vector<std::size_t> section_values;

  std::size_t section_bytes(int owner) const {
    const auto at = static_cast<std::size_t>(owner);
    return section_begin[at + 1] - section_begin[at];
  }
};

struct ShardPlan {
  int ranks = 1;
  std::vector<Bucket> buckets;
  std::vector<std::size_t> bucket_of;  // chunk -> bucket
  std::vector<Shard> shards;           // [chunk * ranks + owner]

  const Shard& shard(std::size_t chunk, int owner) const {
    return shards[chunk * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(owner)];
  }
};

// The least number of values in a bucket that the program uses: `wanted`, or as many as are worth a message of their
// own (`wanted` = 0), and more if there would be too many buckets.
std::size_t bucket_values(std::size_t all_values, std::size_t wanted);

// Buckets have at least `bucket_values` values, unless fewer remain. Every rank makes the same plan.
ShardPlan plan_shards(const Parameters&, const Codec&, int ranks, std::size_t bucket_values);

}  // namespace tutti

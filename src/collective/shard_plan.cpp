// SPDX-License-Identifier: Apache-2.0
#include "collective/shard_plan.h"

#include <algorithm>

namespace tutti {
namespace {

// Buckets below this size are not worth a message of their own.
constexpr std::size_t kGroupValues = 65536;
// Two tags per bucket; the rest of the range is for others.
constexpr std::size_t kMostGroups = 16000;

void add_shards(ShardPlan& plan, std::size_t chunk, std::size_t columns) {
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  std::size_t first = 0;
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    // The remaining columns rotate over the ranks from chunk to chunk, so that not all biases belong to rank 0.
    const bool extra = (owner + ranks - chunk % ranks) % ranks < columns % ranks;
    const std::size_t n = columns / ranks + (extra ? 1 : 0);
    plan.shards.push_back({first, n, 0});
    first += n;
  }
}

void lay_out(ShardPlan& plan, Bucket& bucket, const Parameters& parameters, const Codec& codec) {
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  bucket.section_begin.assign(ranks + 1, 0);
  bucket.section_values.assign(ranks, 0);
  if (bucket.sparse) return;
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    std::size_t bytes = 0;
    for (std::size_t p = bucket.first_chunk; p < bucket.end_chunk; ++p) {
      Shard& shard = plan.shards[p * ranks + owner];
      const std::size_t rows = parameters.slices[parameters.chunks[p].slice].rows;
      shard.bytes_before = bytes;
      bytes += codec.bytes(rows, shard.columns);
      bucket.section_values[owner] += rows * shard.columns;
    }
    bucket.section_begin[owner + 1] = bucket.section_begin[owner] + bytes;
  }
}

}  // namespace

std::size_t bucket_values(std::size_t all_values, std::size_t wanted) {
  return std::max(wanted > 0 ? std::min(wanted, kGroupValues) : kGroupValues, all_values / kMostGroups);
}

ShardPlan plan_shards(const Parameters& parameters, const Codec& codec, int ranks, std::size_t bucket_values) {
  ShardPlan plan;
  plan.ranks = ranks;
  plan.bucket_of.resize(parameters.chunks.size());
  std::size_t values = 0;
  for (std::size_t p = 0; p < parameters.chunks.size(); ++p) {
    add_shards(plan, p, parameters.chunks[p].columns);
    const bool sparse = parameters.slices[parameters.chunks[p].slice].sparse_gradient;
    if (plan.buckets.empty() || values >= bucket_values || sparse || plan.buckets.back().sparse) {
      plan.buckets.push_back({p, p, sparse, {}, {}});
      values = 0;
    }
    values += parameters.count(parameters.chunks[p]);
    plan.buckets.back().end_chunk = p + 1;
  }
  if (plan.buckets.size() > 1 && values < bucket_values && !plan.buckets.back().sparse &&
      !plan.buckets[plan.buckets.size() - 2].sparse) {  // the rest goes with the bucket before it
    plan.buckets[plan.buckets.size() - 2].end_chunk = plan.buckets.back().end_chunk;
    plan.buckets.pop_back();
  }
  for (std::size_t g = 0; g < plan.buckets.size(); ++g) {
    lay_out(plan, plan.buckets[g], parameters, codec);
    for (std::size_t p = plan.buckets[g].first_chunk; p < plan.buckets[g].end_chunk; ++p) plan.bucket_of[p] = g;
  }
  return plan;
}

}  // namespace tutti

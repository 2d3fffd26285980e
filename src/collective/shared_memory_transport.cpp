// SPDX-License-Identifier: Apache-2.0
#include "collective/shared_memory_transport.h"

#include <fmt/format.h>

#include "tutti/error.h"

namespace tutti {
namespace {

// Bytes of different ranks never share a cache line.
std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

SharedMemoryTransport::SharedMemoryTransport(Communicator& comm, const ShardPlan& plan, const Codec&)
    : plan_(plan), me_(comm.rank()), ranks_(comm.size()), buckets_(plan.buckets.size()) {
  std::size_t versions = buckets_.size() * sizeof(Counters);
  for (std::size_t g = 0; g < buckets_.size(); ++g) {
    buckets_[g].versions = versions;
    versions += whole_lines(plan.buckets[g].section_begin.back());
  }
  std::size_t mine = 0;
  for (int owner = 0; owner < ranks_; ++owner) {
    std::size_t at = versions;
    for (std::size_t g = 0; g < buckets_.size(); ++g) {
      buckets_[g].sum.push_back(at);
      at += whole_lines(plan.buckets[g].section_bytes(owner));
    }
    if (owner == me_) mine = at;
  }
  memory_ = comm.share_memory(mine);
  if (!memory_)
    throw Error(
        fmt::format("{} ranks of this host could not share {} MB of memory for their exchange. fix: transport = "
                    "shards in ParallelTrain",
                    ranks_, mine * static_cast<std::size_t>(ranks_) >> 20));
}

std::byte* SharedMemoryTransport::version_for(std::size_t g, int owner) {
  return part(me_) + buckets_[g].versions + plan_.buckets[g].section_begin[static_cast<std::size_t>(owner)];
}

const std::byte* SharedMemoryTransport::version_of(std::size_t g, int rank) const {
  return part(rank) + buckets_[g].versions + plan_.buckets[g].section_begin[static_cast<std::size_t>(me_)];
}

void SharedMemoryTransport::offer(std::size_t g) {
  BucketState& bucket = buckets_[g];
  bucket.seen_offered = bucket.seen_published = 0;
  counters(g, me_).offered.raise_to(++bucket.round);
}

bool SharedMemoryTransport::offered(std::size_t g) {
  BucketState& bucket = buckets_[g];
  while (bucket.seen_offered < ranks_ && counters(g, bucket.seen_offered).offered.reached(bucket.round))
    ++bucket.seen_offered;
  return bucket.seen_offered == ranks_;
}

void SharedMemoryTransport::publish(std::size_t g) { counters(g, me_).published.raise_to(buckets_[g].round); }

bool SharedMemoryTransport::published(std::size_t g) {
  BucketState& bucket = buckets_[g];
  while (bucket.seen_published < ranks_ && counters(g, bucket.seen_published).published.reached(bucket.round))
    ++bucket.seen_published;
  return bucket.seen_published == ranks_;
}

}  // namespace tutti

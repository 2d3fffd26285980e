// SPDX-License-Identifier: Apache-2.0
// shared_memory_transport.h -- exchanges shards through memory shared by all ranks: owners read the versions of all
// ranks in place, and all ranks read the sums in place. Counters replace messages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective/transport.h"
#include "tutti/shared_memory.h"

namespace tutti {

// No memory is written while another rank reads it. A rank rewrites its versions only after all owners have published
// the sums made from them. An owner rewrites a sum only after all ranks have offered again, which they do after reading
// the last sums.
class SharedMemoryTransport : public ShardTransport {
 public:
  // Collective. Plan and communicator must outlive it.
  SharedMemoryTransport(Communicator&, const ShardPlan&, const Codec&);

  std::byte* version_for(std::size_t bucket, int owner) override;
  const std::byte* version_of(std::size_t bucket, int rank) const override;
  std::byte* sum(std::size_t bucket) override { return place_of_sum(bucket, me_); }
  const std::byte* sum_of(std::size_t bucket, int owner) const override { return place_of_sum(bucket, owner); }
  void arm(std::size_t) override {}
  void offer(std::size_t bucket) override;
  bool offered(std::size_t bucket) override;
  void publish(std::size_t bucket) override;
  bool published(std::size_t bucket) override;
  void flush(std::size_t) override {}
  void poll() override { memory_->poll(); }

 private:
  // The header of each rank's part.
  struct Counters {
    SharedCounter offered, published;
  };
  struct BucketState {
    std::uint64_t round = 0;                   // number of exchanges so far
    int seen_offered = 0, seen_published = 0;  // ranks known to have arrived in this round
    std::size_t versions = 0;                  // offset of the versions in the part of each rank
    std::vector<std::size_t> sum;              // by owner: offset of its sum in its part
  };
  std::byte* part(int rank) const { return memory_->of(rank).data(); }
  std::byte* place_of_sum(std::size_t bucket, int owner) const {
    return part(owner) + buckets_[bucket].sum[static_cast<std::size_t>(owner)];
  }
  Counters& counters(std::size_t bucket, int rank) { return reinterpret_cast<Counters*>(part(rank))[bucket]; }

  const ShardPlan& plan_;
  const int me_, ranks_;
  std::vector<BucketState> buckets_;
  std::unique_ptr<SharedMemory> memory_;
};

}  // namespace tutti

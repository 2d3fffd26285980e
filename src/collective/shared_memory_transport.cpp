// SPDX-License-Identifier: Apache-2.0
// Exchanges shards through memory shared by all ranks: owners read the versions of all ranks in place, and all ranks
// read the sums in place. Counters replace messages.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "collective/transport.h"
#include "tutti/error.h"
#include "tutti/shared_memory.h"

namespace tutti {
namespace {

// Bytes of different ranks never share a cache line.
std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// No memory is written while another rank reads it. A rank rewrites its versions only after all owners have published
// the sums made from them. An owner rewrites a sum only after all ranks have offered again, which they do after reading
// the last sums.
class SharedMemoryTransport final : public ShardTransport {
 public:
  SharedMemoryTransport(Communicator& comm, const ShardPlan& plan)
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
                      "messages in ParallelTrain",
                      ranks_, mine * static_cast<std::size_t>(ranks_) >> 20));
  }

  std::byte* version_for(std::size_t g, int owner) override { return version(g, me_, owner); }
  const std::byte* version_of(std::size_t g, int rank) const override { return version(g, rank, me_); }
  std::byte* sum(std::size_t g) override { return place_of_sum(g, me_); }
  const std::byte* sum_of(std::size_t g, int owner) const override { return place_of_sum(g, owner); }

  void arm(std::size_t) override {}
  void offer(std::size_t g) override {
    BucketState& bucket = buckets_[g];
    bucket.seen_offered = bucket.seen_published = 0;
    counters(g, me_).offered.raise_to(++bucket.round);
  }
  bool offered(std::size_t g) override { return all_reached(g, buckets_[g].seen_offered, &Counters::offered); }
  void publish(std::size_t g) override { counters(g, me_).published.raise_to(buckets_[g].round); }
  bool published(std::size_t g) override { return all_reached(g, buckets_[g].seen_published, &Counters::published); }
  int awaited(std::size_t g) const override {
    const BucketState& bucket = buckets_[g];
    const int seen = bucket.seen_offered < ranks_ ? bucket.seen_offered : bucket.seen_published;
    return seen < ranks_ ? seen : -1;
  }
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
  std::byte* version(std::size_t g, int rank, int owner) const {
    return part(rank) + buckets_[g].versions + plan_.buckets[g].section_begin[static_cast<std::size_t>(owner)];
  }
  std::byte* place_of_sum(std::size_t g, int owner) const {
    return part(owner) + buckets_[g].sum[static_cast<std::size_t>(owner)];
  }
  Counters& counters(std::size_t g, int rank) { return reinterpret_cast<Counters*>(part(rank))[g]; }
  bool all_reached(std::size_t g, int& seen, SharedCounter Counters::*counter) {
    while (seen < ranks_ && (counters(g, seen).*counter).reached(buckets_[g].round)) ++seen;
    return seen == ranks_;
  }

  const ShardPlan& plan_;
  const int me_, ranks_;
  std::vector<BucketState> buckets_;
  std::unique_ptr<SharedMemory> memory_;
};

}  // namespace

std::unique_ptr<ShardTransport> make_shared_memory_transport(Communicator& comm, const ShardPlan& plan, const Codec&) {
  return std::make_unique<SharedMemoryTransport>(comm, plan);
}

}  // namespace tutti

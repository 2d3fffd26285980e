// SPDX-License-Identifier: Apache-2.0
// Exchanges shards as messages: each version to its owner, each sum to all. With a single rank, its version is the sum
// and nothing is sent.
#include <memory>
#include <utility>
#include <vector>

#include "collective/transport.h"

namespace tutti {
namespace {

using Transfers = std::vector<std::unique_ptr<Transfer>>;

void start_all(Transfers& transfers) {
  for (auto& t : transfers) t->start();
}

bool all_done(Transfers& transfers) {
  bool done = true;
  for (auto& t : transfers) done = t->done() && done;  // each look moves a message on
  return done;
}

// Uses tags 2g and 2g + 1 for bucket g.
class MessageTransport final : public ShardTransport {
 public:
  MessageTransport(Communicator& comm, const ShardPlan& plan, const Codec& codec)
      : plan_(plan), me_(comm.rank()), ranks_(comm.size()), buckets_(plan.buckets.size()) {
    for (std::size_t g = 0; g < buckets_.size(); ++g) {
      if (plan.buckets[g].sparse) continue;
      BucketState& bucket = buckets_[g];
      bucket.own = MessageBytes(plan.buckets[g].section_begin.back(), codec);
      bucket.sums = MessageBytes(plan.buckets[g].section_begin.back(), codec);
      if (ranks_ == 1) continue;
      bucket.others = MessageBytes(plan.buckets[g].section_bytes(me_) * static_cast<std::size_t>(ranks_), codec);
      plan_messages(comm, g);
    }
  }

  std::byte* version_for(std::size_t g, int owner) override { return buckets_[g].own.data() + section(g, owner); }
  const std::byte* version_of(std::size_t g, int rank) const override {
    if (rank == me_) return buckets_[g].own.data() + section(g, me_);
    return buckets_[g].others.data() + plan_.buckets[g].section_bytes(me_) * static_cast<std::size_t>(rank);
  }
  std::byte* sum(std::size_t g) override { return buckets_[g].sums.data() + section(g, me_); }
  const std::byte* sum_of(std::size_t g, int owner) const override {
    return buckets_[g].sums.data() + section(g, owner);
  }

  void arm(std::size_t g) override {
    flush(g);
    start_all(buckets_[g].receive_others);
  }
  void offer(std::size_t g) override {
    BucketState& bucket = buckets_[g];
    if (ranks_ == 1) return std::swap(bucket.own, bucket.sums);  // until the next offer, while own is filled anew
    // No sum can arrive before our part has been sent, and the previous contents of this memory have been decoded.
    start_all(bucket.receive_sums);
    start_in_turn(bucket.send_own);
  }
  bool offered(std::size_t g) override { return all_done(buckets_[g].receive_others); }
  void publish(std::size_t g) override { start_in_turn(buckets_[g].send_sums); }
  bool published(std::size_t g) override { return all_done(buckets_[g].receive_sums); }
  int awaited(std::size_t g) const override {
    const BucketState& bucket = buckets_[g];
    for (std::size_t i = 0; i < bucket.receive_others.size(); ++i)
      if (!bucket.receive_others[i]->complete()) return (me_ + ranks_ - 1 - static_cast<int>(i)) % ranks_;
    for (std::size_t i = 0; i < bucket.receive_sums.size(); ++i)
      if (!bucket.receive_sums[i]->complete()) return bucket.sums_from[i];
    return -1;
  }
  void flush(std::size_t g) override {
    for (auto* sends : {&buckets_[g].send_own, &buckets_[g].send_sums})
      for (auto& t : *sends) t->wait();
  }

 private:
  struct BucketState {
    MessageBytes own;     // this rank's version, a section per owner
    MessageBytes others;  // the other ranks' versions of this rank's section, a slot per rank
    MessageBytes sums;    // a section per owner
    Transfers send_own, receive_others, send_sums, receive_sums;
    std::vector<int> sums_from;  // by receive_sums
  };

  std::size_t section(std::size_t g, int owner) const {
    return plan_.buckets[g].section_begin[static_cast<std::size_t>(owner)];
  }

  void plan_messages(Communicator& comm, std::size_t g) {
    const Bucket& plan = plan_.buckets[g];
    BucketState& bucket = buckets_[g];
    const int tag = static_cast<int>(2 * g);
    const std::size_t mine = plan.section_bytes(me_);
    const auto part = [&](MessageBytes& bytes, int owner) {
      return bytes.span().subspan(section(g, owner), plan.section_bytes(owner));
    };
    for (int step = 1; step < ranks_; ++step) {
      // Rank r starts with r + 1, so that the ranks do not all send to the same rank at once.
      const int to = (me_ + step) % ranks_, from = (me_ + ranks_ - step) % ranks_;
      if (plan.section_bytes(to) > 0) bucket.send_own.push_back(comm.plan_send(to, tag, part(bucket.own, to)));
      if (plan.section_bytes(from) > 0) {
        bucket.receive_sums.push_back(comm.plan_receive(from, tag + 1, part(bucket.sums, from)));
        bucket.sums_from.push_back(from);
      }
      if (mine > 0) {
        const auto slot = bucket.others.span().subspan(mine * static_cast<std::size_t>(from), mine);
        bucket.receive_others.push_back(comm.plan_receive(from, tag, slot));
        bucket.send_sums.push_back(comm.plan_send(to, tag + 1, part(bucket.sums, me_)));
      }
    }
  }

  const ShardPlan& plan_;
  const int me_, ranks_;
  std::vector<BucketState> buckets_;
};

}  // namespace

std::unique_ptr<ShardTransport> make_message_transport(Communicator& comm, const ShardPlan& plan, const Codec& codec) {
  return std::make_unique<MessageTransport>(comm, plan, codec);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "collective/message_transport.h"

#include <utility>

namespace tutti {
namespace {

void start_all(std::vector<std::unique_ptr<Transfer>>& transfers) {
  for (auto& t : transfers) t->start();
}

bool all_done(std::vector<std::unique_ptr<Transfer>>& transfers) {
  bool done = true;
  for (auto& t : transfers) done = t->done() && done;  // each look moves a message on
  return done;
}

}  // namespace

MessageTransport::MessageTransport(Communicator& comm, const ShardPlan& plan, const Codec& codec)
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

void MessageTransport::plan_messages(Communicator& comm, std::size_t g) {
  const Bucket& plan = plan_.buckets[g];
  BucketState& bucket = buckets_[g];
  const int tag = static_cast<int>(2 * g);
  const std::size_t mine = plan.section_bytes(me_);
  const auto section = [&](MessageBytes& bytes, int owner) {
    return bytes.span().subspan(plan.section_begin[static_cast<std::size_t>(owner)], plan.section_bytes(owner));
  };
  for (int step = 1; step < ranks_; ++step) {
    // Rank r starts with r + 1, so that the ranks do not all send to the same rank at once.
    const int to = (me_ + step) % ranks_, from = (me_ + ranks_ - step) % ranks_;
    if (plan.section_bytes(to) > 0) bucket.send_own.push_back(comm.plan_send(to, tag, section(bucket.own, to)));
    if (plan.section_bytes(from) > 0)
      bucket.receive_sums.push_back(comm.plan_receive(from, tag + 1, section(bucket.sums, from)));
    if (mine > 0) {
      const auto slot = bucket.others.span().subspan(mine * static_cast<std::size_t>(from), mine);
      bucket.receive_others.push_back(comm.plan_receive(from, tag, slot));
      bucket.send_sums.push_back(comm.plan_send(to, tag + 1, section(bucket.sums, me_)));
    }
  }
}

std::byte* MessageTransport::version_for(std::size_t g, int owner) {
  return buckets_[g].own.data() + plan_.buckets[g].section_begin[static_cast<std::size_t>(owner)];
}

const std::byte* MessageTransport::version_of(std::size_t g, int rank) const {
  const Bucket& plan = plan_.buckets[g];
  if (rank == me_) return buckets_[g].own.data() + plan.section_begin[static_cast<std::size_t>(me_)];
  return buckets_[g].others.data() + plan.section_bytes(me_) * static_cast<std::size_t>(rank);
}

std::byte* MessageTransport::sum(std::size_t g) {
  return buckets_[g].sums.data() + plan_.buckets[g].section_begin[static_cast<std::size_t>(me_)];
}

const std::byte* MessageTransport::sum_of(std::size_t g, int owner) const {
  return buckets_[g].sums.data() + plan_.buckets[g].section_begin[static_cast<std::size_t>(owner)];
}

void MessageTransport::arm(std::size_t g) {
  flush(g);
  start_all(buckets_[g].receive_others);
}

void MessageTransport::offer(std::size_t g) {
  BucketState& bucket = buckets_[g];
  if (ranks_ == 1) return std::swap(bucket.own, bucket.sums);  // until the next offer, while own is filled anew
  // No sum can arrive before our part has been sent, and the previous contents of this memory have been decoded.
  start_all(bucket.receive_sums);
  start_all(bucket.send_own);
}

bool MessageTransport::offered(std::size_t g) { return all_done(buckets_[g].receive_others); }

void MessageTransport::publish(std::size_t g) { start_all(buckets_[g].send_sums); }

bool MessageTransport::published(std::size_t g) { return all_done(buckets_[g].receive_sums); }

void MessageTransport::flush(std::size_t g) {
  for (auto& t : buckets_[g].send_own) t->wait();
  for (auto& t : buckets_[g].send_sums) t->wait();
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "strategy/message_route.h"

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

MessageRoute::MessageRoute(Communicator& comm, const StripePlan& plan, const Codec& codec)
    : plan_(plan), me_(comm.rank()), ranks_(comm.size()), groups_(plan.groups.size()) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (plan.groups[g].sparse) continue;
    Group& group = groups_[g];
    group.own = MessageBytes(plan.groups[g].section_begin.back(), codec);
    group.sums = MessageBytes(plan.groups[g].section_begin.back(), codec);
    if (ranks_ == 1) continue;
    group.others = MessageBytes(plan.groups[g].section_bytes(me_) * static_cast<std::size_t>(ranks_), codec);
    plan_messages(comm, g);
  }
}

void MessageRoute::plan_messages(Communicator& comm, std::size_t g) {
  const StripeGroup& plan = plan_.groups[g];
  Group& group = groups_[g];
  const int tag = static_cast<int>(2 * g);
  const std::size_t mine = plan.section_bytes(me_);
  const auto section = [&](MessageBytes& bytes, int owner) {
    return bytes.span().subspan(plan.section_begin[static_cast<std::size_t>(owner)], plan.section_bytes(owner));
  };
  for (int step = 1; step < ranks_; ++step) {
    // Rank r starts with r + 1: not everybody talks to the same rank at once.
    const int to = (me_ + step) % ranks_, from = (me_ + ranks_ - step) % ranks_;
    if (plan.section_bytes(to) > 0) group.send_own.push_back(comm.plan_send(to, tag, section(group.own, to)));
    if (plan.section_bytes(from) > 0)
      group.receive_sums.push_back(comm.plan_receive(from, tag + 1, section(group.sums, from)));
    if (mine > 0) {
      const auto slot = group.others.span().subspan(mine * static_cast<std::size_t>(from), mine);
      group.receive_others.push_back(comm.plan_receive(from, tag, slot));
      group.send_sums.push_back(comm.plan_send(to, tag + 1, section(group.sums, me_)));
    }
  }
}

std::byte* MessageRoute::version_for(std::size_t g, int owner) {
  return groups_[g].own.data() + plan_.groups[g].section_begin[static_cast<std::size_t>(owner)];
}

const std::byte* MessageRoute::version_of(std::size_t g, int rank) const {
  const StripeGroup& plan = plan_.groups[g];
  if (rank == me_) return groups_[g].own.data() + plan.section_begin[static_cast<std::size_t>(me_)];
  return groups_[g].others.data() + plan.section_bytes(me_) * static_cast<std::size_t>(rank);
}

std::byte* MessageRoute::sum(std::size_t g) {
  return groups_[g].sums.data() + plan_.groups[g].section_begin[static_cast<std::size_t>(me_)];
}

const std::byte* MessageRoute::sum_of(std::size_t g, int owner) const {
  return groups_[g].sums.data() + plan_.groups[g].section_begin[static_cast<std::size_t>(owner)];
}

void MessageRoute::arm(std::size_t g) {
  flush(g);
  start_all(groups_[g].receive_others);
}

void MessageRoute::offer(std::size_t g) {
  Group& group = groups_[g];
  if (ranks_ == 1) return std::swap(group.own, group.sums);  // until the next offer, while own is filled anew
  // Nobody can know a sum before our part of it is on its way. What the sums' place held before has been decoded.
  start_all(group.receive_sums);
  start_all(group.send_own);
}

bool MessageRoute::offered(std::size_t g) { return all_done(groups_[g].receive_others); }

void MessageRoute::publish(std::size_t g) { start_all(groups_[g].send_sums); }

bool MessageRoute::published(std::size_t g) { return all_done(groups_[g].receive_sums); }

void MessageRoute::flush(std::size_t g) {
  for (auto& t : groups_[g].send_own) t->wait();
  for (auto& t : groups_[g].send_sums) t->wait();
}

}  // namespace tutti

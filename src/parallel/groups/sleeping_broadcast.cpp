// SPDX-License-Identifier: Apache-2.0
#include "parallel/groups/sleeping_broadcast.h"

#include <span>

#include "base/nap.h"

namespace tutti {

SleepingBroadcast::SleepingBroadcast(Communicator& group) : leads_(group.rank() == 0) {
  const auto bytes = std::as_writable_bytes(std::span(words_));
  if (!leads_) transfers_.push_back(group.plan_receive(0, 0, bytes));
  for (int rank = 1; leads_ && rank < group.size(); ++rank) transfers_.push_back(group.plan_send(rank, 0, bytes));
}

void SleepingBroadcast::broadcast(Words& words) {
  if (leads_) {
    words_ = words;
    for (auto& t : transfers_) t->start();
    for (auto& t : transfers_) t->wait();
    return;
  }
  transfers_[0]->start();
  for (Nap nap; !transfers_[0]->done();) nap.nothing_happened();
  words = words_;
}

}  // namespace tutti

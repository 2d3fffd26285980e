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
  if (leads_) flush(), words_ = words;
  for (auto& t : transfers_) t->start();
  if (!leads_) flush(), words = words_;
}

void SleepingBroadcast::flush() {
  for (auto& t : transfers_)
    for (Nap nap; !t->done();) nap.nothing_happened();
}

}  // namespace tutti

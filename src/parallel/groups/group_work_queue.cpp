// SPDX-License-Identifier: Apache-2.0
#include "parallel/groups/group_work_queue.h"

#include <chrono>
#include <span>
#include <utility>

#include "base/nap.h"

namespace tutti {
namespace {

// A rank that asks early, beside its work, must leave the core to that work.
void wait_for(Transfer& transfer) {
  for (Nap nap; !transfer.done();) nap.nothing_happened(std::chrono::microseconds(100));
}

}  // namespace

GroupWorkQueue::GroupWorkQueue(std::unique_ptr<Communicator> group) : group_(std::move(group)) {
  const auto bytes = std::as_writable_bytes(std::span(&number_, 1));
  if (group_->rank() > 0) transfers_.push_back(group_->plan_receive(0, 0, bytes));
  for (int r = 1; group_->rank() == 0 && r < group_->size(); ++r) transfers_.push_back(group_->plan_send(r, 0, bytes));
}

void GroupWorkQueue::start_range() {
  if (queue_) queue_->start_range();
}

// The others have taken part in the step of the previous unit, or do not need this rank for it: messages progress by
// themselves.
std::int64_t GroupWorkQueue::next() {
  if (!queue_) transfers_[0]->start();
  for (auto& t : transfers_) wait_for(*t);
  if (!queue_) return number_;
  number_ = queue_->next();
  for (auto& t : transfers_) t->start();
  return number_;
}

}  // namespace tutti

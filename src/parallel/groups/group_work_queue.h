// SPDX-License-Identifier: Apache-2.0
// group_work_queue.h -- hands out work units to groups of ranks. The group leader takes a unit and broadcasts its
// number; each rank works on its part of the unit.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "parallel/groups/sleeping_broadcast.h"
#include "tutti/work_queue.h"

namespace tutti {

class GroupWorkQueue final : public WorkQueue {
 public:
  // A communicator of the group for this queue alone, because readers may call from their own threads.
  explicit GroupWorkQueue(std::unique_ptr<Communicator> group) : group_(std::move(group)), units_(*group_) {}
  // The leader's source of units; not called on other ranks.
  void use(WorkQueue* source) { queue_ = source; }

  void start_range() override {
    if (queue_) queue_->start_range();
  }
  std::int64_t next() override {
    SleepingBroadcast::Words unit{queue_ ? queue_->next() : 0};
    units_.broadcast(unit);
    return unit[0];
  }

 private:
  std::unique_ptr<Communicator> group_;
  SleepingBroadcast units_;
  WorkQueue* queue_ = nullptr;
};

}  // namespace tutti

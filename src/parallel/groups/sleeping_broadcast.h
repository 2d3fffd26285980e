// SPDX-License-Identifier: Apache-2.0
// sleeping_broadcast.h -- a broadcast from the group leader for which the other ranks sleep instead of polling: the
// leader may wait for servers, and a server may need the core.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/work_queue.h"

namespace tutti {

class SleepingBroadcast {
 public:
  using Words = std::array<std::int64_t, 2>;
  explicit SleepingBroadcast(Communicator& group);
  // The leader does not wait until the others get here: flush() does, and the next broadcast.
  void broadcast(Words&);
  void flush();

 private:
  Words words_{};
  std::vector<std::unique_ptr<Transfer>> transfers_;  // to the others, or from the leader
  const bool leads_;
};

// Hands out work units to groups of ranks. The group leader takes a unit and broadcasts its number; each rank works on
// its part of the unit.
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

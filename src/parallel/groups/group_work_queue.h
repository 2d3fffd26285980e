// SPDX-License-Identifier: Apache-2.0
// group_work_queue.h -- hands out work units to groups of ranks. The group leader takes a unit and broadcasts its
// number; each rank works on its part of the unit.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/work_queue.h"

namespace tutti {

class GroupWorkQueue final : public WorkQueue {
 public:
  // A communicator of the group for this queue alone, because readers may call from their own threads.
  explicit GroupWorkQueue(std::unique_ptr<Communicator> group);
  // The leader's source of units; not called on other ranks.
  void use(WorkQueue* source) { queue_ = source; }
  int part() const { return group_->rank(); }
  int parts() const { return group_->size(); }

  void start_range() override;
  std::int64_t next() override;

 private:
  std::unique_ptr<Communicator> group_;
  WorkQueue* queue_ = nullptr;
  std::int64_t number_ = 0;
  std::vector<std::unique_ptr<Transfer>> transfers_;  // to all other ranks, or from the leader
};

}  // namespace tutti

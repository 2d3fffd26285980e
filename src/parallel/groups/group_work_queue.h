// SPDX-License-Identifier: Apache-2.0
// group_work_queue.h -- work units that are handed out to groups of ranks: the first rank of a group takes one for all
// of them and tells them its number; each works on its part of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/work_queue.h"

namespace tutti {

class GroupWorkQueue final : public WorkQueue {
 public:
  // Of the ranks of this group, and for nothing else: readers may ask from threads of their own.
  explicit GroupWorkQueue(std::unique_ptr<Communicator> group);
  // Where the first rank takes its units from; elsewhere it is not called.
  void use(WorkQueue* source) { queue_ = source; }
  int part() const { return group_->rank(); }
  int parts() const { return group_->size(); }

  void start_range() override;
  std::int64_t next() override;

 private:
  std::unique_ptr<Communicator> group_;
  WorkQueue* queue_ = nullptr;
  std::int64_t number_ = 0;
  std::vector<std::unique_ptr<Transfer>> transfers_;  // to all others, or from the first
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// unit_counter.h -- queues of units for ranks that are threads: one counter for all of them.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "tutti/work_queue.h"

namespace tutti {

class UnitCounter {
 public:
  std::int64_t take(std::size_t range) {
    const std::lock_guard lock(mutex_);
    if (next_.size() <= range) next_.resize(range + 1);
    return next_[range]++;
  }

 private:
  std::mutex mutex_;
  std::vector<std::int64_t> next_;  // by range
};

class CountingQueue final : public WorkQueue {
 public:
  explicit CountingQueue(UnitCounter& counter) : counter_(counter) {}
  void start_range() override { ++begun_; }
  std::int64_t next() override { return counter_.take(begun_); }

 private:
  UnitCounter& counter_;
  std::size_t begun_ = 0;
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// lot_counter.h -- dealers of lots for ranks that are threads: one counter for all of them.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "tutti/lots.h"

namespace tutti {

class LotCounter {
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

class CountingDealer final : public LotDealer {
 public:
  explicit CountingDealer(LotCounter& counter) : counter_(counter) {}
  void start_range() override { ++begun_; }
  std::int64_t next() override { return counter_.take(begun_); }

 private:
  LotCounter& counter_;
  std::size_t begun_ = 0;
};

}  // namespace tutti

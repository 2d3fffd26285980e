// SPDX-License-Identifier: Apache-2.0
// fault_injection.h -- a rank that is made to sleep or to die on purpose: how slow and lost workers are tried out.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/config.h"

namespace tutti {

struct FaultHookOptions {
  std::int64_t rank = 1;
  double sleep = 0;  // seconds
  std::int64_t every = 1, first_step = 0;
  std::int64_t steps = 0;  // how many are disturbed; 0 = all that are left
  bool exit = false;
  void describe(config::Fields& f);
  std::string text() const;  // "rank 1 sleeps 0.05 s in every step"
};

// Counts the steps of this rank, of all epochs of this process and from 0.
class FaultHook {
 public:
  FaultHook() = default;
  FaultHook(const FaultHookOptions& options, int rank) : options_(options), here_(options.rank == rank) {}
  bool due(std::int64_t step) const;
  void before_step();  // sleeps, or ends this process as if its machine had failed

 private:
  FaultHookOptions options_;
  bool here_ = false;
  std::int64_t step_ = 0;
};

}  // namespace tutti

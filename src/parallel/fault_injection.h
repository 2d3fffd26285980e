// SPDX-License-Identifier: Apache-2.0
// fault_injection.h -- makes a rank sleep or exit on purpose, to test slow and failing workers.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/config.h"

namespace tutti {

struct FaultHookOptions {
  std::int64_t rank = 1;
  double sleep = 0;  // seconds
  std::int64_t every = 1, first_step = 0;
  std::int64_t steps = 0;  // number of disturbed steps; 0 = all remaining ones
  bool exit = false;
  void describe(config::Fields& f);
  std::string text() const;  // "rank 1 sleeps 0.05 s in every step"
};

// Counts the steps of this rank from 0, over all epochs of the process.
class FaultHook {
 public:
  FaultHook() = default;
  FaultHook(const FaultHookOptions& options, int rank) : options_(options), here_(options.rank == rank) {}
  bool due(std::int64_t step) const;
  void before_step();  // sleeps, or ends the process as if its host had failed

 private:
  FaultHookOptions options_;
  bool here_ = false;
  std::int64_t step_ = 0;
};

}  // namespace tutti

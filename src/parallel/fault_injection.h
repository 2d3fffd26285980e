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
  std::string flip_weight{};  // a parameter
  bool flip_message = false;
  void describe(config::Fields& f);
  std::string text() const;  // "rank 1 sleeps 0.05 s in every step"
};

// Counts the steps of this rank from 0, over all epochs of the process.
class FaultHook {
 public:
  FaultHook() = default;
  FaultHook(const FaultHookOptions& options, int rank) : options_(options), here_(options.rank == rank) {}
  bool due(std::int64_t step) const;
  // Sleeps, or ends the process as if its host had failed. Returns what else is to be done.
  struct Disturbance {
    std::string flip_weight;  // flip a bit of this parameter
    bool flip_message = false;
  };
  Disturbance before_step();

 private:
  FaultHookOptions options_;
  bool here_ = false;
  std::int64_t step_ = 0;
};

}  // namespace tutti

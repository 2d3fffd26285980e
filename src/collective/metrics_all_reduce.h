// SPDX-License-Identifier: Apache-2.0
// metrics_all_reduce.h -- sums metrics over all ranks, in rank order and without quantisation. Nothing blocks between
// begin() and finish().
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/parameters.h"

namespace tutti {

// Zero metrics with that many evaluations.
void clear(StepMetrics&);

// The part of `all` that other ranks than `mine` have added.
StepMetrics without(StepMetrics all, const StepMetrics& mine);

class MetricsAllReduce {
 public:
  explicit MetricsAllReduce(Communicator& comm) : comm_(comm) {}
  // Never waits for another rank. Until messages are planned, ensure_sent() sends them.
  void begin(const StepMetrics&);
  void ensure_sent();
  bool pending() const { return pending_; }
  StepMetrics& finish(int except = -1);  // the sum without that rank; valid until the next finish()
  std::int64_t bytes_and_reset();

 private:
  void plan(const StepMetrics&);
  void send(const StepMetrics&);
  void write(const StepMetrics&, std::size_t rank);
  void add(std::size_t rank);

  Communicator& comm_;
  bool planned_ = false, pending_ = false;
  std::size_t evaluations_ = 0, words_ = 0;
  std::vector<std::int64_t> all_;                     // a message per rank: counts, doubles by their bits
  std::vector<std::unique_ptr<Transfer>> transfers_;  // receives first
  StepMetrics sum_;
  std::optional<StepMetrics> unsent_;
  std::int64_t bytes_ = 0;
};

// The metrics of the other ranks. Ranks without a step may have shorter lists of evaluations. Collective.
StepMetrics metrics_of_others(Communicator&, const StepMetrics& mine);

}  // namespace tutti

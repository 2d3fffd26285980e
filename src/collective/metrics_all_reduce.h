// SPDX-License-Identifier: Apache-2.0
// metrics_all_reduce.h -- sums metrics over all ranks, in rank order and without quantisation. Nothing blocks between
// begin() and finish(). If all ranks share a host, they read each other's from shared memory, else
// they send messages.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/parameters.h"
#include "tutti/shared_memory.h"

namespace tutti {

// Zero metrics with that many evaluations.
void clear(StepMetrics&);

// The part of `all` that other ranks than `mine` have added.
StepMetrics without(StepMetrics all, const StepMetrics& mine);

class MetricsAllReduce {
 public:
  // `many_steps`: worth sharing memory, which takes several rounds of messages.
  explicit MetricsAllReduce(Communicator& comm, bool many_steps = true) : comm_(comm), many_steps_(many_steps) {}
  // Never waits for another rank. Until messages are planned, ensure_sent() sends them.
  void begin(const StepMetrics&);
  void ensure_sent();
  bool pending() const { return pending_; }
  StepMetrics& finish(int except = -1);  // the sum without that rank; valid until the next finish()
  std::int64_t bytes_and_reset();

 private:
  void plan(const StepMetrics&);
  void plan_messages();
  void send(const StepMetrics&);
  void wait_for_all();
  void write(const StepMetrics&);
  void add(int rank);
  SharedCounter& written(int rank) { return *reinterpret_cast<SharedCounter*>(memory_->of(rank).data()); }
  std::int64_t* words_of(int rank);

  Communicator& comm_;
  const bool many_steps_;
  bool planned_ = false, pending_ = false;
  std::size_t evaluations_ = 0, words_ = 0;           // of a rank: counts, doubles by their bits
  std::vector<std::int64_t> all_;                     // words of each rank, in messages
  std::vector<std::unique_ptr<Transfer>> transfers_;  // receives first
  // By rank: a counter of the steps written, and words for two steps. A rank begins a step when it has the words of all
  // ranks for the step before, so it is never two steps ahead of one that still reads.
  std::unique_ptr<SharedMemory> memory_;
  std::uint64_t step_ = 0;
  StepMetrics sum_;
  std::optional<StepMetrics> unsent_;
  std::int64_t bytes_ = 0;
};

// The metrics of the other ranks. Ranks without a step may have shorter lists of evaluations. Collective.
StepMetrics metrics_of_others(Communicator&, const StepMetrics& mine);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// library_all_reduce.h -- the gradients of every minibatch summed by the MPI library in one call after backward,
// without overlap or codec: what the exchanges of this folder are compared with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "collective/metrics_all_reduce.h"
#include "comm/agreement.h"
#include "parallel/local_gradients.h"
#include "tutti/strategy.h"

namespace tutti {

class LibrarySums : public Strategy {
 public:
  // `remark` for a row about the exchange.
  LibrarySums(Communicator& comm, std::string remark) : comm_(comm), metrics_(comm), remark_(std::move(remark)) {}
  void start(Parameters&) override;
  void begin_step(std::int64_t columns, ReducedGradientSink& global) override { columns_ = columns, global_ = &global; }
  bool skips_steps_together() const override { return true; }
  bool sums_only() const override { return true; }
  bool agree(bool usable) override { return all_agree(comm_, usable); }
  void chunk_ready(std::size_t) override {}
  void finish_gradients(StepMetrics&) override;
  ExchangeStats exchange_stats_and_reset() override;
  std::string describe() const override;

 private:
  void unite_lists();

  Communicator& comm_;
  MetricsAllReduce metrics_;
  std::string remark_;
  Parameters* parameters_ = nullptr;
  std::vector<std::size_t> chunks_;  // their numbers
  std::vector<float> listed_;        // by sparse row: how many ranks list it
  ReducedGradientSink* global_ = nullptr;
  std::int64_t columns_ = 0;
  ExchangeStats stats_;
};

}  // namespace tutti

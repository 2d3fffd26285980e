// SPDX-License-Identifier: Apache-2.0
// local_gradients.h -- no exchange: a rank's own gradients are the global ones.
#pragma once

#include <limits>
#include <vector>

#include "tutti/strategy.h"

namespace tutti {

// Rank 0's weights to every rank.
void broadcast_weights(Communicator&, Parameters&);

// The numbers of all chunks, from which runs are announced together.
std::vector<std::size_t> all_chunks(const Parameters&);

class Local : public Strategy {
 public:
  explicit Local(Communicator& comm) : comm_(comm) {}
  void start(Parameters& parameters) override { broadcast_weights(comm_, parameters); }
  void begin_step(std::int64_t columns, ReducedGradientSink& global) override {
    columns_ = columns, global_ = &global;
    contributes_ = global.summed(columns) == Summed::contributions;
  }
  bool skips_steps_together() const override { return true; }
  bool sums_only() const override { return true; }
  bool follows_device() const override { return true; }  // nobody but the optimizer looks at the gradients
  void chunk_ready(std::size_t chunk) override {
    if (contributes_) global_->contribute(chunk, columns_, 1);
    global_->on_reduced(chunk, columns_);
  }
  void chunks_ready(std::span<const std::size_t> chunks) override {
    if (contributes_)
      for (const std::size_t chunk : chunks) global_->contribute(chunk, columns_, 1);
    global_->on_reduced(chunks, columns_);
  }
  bool sums_contributions() const override { return true; }
  void finish_gradients(StepMetrics&) override {}
  bool takes_deferred_metrics() const override { return true; }
  std::int64_t shares_from(std::int64_t) const override { return std::numeric_limits<std::int64_t>::max(); }
  std::string describe() const override { return "no exchange"; }

 private:
  Communicator& comm_;
  std::int64_t columns_ = 0;
  bool contributes_ = false;
  ReducedGradientSink* global_ = nullptr;
};

}  // namespace tutti

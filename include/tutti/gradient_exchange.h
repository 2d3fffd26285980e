// SPDX-License-Identifier: Apache-2.0
// gradient_exchange.h -- the first seam of a parallel method: the gradients of this rank become those of all ranks that
// make one update together. Called by src/train/step_loop.cpp.
// Every rank calls every function equally often, except where a work queue divides the data: a collective that misses a
// rank never returns.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "tutti/archive.h"
#include "tutti/exchange_stats.h"
#include "tutti/optimizer.h"
#include "tutti/parameters.h"

namespace tutti {

// Learning rate and momentum of a sample; a rate of 0 updates nothing.
struct StepRates {
  double learning_rate = 0, momentum_per_sample = 0;
};

// A step, as both seams see it.
struct StepInfo {
  std::int64_t own_samples = 0;     // of this rank
  std::int64_t samples = 0;         // of the ranks that make one update together
  std::int64_t columns = 0;         // of the same ranks, with packing gaps: the N of the update
  std::int64_t global_samples = 0;  // of all ranks
  StepRates rates;
};

// Where reduced gradients go: the optimizer's update.
class ReducedGradientSink {
 public:
  virtual ~ReducedGradientSink() = default;
  // The sum of a chunk stands in Parameters::gradients. `columns` is the N of the step it belongs to (semantics 8.3),
  // with a delayed exchange the step before.
  virtual void on_reduced(std::size_t chunk, std::int64_t columns) = 0;
  virtual void on_reduced(std::span<const std::size_t> chunks, std::int64_t columns) {
    for (const std::size_t chunk : chunks) on_reduced(chunk, columns);
  }
  // What the optimizer wants summed in this step, of so many columns. Whoever can sum contributions asks in
  // begin_step(), and calls contribute() for a chunk before it is encoded, or becomes global as it is.
  virtual Summed summed(std::int64_t columns) const {
    (void)columns;
    return Summed::gradients;
  }
  virtual void contribute(std::size_t chunk, std::int64_t columns, int ranks) {
    (void)chunk, (void)columns, (void)ranks;
  }
  virtual const float* mask() const { return nullptr; }
};

// A step: begin_step(), the network's backward pass with chunk_ready() for every chunk (GradientSink), finish_step().
class GradientExchange : public GradientSink {
 public:
  // Plans buffers and messages for every bucket, once. Weights are equal on all ranks by now.
  virtual void start(Parameters&) = 0;
  virtual void begin_epoch(std::int64_t epoch) { (void)epoch; }
  // The sink lives until the end of the step and receives each chunk as soon as its sum is there.
  virtual void begin_step(const StepInfo&, ReducedGradientSink&) = 0;
  // All chunks were announced: delivers every sum that this step still owes.
  virtual void finish_step() {}
  // Delivers what is in flight, so that nothing is any more.
  virtual void drain(ReducedGradientSink&) {}
  // Residuals and whatever else the next step depends on: this rank's part.
  virtual void archive(Archive&) {}
  // What this rank has spent since the last call; complete after drain().
  ExchangeStats exchange_stats_and_reset() { return std::exchange(stats_, {}); }

 protected:
  ExchangeStats stats_;
};

}  // namespace tutti

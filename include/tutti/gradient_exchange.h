// SPDX-License-Identifier: Apache-2.0
// gradient_exchange.h -- the gradient part of a parallel method: turns the gradients of this rank into the sum over all
// ranks that make one update together. Called by src/train/step_loop.cpp.
// Every rank must call every function equally often, except where a work queue divides the data. A collective that one
// rank does not call never returns.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "tutti/archive.h"
#include "tutti/exchange_stats.h"
#include "tutti/optimizer.h"
#include "tutti/parameters.h"

namespace tutti {

// Learning rate and momentum per sample. A rate of 0 updates nothing.
struct StepRates {
  double learning_rate = 0, momentum_per_sample = 0;
};

// One step, as the gradient and the weight exchange see it.
struct StepInfo {
  std::int64_t own_samples = 0;     // of this rank
  std::int64_t samples = 0;         // of the ranks that make one update together
  std::int64_t columns = 0;         // of the same ranks, including packing gaps: the N of the update
  std::int64_t global_samples = 0;  // of all ranks
  std::int64_t global_columns = 0;  // of all ranks, including packing gaps as one rank would pack the minibatch
  StepRates rates{};
};

// Receives reduced gradients: the optimizer's update.
class ReducedGradientSink {
 public:
  virtual ~ReducedGradientSink() = default;
  // The sum of the chunk is in Parameters::gradients. `columns` is the N of the step it belongs to, as in CNTK;
  // with a delayed exchange that is the previous step.
  virtual void on_reduced(std::size_t chunk, std::int64_t columns) = 0;
  virtual void on_reduced(std::span<const std::size_t> chunks, std::int64_t columns) {
    for (const std::size_t chunk : chunks) on_reduced(chunk, columns);
  }
  // The operand to sum in this step of `columns` columns. An exchange that can sum contributions queries it in
  // begin_step() and calls contribute() for each chunk before it encodes or delivers the chunk.
  virtual Summed summed(std::int64_t columns) const {
    (void)columns;
    return Summed::gradients;
  }
  virtual void contribute(std::size_t chunk, std::int64_t columns, int ranks) {
    (void)chunk, (void)columns, (void)ranks;
  }
  virtual const float* mask() const { return nullptr; }
};

// The calls of a step: begin_step(), then chunk_ready() for every chunk during the backward pass (GradientSink), then
// finish_step(). Only finish_step() waits for other ranks: during the backward pass another rank may be waiting for
// this one, in a layer that all ranks compute together (synchronized normalization, divided layers).
class GradientExchange : public GradientSink {
 public:
  // Plans buffers and messages for every bucket, once. Weights are equal on all ranks at this point.
  virtual void start(Parameters&) = 0;
  virtual void begin_epoch(std::int64_t epoch) { (void)epoch; }
  // The sink lives until the end of the step and receives each chunk as soon as its sum is complete.
  virtual void begin_step(const StepInfo&, ReducedGradientSink&) = 0;
  // Delivers all remaining sums of the step. All chunks have been announced.
  virtual void finish_step() {}
  // Delivers everything in flight.
  virtual void drain(ReducedGradientSink&) {}
  // The state that the next step depends on, such as residuals: the part of this rank.
  virtual void archive(Archive&) {}
  // Returns and resets the statistics of this rank; complete after drain().
  ExchangeStats exchange_stats_and_reset() { return std::exchange(stats_, {}); }

 protected:
  ExchangeStats stats_;
};

}  // namespace tutti

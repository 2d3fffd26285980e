// SPDX-License-Identifier: Apache-2.0
// gradient_reduction.h -- from the network's gradients to the update. Usually chunks go to the exchange as they become
// ready. While GradScaler adapts the scale for float16, gradients or their sums are checked first. Reduced gradients
// are applied to the weights, each chunk as soon as its sum is complete, or all chunks together after they were held.
//
// Every rank makes the blocking calls of a step in one order: the conversions of divided layers, as the network
// computes forward and backward, then what the exchange waits for in finish_step(), then the optimizer's sums over
// shards, slice by slice. During backward a sum of gradients arrives early on some ranks only, and rank 0 alone has the
// chunks of layers on a single rank. Updates that may sum over shards are therefore held until finish_step().
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/timeline.h"
#include "tutti/parallel_method.h"

namespace tutti {

struct Training;

class WeightUpdate final : public ReducedGradientSink {
 public:
  // A learning rate up to `too_small` changes no weight, as in CNTK.
  WeightUpdate(Optimizer& optimizer, WeightExchange& weights, double too_small)
      : optimizer_(optimizer), weights_(weights), too_small_(too_small) {}

  void use(const StepRates& rates) { rates_ = rates, updates_ = rates.learning_rate > too_small_; }

  // With `hold`, nothing is updated until apply_held().
  void begin_step(bool hold);
  void skip_step() { skipped_ = true; }  // updates nothing until the next step
  void apply_held();
  void apply(const WeightChange&);
  bool has_updated() const { return updated_; }  // since begin_step()

  void on_reduced(std::size_t chunk, std::int64_t columns) override { on_reduced(std::span(&chunk, 1), columns); }
  void on_reduced(std::span<const std::size_t> chunks, std::int64_t columns) override;
  Summed summed(std::int64_t columns) const override;
  void contribute(std::size_t chunk, std::int64_t columns, int ranks) override;
  const float* mask() const override { return optimizer_.mask(); }

  StepRates rates() const { return updates_ ? rates_ : StepRates{}; }
  double seconds() const { return seconds_; }

 private:
  void begin(std::int64_t columns);

  Optimizer& optimizer_;
  WeightExchange& weights_;
  const double too_small_;
  StepRates rates_;  // of the current step
  bool updates_ = false;
  bool begun_ = false, updated_ = false, skipped_ = false, holds_ = false;
  std::vector<std::size_t> held_;
  std::int64_t held_columns_ = 0;
  double seconds_ = 0;
};

class GradientReduction {
 public:
  // All arguments must outlive it.
  GradientReduction(Training&, ParallelMethod&, WeightUpdate&);

  GradientSink& begin_step(const StepInfo&);  // the sink for the network's gradients
  void end_backward();
  // Applies every sum, or holds it until the weight exchange decides. Returns whether the step is skipped.
  bool finish_step();

 private:
  // Collects announced gradients and forwards them later.
  class Withheld final : public GradientSink {
   public:
    bool follows_device() const override { return true; }
    void chunk_ready(std::size_t) override {}
  };
  bool skips_step(bool finite);
  bool skips_nan() const;

  Training& t_;
  ParallelMethod& method_;
  WeightUpdate& update_;
  std::vector<std::size_t> chunks_;  // all of them
  const bool sums_over_shards_;      // the optimizer needs whole parameters, or all of them, and ranks hold parts
  StepInfo step_;
  Withheld withheld_;
  bool withholds_ = false, checks_sums_ = false, agrees_ = false, skipped_ = false;
};

}  // namespace tutti

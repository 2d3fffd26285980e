// SPDX-License-Identifier: Apache-2.0
// gradient_reduction.h -- from the network's gradients to the update. Usually chunks go to the exchange as they become
// ready. While GradScaler adapts the scale for float16, gradients or their sums are checked first.
#pragma once

#include <vector>

#include "train/weight_update.h"
#include "tutti/parallel_method.h"

namespace tutti {

struct Training;

class GradientReduction {
 public:
  // All arguments must outlive it.
  GradientReduction(Training&, ParallelMethod&, WeightUpdate&);

  GradientSink& begin_step(const StepInfo&);  // the sink for the network's gradients
  void end_backward();
  void finish_step();  // applies every sum, or holds it until the weight exchange decides

 private:
  // Collects announced gradients and forwards them later.
  class Withheld final : public GradientSink {
   public:
    bool follows_device() const override { return true; }
    void chunk_ready(std::size_t) override {}
  };
  bool skips_step(bool finite);

  Training& t_;
  ParallelMethod& method_;
  WeightUpdate& update_;
  std::vector<std::size_t> chunks_;  // all of them
  StepInfo step_;
  Withheld withheld_;
  bool withholds_ = false, checks_sums_ = false, agrees_ = false;
};

}  // namespace tutti

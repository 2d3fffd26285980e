// SPDX-License-Identifier: Apache-2.0
// gradient_reduction.h -- from the network's gradients to the update: usually chunks are announced to the exchange as
// they come. While the scale of float16 is sought, gradients or their sums are checked first.
#pragma once

#include <vector>

#include "train/weight_update.h"
#include "tutti/parallel_method.h"

namespace tutti {

struct Training;

class GradientReduction {
 public:
  // All outlive it.
  GradientReduction(Training&, ParallelMethod&, WeightUpdate&);

  GradientSink& begin_step(const StepInfo&);  // where the network announces its gradients
  void end_backward();
  void finish_step();  // every sum is applied, or held until the weight exchange says what becomes of it

 private:
  // Gradients that are announced as always, and handed on later.
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

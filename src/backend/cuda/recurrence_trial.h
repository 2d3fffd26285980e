// SPDX-License-Identifier: Apache-2.0
// recurrence_trial.h -- operands of a layer's shape in memory of their own, to try algorithms for it.
#pragma once

#include <vector>

#include "backend/cuda/cuda_backend.h"

namespace tutti::cuda {

class RecurrenceTrial {
 public:
  // Of `shape`, pointers count only where they may be null; `workspace` is what the algorithms need at most.
  RecurrenceTrial(CudaTensors&, const RecurrentLayer& shape, std::size_t workspace);

  // The same numbers as at first: a backward pass uses some of them up.
  void refill();
  const RecurrentLayer& layer() const { return layer_; }
  const RecurrentLayerGradient& gradient() const { return gradient_; }
  // What an algorithm has left, bit by bit.
  std::vector<float> results() const;

 private:
  CudaTensors& backend_;
  RecurrentLayer layer_;
  RecurrentLayerGradient gradient_;
  std::vector<float> start_;  // of the operands
  std::size_t results_ = 0;   // floats behind them
  DeviceBuffer memory_;
};

}  // namespace tutti::cuda

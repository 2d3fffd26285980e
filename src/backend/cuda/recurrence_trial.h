// SPDX-License-Identifier: Apache-2.0
// recurrence_trial.h -- operands with the shape of a layer in memory of their own, to measure algorithms.
#pragma once

#include <vector>

#include "backend/cuda/cuda_backend.h"

namespace tutti::cuda {

class RecurrenceTrial {
 public:
  // From `shape`, only which pointers are null is used; `workspace` is the largest requirement of the algorithms.
  RecurrenceTrial(CudaTensors&, const RecurrentLayer& shape, std::size_t workspace);

  // Restores the initial numbers, because a backward pass overwrites some.
  void refill();
  const RecurrentLayer& layer() const { return layer_; }
  const RecurrentLayerGradient& gradient() const { return gradient_; }
  // The result of an algorithm, for bitwise comparison.
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

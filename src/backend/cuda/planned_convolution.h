// SPDX-License-Identifier: Apache-2.0
// planned_convolution.h -- one direction of a convolution by cuDNN's older calls, or by a plan of its graph: whichever
// was faster when it was measured.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/cuda/algorithms.h"
#include "backend/cuda/convolution_plans.h"

namespace tutti::cuda {

class CudaImages;

class PlannedConvolution {
 public:
  struct Work {
    bool tries_plans = true;
    std::function<std::string()> key;         // of the convolution alone, for the choice
    const ConvolutionGraph* graph = nullptr;  // of the convolution alone, for every direction
    ConvolutionGraph::Operand result = ConvolutionGraph::y;
    bool accumulates = false, adds_bias = false, relu = false;  // as in the graph
    EngineRules rules;
    ConvolutionPlans::Pointers pointers{};  // without the bias, which is not needed in each case
    std::size_t result_bytes = 0;
    std::function<const void*()> bias;
    std::function<void(void* result)> by_calls;  // all of it
    std::function<void(void* result)> behind;    // what stands behind the convolution alone, if anything
  };
  void run(const Work&, CudaImages&);

 private:
  // Which choice: the calls, a graph of the convolution alone, or one with what stands behind it.
  enum { calls, alone, whole };

  Algorithms::Choice measured(const Work&, CudaImages&);
  void describe(const Work&, int which, CudaImages&);
  cudnnStatus_t run_plan(const Work&, void* result, void* workspace) const;

  bool chosen_ = false;
  int which_ = calls;
  std::unique_ptr<ConvolutionPlans> plans_;
};

}  // namespace tutti::cuda

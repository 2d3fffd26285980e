// SPDX-License-Identifier: Apache-2.0
// planned_convolution.h -- one direction of a convolution by cuDNN's older calls, or by a plan of its graph: whichever
// was faster when it was measured.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/cuda/algorithms.h"
#include "backend/cuda/convolution_plans.h"
#include "tutti/image_ops.h"

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
    Element element = Element::float32;     // of all operands
    std::function<const void*()> bias;
    std::function<void(const ConvolutionPlans::Pointers&)> by_calls;  // all of it
    std::function<void(void* result)> behind;  // what stands behind the convolution alone, if anything
    std::size_t bytes_of(std::size_t operand) const;
  };
  void run(const Work&, CudaImages&);

 private:
  // Which choice: the calls, a graph of the convolution alone, or one with what stands behind it.
  enum { calls, alone, whole };

  Algorithms::Choice chosen(const Work&, CudaImages&);
  Algorithms::Choice measured(const Work&, CudaImages&);
  bool leaves_the_same(const Work&, void* workspace, CudaImages&) const;
  void describe(const Work&, int which, CudaImages&);
  cudnnStatus_t run_plan(const Work&, ConvolutionPlans::Pointers, void* workspace) const;

  bool chosen_ = false;
  int which_ = calls;
  std::unique_ptr<ConvolutionPlans> plans_;
};

}  // namespace tutti::cuda

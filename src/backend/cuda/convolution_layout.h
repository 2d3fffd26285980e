// SPDX-License-Identifier: Apache-2.0
// convolution_layout.h -- a convolution in one layout and type of its operands. Operands that are stored otherwise go
// through scratch memory. Directions differ only in which of x, w and y is the result.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/algorithms.h"
#include "backend/cuda/arrange.h"
#include "backend/cuda/convolution_plans.h"
#include "backend/cuda/cudnn.h"
#include "tutti/image_ops.h"

namespace tutti::cuda {

class CudaImages;

// Operands as plain images, with channels last, and with channels last in the 16 bits of the compute type.
enum class ConvolutionLayout { plain, last, last_in_16_bits };

// One call of a direction. `values` are x, w and y, of which `result` is written: x and w then stand for gradients.
struct ConvolutionPass {
  ConvolutionGraph::Operand result = ConvolutionGraph::y;
  std::array<const float*, 3> values{};
  const float* bias = nullptr;
  bool accumulate = false;
  bool same_weights = false;  // w is as in the last call without this flag
};

// Computes a direction in one layout: an algorithm of cuDNN's older calls, and perhaps a plan of its graph interface,
// which is preferred. The calls are used for operands that the plan does not accept.
struct ConvolutionEngine {
  enum class Kind { calls, alone, whole };  // plans of the convolution alone, or with bias and ReLU
  ConvolutionDescriptor convolution;
  int algorithm = 0;
  std::size_t workspace = 0;
  Kind kind = Kind::calls;
  std::unique_ptr<ConvolutionPlans> plans;
};

// Memory while algorithms are tried; null if there is not enough.
Handle<void*, cudaFree> trial_memory(std::size_t bytes);

class LaidOutConvolution {
 public:
  using Kind = ConvolutionEngine::Kind;
  static constexpr int no_algorithm = -1;

  LaidOutConvolution(const ConvolutionShape&, ConvolutionLayout, CudaImages&);
  ConvolutionLayout layout() const { return layout_; }

  // The fastest of the older calls that gives the same bits every time, as cuDNN measures them; no_algorithm if none.
  Algorithms::Choice find_calls(ConvolutionGraph::Operand result) const;
  // The engine of the older calls; nothing if they need too much workspace.
  std::optional<ConvolutionEngine> engine(ConvolutionGraph::Operand result, const Algorithms::Choice&) const;
  // Adds the graph of the pass to the engine, without a plan yet. False if this kind is the same as `alone`.
  bool describe_graph(const ConvolutionPass&, Kind, ConvolutionEngine&) const;
  EngineRules rules() const;
  void run(const ConvolutionPass&, const ConvolutionEngine&);
  // Runs the plan of the engine, not its calls; false if it fails.
  bool try_plan(const ConvolutionPass&, const ConvolutionEngine&);
  // Whether the plan computes what the older calls compute, except for rounding. Tried on operands of its own, because
  // gradients in float16 may not be finite. An accumulating plan starts from zeros and runs twice. True if there is no
  // memory to try.
  bool plan_is_right(const ConvolutionPass&, const ConvolutionEngine&);

 private:
  using Operand = ConvolutionGraph::Operand;
  using Pointers = ConvolutionPlans::Pointers;

  void describe();
  ConvolutionDescriptor describe_convolution(cudnnMathType_t) const;
  bool is_stored(Operand) const;  // the values are the operand, without a copy
  bool adds(const ConvolutionPass& p) const { return p.accumulate && is_stored(p.result); }
  std::size_t bytes(Operand) const;
  const void* weights(const WeightArrangement&, const float* values, bool same);
  const void* bias(const ConvolutionPass& p) { return weights(bias_, p.bias, p.same_weights); }
  void* workspace(std::size_t bytes) const;
  Pointers operands(const ConvolutionPass&);
  void store(const ConvolutionPass&, const Pointers&) const;
  cudnnStatus_t by_plan(const ConvolutionPass&, const ConvolutionEngine&, Pointers);
  void by_calls(const ConvolutionPass&, const ConvolutionEngine&, const Pointers&);
  bool fused_forward(const ConvolutionPass&, const ConvolutionEngine&, const Pointers&);
  void add_bias_behind(const ConvolutionPass&, const Pointers&) const;

  const ConvolutionShape shape_;
  const ConvolutionLayout layout_;
  CudaImages& images_;
  Arrangement x_, y_;
  WeightArrangement w_, bias_;
  TensorDescriptor x_descriptor_, y_descriptor_, bias_descriptor_;
  FilterDescriptor w_descriptor_;
  ConvolutionGraph graph_;  // of the convolution alone, without a result
  ActivationDescriptor relu_;
  bool fuses_ = false;  // bias and ReLU in the older calls
};

}  // namespace tutti::cuda

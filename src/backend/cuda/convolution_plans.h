// SPDX-License-Identifier: Apache-2.0
// convolution_plans.h -- one direction of a convolution as an operation graph, and the execution plans that cuDNN makes
// for it: an engine with its knob settings.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cudnn_graph.h"

namespace tutti::cuda {

struct ConvolutionGraph {
  enum Operand { x, w, y, bias, operands };
  struct Tensor {
    std::vector<std::int64_t> dims, strides;
  };
  Tensor tensors[operands];
  Operand result = y;  // says the direction: x and w stand for their gradients
  std::vector<std::int64_t> pads, strides;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;  // of all operands; sums are float32
  bool adds_bias = false, relu = false;     // behind a convolution whose result is y
  bool accumulates = false;                 // adds to what the result holds
};

// What an engine may do to numbers. All allowed engines give the same bits every time and sum in float32.
struct EngineRules {
  bool tensor_cores = false;  // float32 is read as tf32
  bool narrows = false;       // float32 is read as 16 bits
  bool winograd = false;
};

class ConvolutionPlans {
 public:
  using Pointers = std::array<const void*, ConvolutionGraph::operands>;

  ConvolutionPlans(const ConvolutionGraph&, cudnnHandle_t, cudaStream_t);
  ~ConvolutionPlans();

  // The allowed plans, fastest first according to the heuristics: "62:2=4,13=0," is the number of an engine, and its
  // knobs with their values. A name means the same in every run of a library version; the order need not be the same.
  std::vector<std::string> names(const EngineRules&, std::size_t most) const;
  // Creates the plan of that name for run(). Returns false if the library cannot.
  bool take(const std::string& name);
  std::size_t workspace() const { return workspace_; }

  // Whether pointers have the alignment of 16 bytes that engines need. A weight may start elsewhere in the common
  // buffer.
  static bool lie_well(const Pointers&);
  cudnnStatus_t run(const Pointers&, void* workspace) const;

 private:
  GraphDescriptor& part(cudnnBackendDescriptorType_t);
  const GraphDescriptor& windows(const ConvolutionGraph&);

  const cudnnHandle_t handle_;
  const cudaStream_t stream_;
  std::vector<std::unique_ptr<GraphDescriptor>> parts_;  // of the graph
  GraphDescriptor graph_{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
  std::vector<std::unique_ptr<GraphDescriptor>> configuration_;  // of the engine
  GraphDescriptor plan_{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
  std::vector<std::size_t> used_;  // operands
  std::size_t workspace_ = 0;
};

}  // namespace tutti::cuda

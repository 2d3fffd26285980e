// SPDX-License-Identifier: Apache-2.0
// convolution_plans.h -- one direction of a convolution as an operation graph, and the execution plans that cuDNN makes
// for it: an engine with its knob settings.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/handle.h"

namespace tutti::cuda {

// The library's attribute type for a C++ type.
constexpr cudnnBackendAttributeType_t graph_type(const std::int64_t*) { return CUDNN_TYPE_INT64; }
constexpr cudnnBackendAttributeType_t graph_type(const float*) { return CUDNN_TYPE_FLOAT; }
constexpr cudnnBackendAttributeType_t graph_type(const bool*) { return CUDNN_TYPE_BOOLEAN; }
constexpr cudnnBackendAttributeType_t graph_type(const cudnnHandle_t*) { return CUDNN_TYPE_HANDLE; }
constexpr cudnnBackendAttributeType_t graph_type(void* const*) { return CUDNN_TYPE_VOID_PTR; }
constexpr cudnnBackendAttributeType_t graph_type(const cudnnDataType_t*) { return CUDNN_TYPE_DATA_TYPE; }
constexpr cudnnBackendAttributeType_t graph_type(const cudnnConvolutionMode_t*) { return CUDNN_TYPE_CONVOLUTION_MODE; }
constexpr cudnnBackendAttributeType_t graph_type(const cudnnPointwiseMode_t*) { return CUDNN_TYPE_POINTWISE_MODE; }
constexpr cudnnBackendAttributeType_t graph_type(const cudnnNanPropagation_t*) { return CUDNN_TYPE_NAN_PROPOGATION; }
constexpr cudnnBackendAttributeType_t graph_type(const cudnnBackendHeurMode_t*) { return CUDNN_TYPE_HEUR_MODE; }
constexpr cudnnBackendAttributeType_t graph_type(const cudnnBackendKnobType_t*) { return CUDNN_TYPE_KNOB_TYPE; }
constexpr cudnnBackendAttributeType_t graph_type(const cudnnBackendNumericalNote_t*) {
  return CUDNN_TYPE_NUMERICAL_NOTE;
}

// A descriptor of cuDNN's graph interface. The library reports unsupported descriptions when a descriptor is finalized;
// a caller must do without a descriptor that failed.
class GraphDescriptor {
 public:
  explicit GraphDescriptor(cudnnBackendDescriptorType_t type) {
    status_ = cudnnBackendCreateDescriptor(type, descriptor_.out());
  }

  template <class T>
  GraphDescriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return put(name, graph_type(&value), 1, &value);
  }
  template <class T>
  GraphDescriptor& set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    return put(name, graph_type(values.data()), values.size(), values.data());
  }
  // The parts must be complete and outlive this descriptor.
  GraphDescriptor& set(cudnnBackendAttributeName_t name, const std::vector<const GraphDescriptor*>& parts);
  GraphDescriptor& set(cudnnBackendAttributeName_t name, const GraphDescriptor& part) {
    return set(name, std::vector{&part});
  }
  // Finalizes the descriptor. Returns the first status that was not a success, of this call and all before.
  cudnnStatus_t complete();

  // Up to `most` values of a complete descriptor; none if the library has no answer.
  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t name, std::size_t most) const {
    std::vector<T> all(most);
    all.resize(take(name, graph_type(all.data()), most, all.data()));
    return all;
  }
  std::vector<GraphDescriptor> parts(cudnnBackendAttributeName_t, cudnnBackendDescriptorType_t, std::size_t most) const;

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

 private:
  GraphDescriptor& put(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, std::size_t count, const void* values);
  std::size_t take(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, std::size_t most, void* values) const;

  Handle<cudnnBackendDescriptor_t, cudnnBackendDestroyDescriptor> descriptor_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

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

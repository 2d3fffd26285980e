// SPDX-License-Identifier: Apache-2.0
// cudnn_graph.h -- descriptors of cuDNN's graph interface. The library reports unsupported descriptions when a
// descriptor is finalized; a caller must do without a descriptor that failed.
#pragma once

#include <cudnn.h>

#include <cstdint>
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

}  // namespace tutti::cuda

// SPDX-License-Identifier: Apache-2.0
// cudnn_graph.h -- the descriptors of cuDNN's graph interface. Much of what can be described the library cannot do, and
// it says so where a descriptor is completed: one that could not be made is one to do without.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <vector>

#include "base/handle.h"

namespace tutti::cuda {

// What the library calls the type of an attribute's values.
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
  // These have to be complete, and to live as long as this one does.
  GraphDescriptor& set(cudnnBackendAttributeName_t name, const std::vector<const GraphDescriptor*>& parts);
  GraphDescriptor& set(cudnnBackendAttributeName_t name, const GraphDescriptor& part) {
    return set(name, std::vector{&part});
  }
  // Nothing can be set any more. The first status that was not a success, of this and all before.
  cudnnStatus_t complete();

  // At most so many values of a complete descriptor; none where the library has no answer.
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

// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cudnn_graph.h"

#include <algorithm>

namespace tutti::cuda {

GraphDescriptor& GraphDescriptor::put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                      std::size_t count, const void* values) {
  if (status_ == CUDNN_STATUS_SUCCESS)
    status_ = cudnnBackendSetAttribute(get(), name, type, static_cast<std::int64_t>(count), values);
  return *this;
}

GraphDescriptor& GraphDescriptor::set(cudnnBackendAttributeName_t name,
                                      const std::vector<const GraphDescriptor*>& parts) {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const GraphDescriptor* p : parts) {
    if (status_ == CUDNN_STATUS_SUCCESS) status_ = p->status_;
    all.push_back(p->get());
  }
  return put(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, all.size(), all.data());
}

cudnnStatus_t GraphDescriptor::complete() {
  if (status_ == CUDNN_STATUS_SUCCESS) status_ = cudnnBackendFinalize(get());
  return status_;
}

std::size_t GraphDescriptor::take(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t most,
                                  void* values) const {
  std::int64_t n = 0;
  const bool taken =
      status_ == CUDNN_STATUS_SUCCESS &&
      cudnnBackendGetAttribute(get(), name, type, static_cast<std::int64_t>(most), &n, values) == CUDNN_STATUS_SUCCESS;
  return taken ? std::min(most, static_cast<std::size_t>(std::max<std::int64_t>(n, 0))) : 0;
}

std::vector<GraphDescriptor> GraphDescriptor::parts(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                                    std::size_t most) const {
  std::vector<GraphDescriptor> all;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::size_t i = 0; i < most; ++i) handles.push_back(all.emplace_back(type).get());
  const std::size_t taken = take(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, handles.data());
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(taken), all.end());
  return all;
}

}  // namespace tutti::cuda

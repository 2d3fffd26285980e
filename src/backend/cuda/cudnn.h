// SPDX-License-Identifier: Apache-2.0
// cudnn.h -- cuDNN's handles, descriptors and checked calls.
#pragma once

#include <cudnn.h>

#include <source_location>
#include <string>

#include "base/cuda/runtime.h"

namespace tutti::cuda {

// With the reason that the library gives besides the status.
[[noreturn]] inline void fail(cudnnStatus_t status, const char* doing, const std::source_location& at) {
  char reason[512] = {};
  cudnnGetLastErrorString(reason, sizeof reason);
  fail((std::string(cudnnGetErrorString(status)) + (*reason ? ": " : "") + reason).c_str(), doing, at);
}
inline void check(cudnnStatus_t status, const char* doing,
                  const std::source_location& at = std::source_location::current()) {
  if (status != CUDNN_STATUS_SUCCESS) fail(status, doing, at);
}

// Whether the status means that the library does not support the request, not that an error happened: statuses of 2000
// and of 3000 and more, with their kinds. Errors matter only if there is no alternative.
inline bool knows_nothing_of_it(cudnnStatus_t status) {
  const int group = static_cast<int>(status) / 1000;
  return group == 2 || group == 3;
}

using Cudnn = Handle<cudnnHandle_t, cudnnDestroy>;
using TensorDescriptor = Handle<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Handle<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor = Handle<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;
using ActivationDescriptor = Handle<cudnnActivationDescriptor_t, cudnnDestroyActivationDescriptor>;
using DropoutDescriptor = Handle<cudnnDropoutDescriptor_t, cudnnDestroyDropoutDescriptor>;
using RnnDescriptor = Handle<cudnnRNNDescriptor_t, cudnnDestroyRNNDescriptor>;
using RnnDataDescriptor = Handle<cudnnRNNDataDescriptor_t, cudnnDestroyRNNDataDescriptor>;

// Algorithms that need more workspace are excluded.
inline constexpr std::size_t most_workspace = std::size_t{2} << 30;

inline Cudnn make_cudnn(cudaStream_t stream) {
  Cudnn handle;
  check(cudnnCreate(handle.out()), "starting cuDNN");
  check(cudnnSetStream(handle.get(), stream), "starting cuDNN");
  return handle;
}

// "cuDNN 9.1.0"
inline std::string cudnn_library() {
  const std::size_t v = cudnnGetVersion();
  return "cuDNN " + std::to_string(v / 10000) + '.' + std::to_string(v / 100 % 100) + '.' + std::to_string(v % 100);
}

}  // namespace tutti::cuda

// SPDX-License-Identifier: Apache-2.0
// cudnn_descriptors.h -- what the files of the emulator of cuDNN share.
#pragma once

#include <cudnn.h>

#include <vector>

struct CudnnDoubleHandle {
  cudaStream_t stream = nullptr;
};
struct CudnnDoubleTensor {
  std::vector<int> dims, strides;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
};

namespace cuda_emulator {

template <class T>
cudnnStatus_t make(T** p) {
  *p = new T;
  return CUDNN_STATUS_SUCCESS;
}
template <class T>
cudnnStatus_t drop(T* p) {
  delete p;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace cuda_emulator

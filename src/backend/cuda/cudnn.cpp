// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cudnn.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/counts.h"

namespace tutti::cuda {

void fail(cudnnStatus_t status, const char* doing, const std::source_location& at) {
  char reason[512] = {};
  cudnnGetLastErrorString(reason, sizeof reason);
  fail(fmt::format("{}{}{}", cudnnGetErrorString(status), *reason ? ": " : "", reason).c_str(), doing, at);
}

Cudnn make_cudnn(cudaStream_t stream) {
  Cudnn handle;
  check(cudnnCreate(handle.out()), "starting cuDNN");
  check(cudnnSetStream(handle.get(), stream), "starting cuDNN");
  return handle;
}

std::string cudnn_library() {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::vector<int> spatial(const ImageWindow& w, const ImageWindow::Sizes& sizes) {
  std::vector<int> result;
  for (std::size_t axis = std::max<std::size_t>(w.rank, 2); axis-- > 0;)
    result.push_back(static_cast<int>(sizes[axis]));
  return result;
}

std::vector<int> steps_of(const std::vector<int>& dims, bool channels_last) {
  std::vector<int> steps(dims.size(), 1);
  int step = channels_last ? dims[1] : 1;
  for (std::size_t axis = dims.size() - 1; axis > 1; step *= dims[axis], --axis) steps[axis] = step;
  steps[1] = channels_last ? 1 : step;
  steps[0] = channels_last ? step : step * dims[1];
  return steps;
}

TensorDescriptor image_descriptor(std::size_t columns, std::size_t channels, const std::vector<int>& sizes,
                                  bool channels_last, cudnnDataType_t type) {
  std::size_t count = columns * channels;
  for (const int size : sizes) count *= static_cast<std::size_t>(size);
  in_32_bits(count);
  std::vector<int> dims{static_cast<int>(columns), static_cast<int>(channels)};
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  const std::vector<int> strides = steps_of(dims, channels_last);
  TensorDescriptor d;
  check(cudnnCreateTensorDescriptor(d.out()), "describing an image");
  check(cudnnSetTensorNdDescriptor(d.get(), type, static_cast<int>(dims.size()), dims.data(), strides.data()),
        "describing an image");
  return d;
}

}  // namespace tutti::cuda

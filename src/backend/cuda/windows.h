// SPDX-License-Identifier: Apache-2.0
// windows.h -- the positions of windows on an image, for pooling and unpooling kernels.
#pragma once

#include "backend/cuda/counts.h"
#include "base/cuda/launch.h"
#include "tutti/image_ops.h"

namespace tutti::cuda {

using Place = ImageWindow::Sizes;

__host__ __device__ inline std::size_t cells(const ImageWindow::Sizes& s) { return s[0] * s[1] * s[2]; }
__device__ inline std::size_t offset(const Place& at, const ImageWindow::Sizes& sizes) {
  return (at[2] * sizes[1] + at[1]) * sizes[0] + at[0];
}
__device__ inline Place place_of(std::size_t index, const ImageWindow::Sizes& sizes) {
  return {index % sizes[0], index / sizes[0] % sizes[1], index / (sizes[0] * sizes[1])};
}

// Values of a channel are found by 32-bit division; larger tensors do not fit on a device.
__device__ inline unsigned first_element32() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline unsigned element_step32() { return gridDim.x * blockDim.x; }

// The pixels inside the image under a window: [begin, end) on each axis.
struct Cells {
  Place begin, end;
  __device__ Cells(const ImageWindow& w, const Place& window) {
    for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis) {
      const std::size_t first = window[axis] * w.stride[axis], last = first + w.kernel[axis];
      begin[axis] = first > w.pad[axis] ? first - w.pad[axis] : 0;
      end[axis] = last > w.pad[axis] ? last - w.pad[axis] : 0;
      if (end[axis] > w.in[axis]) end[axis] = w.in[axis];
    }
  }
  __device__ std::size_t count() const { return (end[0] - begin[0]) * (end[1] - begin[1]) * (end[2] - begin[2]); }
  template <class Use>
  __device__ void each(const Use& use) const {
    Place at;
    for (at[2] = begin[2]; at[2] < end[2]; ++at[2])
      for (at[1] = begin[1]; at[1] < end[1]; ++at[1])
        for (at[0] = begin[0]; at[0] < end[0]; ++at[0]) use(at);
  }
};

// The windows over a pixel: [begin, end) on each axis.
struct WindowsOver {
  Place begin, end;
  __device__ WindowsOver(const ImageWindow& w, const Place& cell) {
    for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis) {
      const std::size_t at = cell[axis] + w.pad[axis];
      begin[axis] = at >= w.kernel[axis] ? (at - w.kernel[axis]) / w.stride[axis] + 1 : 0;
      end[axis] = at / w.stride[axis] + 1;
      if (end[axis] > w.out[axis]) end[axis] = w.out[axis];
    }
  }
  template <class Use>
  __device__ void each(const Use& use) const {
    Place at;
    for (at[2] = begin[2]; at[2] < end[2]; ++at[2])
      for (at[1] = begin[1]; at[1] < end[1]; ++at[1])
        for (at[0] = begin[0]; at[0] < end[0]; ++at[0]) use(at);
  }
};

}  // namespace tutti::cuda

// SPDX-License-Identifier: Apache-2.0
// frames.h -- the kernels beside cuDNN's convolutions: padded copies of images, bias and ReLU.
#pragma once

#include <cuda_runtime_api.h>

#include "tutti/image_backend.h"

namespace tutti::cuda {

// Between an image and its padded copy, plane by plane: `pad` cells stand before the image on each axis of the copy.
struct Frame {
  std::size_t planes = 0;
  ImageWindow::Sizes image{1, 1, 1}, framed{1, 1, 1}, pad{0, 0, 0};
  std::size_t image_cells() const { return planes * ImageWindow::product(image); }
  std::size_t framed_cells() const { return planes * ImageWindow::product(framed); }
};

void put_into_frame(const Frame&, const float* image, float* framed, cudaStream_t);
// What the frame cuts off has no gradient.
void take_from_frame(const Frame&, const float* framed, float* image, bool add, cudaStream_t);
// y = [max 0] (y + bias), per channel; bias may be null.
void add_bias(const ImageExtent&, const float* bias, bool relu, float* y, cudaStream_t);

}  // namespace tutti::cuda

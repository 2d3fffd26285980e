// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/channel_gradient.h"

#include <algorithm>

#include "backend/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// Pixels that the windows cover along an axis, and at least the image.
std::size_t covered(const ImageWindow& w, std::size_t axis) {
  return std::max((w.out[axis] - 1) * w.stride[axis] + w.kernel[axis], w.in[axis] + w.pad[axis]);
}

}  // namespace

ChannelGradient::ChannelGradient(const ConvolutionShape& shape, const ImageKernels& kernels)
    : kernels_(kernels), shape_(shape), row_(covered(shape.window, 0)), rows_(covered(shape.window, 1)) {
  const ImageWindow& w = shape.window;
  if (row_ != w.in[0] || rows_ != w.in[1]) image_ = FloatBuffer(row_ * rows_);
  sums_ = FloatBuffer(blocks() * shape.in_channels * ImageWindow::product(w.kernel) * kernels.block);
}

const float* ChannelGradient::padded(const float* channel) {
  if (image_.size() == 0) return channel;
  const ImageWindow& w = shape_.window;
  for (std::size_t y = 0; y < w.in[1]; ++y)
    std::copy_n(channel + y * w.in[0], w.in[0], image_.data() + (y + w.pad[1]) * row_ + w.pad[0]);
  return image_.data();
}

// The images one after the other and the blocks of outputs distributed, so that sums do not depend on the threads.
void ChannelGradient::run(const float* x, const float* dy, float* dw, bool accumulate) {
  const ImageWindow& w = shape_.window;
  const std::size_t in = w.in[0] * w.in[1], plane = ImageWindow::product(w.out) * kernels_.block,
                    taps = ImageWindow::product(w.kernel) * kernels_.block, count = blocks();
  std::fill_n(sums_.data(), sums_.size(), 0.0f);
  for (std::size_t n = 0; n < shape_.columns; ++n)
    for (std::size_t c = 0; c < shape_.in_channels; ++c) {
      const float* image = padded(x + (n * shape_.in_channels + c) * in);
      parallel(count, 1, plane, [&](std::size_t begin, std::size_t end) {
        for (std::size_t b = begin; b < end; ++b)
          kernels_.channel_gradient(w, image, row_, dy + (n * count + b) * plane,
                                    sums_.data() + (b * shape_.in_channels + c) * taps);
      });
    }
  for (std::size_t b = 0; b < count; ++b) store(b, dw, accumulate);
}

void ChannelGradient::store(std::size_t block, float* dw, bool accumulate) const {
  const std::size_t count = shape_.in_channels * ImageWindow::product(shape_.window.kernel), width = kernels_.block;
  const float* from = sums_.data() + block * count * width;
  for (std::size_t o = block * width; o < std::min(shape_.out_channels, (block + 1) * width); ++o)
    for (std::size_t i = 0; i < count; ++i) {
      float& to = dw[o * count + i];
      const float sum = from[i * width + o - block * width];
      to = accumulate ? to + sum : sum;
    }
}

}  // namespace tutti::cpu

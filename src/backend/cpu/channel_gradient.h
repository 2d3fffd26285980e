// SPDX-License-Identifier: Apache-2.0
// channel_gradient.h -- the gradient of the weights of a convolution that reads one or two plain channels, such as that
// of grey images. oneDNN pads the channels to a block there, eight times the work.
#pragma once

#include "backend/cpu/kernels.h"
#include "tutti/image_ops.h"
#include "tutti/parameters.h"

namespace tutti::cpu {

class ChannelGradient {
 public:
  ChannelGradient(const ConvolutionShape&, const ImageKernels&);
  static bool fits(const ConvolutionShape& s) {
    return s.in == Format::plain && s.out == Format::blocked && s.groups == 1 && s.in_channels <= 2 &&
           s.window.rank <= 2;
  }
  // dw[out][in][kernel], set or added.
  void run(const float* x, const float* dy, float* dw, bool accumulate);

 private:
  std::size_t blocks() const { return (shape_.out_channels + kernels_.block - 1) / kernels_.block; }  // of outputs
  const float* padded(const float* channel);
  void store(std::size_t block, float* dw, bool accumulate) const;

  const ImageKernels& kernels_;
  const ConvolutionShape shape_;
  const std::size_t row_, rows_;  // of the padded image
  FloatBuffer image_;             // one channel, padded; empty: no padding
  FloatBuffer sums_;              // [block of outputs][in][kernel][block]
};

}  // namespace tutti::cpu

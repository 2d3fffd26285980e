// SPDX-License-Identifier: Apache-2.0
// winograd.h -- 3 x 3 convolutions by Winograd's algorithm where AVX2 is the widest set, for which oneDNN has none
// (figures in docs/notes/avx2.md). Images are worked on in blocks of tiles. No sum depends on how tiles or
// channels are divided, so results do not depend on the number of threads or on the other images of a batch.
#pragma once

#include "backend/cpu/onednn.h"
#include "backend/cpu/winograd_kernels.h"
#include "tutti/image_ops.h"

namespace tutti::cpu {

// True if Winograd's algorithm is used rather than direct convolution, be it oneDNN's (AVX-512) or this one (AVX2);
// figures in docs/notes/avx2.md. Depends on the shape only, so every run on an instruction set gives the same bits.
bool winograd_pays(const ConvolutionShape&);

class WinogradConvolution : public ConvolutionPlan {
 public:
  // Uses the scratch memory of OneDnn as workspace.
  WinogradConvolution(const ConvolutionShape&, OneDnn&, const WinogradKernels&);
  // winograd_pays(), and every group begins with a block of channels.
  static bool pays(const ConvolutionShape&);

  void forward(const float* x, const float* w, const float* bias, float* y, bool accumulate, bool) override;
  void backward_data(const float* dy, const float* w, float* dx, bool accumulate, bool) override;
  void backward_weights(const float* x, const float* dy, float* dw, bool accumulate) override;

 private:
  static constexpr std::size_t positions = WinogradKernels::positions, block = WinogradKernels::block,
                               columns = WinogradKernels::columns, rows = WinogradKernels::rows;
  // One group of the channels.
  struct Image {
    std::size_t width, height, channels, groups;
    std::size_t blocks() const { return (channels + 7) / 8; }
    std::size_t panels() const { return (channels + 15) / 16; }
    std::size_t group() const { return width * height * blocks() * 8; }
    std::size_t floats() const { return group() * groups; }
    std::size_t tiles_across() const { return (width + 3) / 4; }
    std::size_t tiles() const { return tiles_across() * ((height + 3) / 4); }
  };
  // A convolution of stride 1, forward or backward.
  struct Pass {
    Image from, to;
    long pad_x, pad_y;
    WinogradKernels::Weights weights;
    bool relu, add;
  };
  // A range of tiles, over all images, and of panels of results.
  struct Part {
    std::size_t tile, tiles, panel, panels;
  };
  // Blocks of channels by panels of the gradient of weights that one thread computes.
  struct Group {
    std::size_t blocks, panels;
  };
  static WinogradKernels::Place place(const Image&, const Image& tiled, std::size_t tile, long pad_x, long pad_y);
  static std::size_t most_tiles(const Pass&);
  static std::size_t workspace(const Pass&, std::size_t tiles);
  void convolve(const Pass&, const float* x, const float* w, float* y);
  void convolve_part(const Pass&, const Part&, const float* x, const float* w, float* y, float* work) const;
  void multiply(const Pass&, const Part&, const float* w, float* y, float* work) const;
  Group group() const;
  void weights_part(std::size_t block, std::size_t panel, const Group&, const float* x, const float* dy, float* dw,
                    bool add, float* work) const;

  const ConvolutionShape shape_;
  OneDnn& dnnl_;
  const WinogradKernels& kernels_;
  Image x_, y_;
  long pad_x_, pad_y_;
  std::size_t weights_;  // of a group
  FloatBuffer bias_;     // of a group, padded by zeros
};

// Null where oneDNN has the algorithm, or this processor lacks the instructions.
const WinogradKernels* own_winograd();

}  // namespace tutti::cpu

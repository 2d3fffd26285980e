// SPDX-License-Identifier: Apache-2.0
// image_kernels.h -- loops over runs of an image in which channels repeat with a period: lane i of every 16 floats
// belongs to channel i % period. Period 16 or 8 is a block of channels, period 1 the pixels of one channel. As in
// kernels.h, all instruction sets give the same bits.
#pragma once

#include <cstddef>

namespace tutti::cpu {

constexpr std::size_t image_lanes = 16;

// One value per lane; the caller repeats the period.
struct Lanes {
  alignas(64) float v[image_lanes] = {};
};

// Coefficients of y = (x - center) * scale + shift.
struct Affine {
  Lanes center, scale, shift;
};

// Local response normalisation over `channels` values with stride `step`, for 16 neighbouring lanes at a time.
constexpr std::size_t max_response_channels = 2048, max_response_radius = 64;
struct Response {
  std::size_t channels = 1, radius = 0;
  float bias = 1, alpha = 1, beta = 0.75;
};

struct ImageKernels {
  std::size_t block;  // channels of Format::blocked
  // Per lane, accumulated: the sums of x - center and of its square.
  void (*moments)(const float* x, std::size_t n, const Lanes& center, Lanes& sum, Lanes& square);
  // y = [max 0] affine(x) [+ added]
  void (*normalize)(const float* x, const float* added, const Affine&, bool relu, float* y, std::size_t n);
  // masked = dy where y > 0 (y null: everywhere), possibly in place; accumulates per lane the sums of masked and of
  // masked * (x - center). masked may be null.
  void (*gradient_sums)(const float* x, const float* y, const float* dy, float* masked, const Lanes& center, Lanes& sum,
                        Lanes& product, std::size_t n);
  // dx = dy * scale - (x - center) * slope - shift, set or added.
  void (*normalize_gradient)(const float* x, const float* dy, const Lanes& center, const Lanes& scale,
                             const Lanes& slope, const Lanes& shift, float* dx, std::size_t n, bool add);
  // dy = 0 where y is not positive (y null: unchanged); accumulates its sum per lane.
  void (*masked_sum)(const float* y, float* dy, Lanes& sum, std::size_t n);
  // Channels on other lanes: `pixels` neighbouring lanes, channels with stride `step` (plain layout).
  void (*respond_plain)(const Response&, const float* x, float* y, float* work, std::size_t pixels, std::size_t step);
  void (*respond_gradient_plain)(const Response&, const float* x, const float* y, const float* dy, const float* work,
                                 float* dx, std::size_t pixels, std::size_t step, bool add);
  // Channels in blocks of `block`, blocks with stride `step` (blocked layout).
  void (*respond_blocked)(const Response&, std::size_t block, const float* x, float* y, float* work, std::size_t pixels,
                          std::size_t step);
  void (*respond_gradient_blocked)(const Response&, std::size_t block, const float* x, const float* y, const float* dy,
                                   const float* work, float* dx, std::size_t pixels, std::size_t step, bool add);
};

const ImageKernels& portable_image_kernels();
const ImageKernels& avx2_image_kernels();
const ImageKernels& avx512_image_kernels();

}  // namespace tutti::cpu

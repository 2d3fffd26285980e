// SPDX-License-Identifier: Apache-2.0
// kernels.h -- inner loops on contiguous floats. The bodies are compiled once per instruction set. All variants use the
// same 16 virtual lanes in the same order without fused multiply-add, so they give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/instruction_set.h"
#include "tutti/backend.h"

namespace tutti::cpu {

// Up to three operands of a row; a step of 0 repeats the first value, 1 advances.
struct Row {
  const float* x[3];
  std::size_t step[3];
};

// Loops over runs of an image in which channels repeat with a period: lane i of every 16 floats belongs to channel
// i % period. Period 16 or 8 is a block of channels, period 1 the pixels of one channel.
constexpr std::size_t image_lanes = 16;

// One value per lane; the caller repeats the period.
struct Lanes {
  alignas(64) float v[image_lanes] = {};
};

// Coefficients of y = (x - center) * scale + shift.
struct Affine {
  Lanes center, scale, shift;
};

// Local response normalisation over `channels` values. `block`: channels per block of a blocked image, 0 = plain.
constexpr std::size_t max_response_channels = 2048, max_response_radius = 64;
struct Response {
  std::size_t channels = 1, radius = 0, block = 0;
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
  // Plain: `pixels` neighbouring lanes, channels with stride `step`. Blocked: blocks of channels with stride `step`.
  void (*respond)(const Response&, const float* x, float* y, float* work, std::size_t pixels, std::size_t step);
  void (*respond_gradient)(const Response&, const float* x, const float* y, const float* dy, const float* work,
                           float* dx, std::size_t pixels, std::size_t step, bool add);
  // Max pooling of one block of channels of one image; `winner` gets the number of the largest pixel within its window.
  // The gradient adds to dx. Windows have fewer than 255 pixels.
  void (*max_pool)(const ImageWindow&, const float* x, float* y, std::uint8_t* winner);
  void (*max_pool_gradient)(const ImageWindow&, const float* dy, const std::uint8_t* winner, float* dx);
  // The gradient of the weights between one plain channel, padded, with `row` pixels in a row, and one block of output
  // channels: adds to dw[kernel pixel][block].
  void (*channel_gradient)(const ImageWindow&, const float* x, std::size_t row, const float* dy, float* dw);
};

struct Kernels {
  const char* name;
  void (*map)(UnaryOp, const float* x, float* y, std::size_t n);
  void (*map_gradient)(UnaryOp, const float* x, const float* y, const float* dy, float* dx, std::size_t n, bool add);
  void (*combine)(PointOp, const Row&, float* y, std::size_t n);
  // dy times the derivative with respect to operand k.
  void (*combine_gradient)(PointOp, std::size_t k, const Row&, const float* dy, float* dx, std::size_t n);
  void (*bias_activation)(UnaryOp, const float* bias, float* y, std::size_t n);
  // Columns [0, n) of all rows: computes the gradient in place and, unless dbias is null, its sum over the rows.
  void (*bias_activation_gradient)(UnaryOp, std::size_t rows, std::size_t stride, const float* y, float* dy,
                                   float* dbias, std::size_t n, bool add);
  void (*add)(const float* x, float* y, std::size_t n);                  // y += x
  void (*add_scaled)(float a, const float* x, float* y, std::size_t n);  // y += a x
  float (*sum)(const float* x, std::size_t n);
  float (*maximum)(const float* x, std::size_t n);
  // Of lines of n elements, one after the other. log_sums, unless null, gets the log_sum of each line.
  void (*softmax)(const float* x, float* y, std::size_t n, std::size_t lines, float* log_sums);
  // log of the sum of exponentials
  float (*log_sum)(const float* x, std::size_t n);
  float (*dot)(const float* x, const float* y, std::size_t n);
  void (*softmax_gradient)(const float* y, const float* dy, float dot, float* dx, std::size_t n, bool add);
  // dx = scale * (p * mass - label), the gradient of cross entropy with softmax. Mass is the sum of a line's labels.
  void (*cross_entropy_gradient)(const float* p, const float* label, float scale, float* dx, std::size_t n,
                                 std::size_t lines, bool add);
  // `first` is the number of x[0]; for a blocked image, x starts with a pixel.
  void (*dropout)(const DropoutMask&, std::uint64_t first, const float* x, float* y, std::size_t n, bool add);
  // Rows [begin, end).
  void (*lstm_step)(const LstmRows&, std::size_t begin, std::size_t end);
  void (*lstm_step_gradient)(const LstmRowsGradient&, std::size_t begin, std::size_t end);
  void (*gru_step)(const GruRows&, std::size_t begin, std::size_t end);
  void (*gru_step_gradient)(const GruRowsGradient&, std::size_t begin, std::size_t end);
  void (*gru_reset)(const GruRows&, std::size_t begin, std::size_t end);
  void (*gru_reset_gradient)(const GruRowsGradient&, std::size_t begin, std::size_t end);
  ImageKernels images;
};

template <InstructionSet>
const Kernels& kernels();
// The best set that this processor supports.
const Kernels& best_kernels();

}  // namespace tutti::cpu

// SPDX-License-Identifier: Apache-2.0
// kernels.h -- inner loops on contiguous floats. The bodies are compiled once per instruction set. All variants use the
// same 16 virtual lanes in the same order without fused multiply-add, so they give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/backend.h"

namespace tutti::cpu {

// Up to three operands of a row; a step of 0 repeats the first value, 1 advances.
struct Row {
  const float* x[3];
  std::size_t step[3];
};

struct ImageKernels;  // image_kernels.h

struct Kernels {
  const char* name;
  const ImageKernels& (*images)();
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
  void (*softmax)(const float* x, float* y, std::size_t n);
  // log of the sum of exponentials
  float (*log_sum)(const float* x, std::size_t n);
  float (*dot)(const float* x, const float* y, std::size_t n);
  void (*softmax_gradient)(const float* y, const float* dy, float dot, float* dx, std::size_t n, bool add);
  // dx = scale * (p * mass - label), the gradient of cross entropy with softmax
  void (*cross_entropy_gradient)(const float* p, const float* label, float mass, float scale, float* dx, std::size_t n,
                                 bool add);
  // `first` is the number of x[0]; for a blocked image, x starts with a pixel.
  void (*dropout)(const DropoutMask&, std::uint64_t first, const float* x, float* y, std::size_t n, bool add);
  // Rows [begin, end).
  void (*lstm_step)(const LstmRows&, std::size_t begin, std::size_t end);
  void (*lstm_step_gradient)(const LstmRowsGradient&, std::size_t begin, std::size_t end);
  void (*gru_step)(const GruRows&, std::size_t begin, std::size_t end);
  void (*gru_step_gradient)(const GruRowsGradient&, std::size_t begin, std::size_t end);
  void (*gru_reset)(const GruRows&, std::size_t begin, std::size_t end);
  void (*gru_reset_gradient)(const GruRowsGradient&, std::size_t begin, std::size_t end);
};

const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
// The best set that this processor supports.
const Kernels& best_kernels();

}  // namespace tutti::cpu

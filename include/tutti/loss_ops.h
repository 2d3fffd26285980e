// SPDX-License-Identifier: Apache-2.0
// loss_ops.h -- softmax and criteria. Pointers are device pointers; sums are from Device::make_sums().
#pragma once

#include <cstddef>
#include <span>

#include "tutti/class_loss.h"
#include "tutti/tensor_ops.h"

namespace tutti {

enum class SoftmaxOp { softmax, log_softmax, hardmax };
enum class LossOp {
  cross_entropy_with_softmax,
  classification_error,
  cross_entropy,
  square_error,
  logistic,
  weighted_logistic,
  sum,
  sum_abs
};

// Operands are labels (or the only operand), prediction, weight. The softmax runs along the middle axis of `extent`.
struct Loss {
  LossOp op = LossOp::sum;
  Extent extent;
  std::size_t top = 1;           // classification error: correct if the label is among the `top` largest
  std::size_t sample_lines = 1;  // classification error: lines of a sample; its error is their mean
  std::size_t weight_size = 0;   // weighted logistic: elements in the weight of a sample, 1 or all
};

class LossOps {
 public:
  virtual ~LossOps() = default;
  virtual void softmax(SoftmaxOp, const Extent&, const float* x, float* y) = 0;
  virtual void softmax_gradient(SoftmaxOp, const Extent&, const float* y, const float* dy, float* dx,
                                bool accumulate) = 0;

  // Criteria: writes the sum over all samples as double to `sum` (from make_sums) and as float to `y`. `work` has
  // extent.count() floats and must live until the gradient.
  virtual void loss(const Loss&, std::span<const float* const> in, float* work, double* sum, float* y) = 0;
  virtual void loss_gradient(const Loss&, std::size_t k, std::span<const float* const> in, const float* work,
                             const float* dy, float* dx, bool accumulate) = 0;
  // The same with word classes. `work` is as large as the labels and must live until the gradient.
  virtual void class_loss(const ClassLoss&, float* work, double* sum, float* y) = 0;
  virtual void class_loss_gradient(const ClassLoss&, ClassLoss::Operand, const float* work, const float* dy, float* dx,
                                   bool accumulate) = 0;
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Cross entropy with word classes. Only the words of the true class are computed. The gradient recomputes their scores,
// because keeping them would need memory for the largest class in every column.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// Kept for backward, per column: logarithms of the sums of exponentials, and the score of the word.
struct Kept {
  float of_classes, of_words, score;
};
constexpr std::size_t kept_floats = ClassLoss::label_floats;  // the workspace is as large as the labels

Kept kept_of(const float* work, std::size_t column) {
  const float* k = work + column * kept_floats;
  return {k[0], k[1], k[2]};
}

const float* column_of(const float* x, std::size_t column, std::size_t size) { return x + column * size; }

// Log of the sum of exponentials, term by term.
struct RunningLogSum {
  float high = -std::numeric_limits<float>::infinity(), sum = 0;
  void add(float x) {
    if (x <= high) {
      sum += std::exp(x - high);
    } else {
      sum = sum * std::exp(high - x) + 1;
      high = x;
    }
  }
  float value() const { return high + std::log(sum); }
};

void forward_column(const Kernels& kernels, const ClassLoss& l, std::size_t column, float* work) {
  const ClassLabel label(l, column);
  float* kept = work + column * kept_floats;
  if (!label.valid) {
    kept[0] = kept[1] = kept[2] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const float* state = column_of(l.state, column, l.hidden);
  kept[0] = kernels.log_sum(column_of(l.scores, column, l.classes), l.classes);
  RunningLogSum words;
  for (std::size_t w = label.first; w < label.last; ++w) {
    const float score = kernels.dot(state, column_of(l.weight, w, l.hidden), l.hidden);
    words.add(score);
    if (w == label.word) kept[2] = score;
  }
  kept[1] = words.value();
}

// The derivative with respect to the score of a word.
float word_gradient(const Kernels& kernels, const ClassLoss& l, const ClassLabel& label, const Kept& kept,
                    const float* state, std::size_t word) {
  const float score = kernels.dot(state, column_of(l.weight, word, l.hidden), l.hidden);
  return std::exp(score - kept.of_words) - (word == label.word ? 1.0f : 0.0f);
}

void state_gradient(const Kernels& kernels, const ClassLoss& l, std::size_t column, const float* work, float scale,
                    float* dx) {
  const ClassLabel label(l, column);
  if (!label.valid) return;
  const Kept kept = kept_of(work, column);
  const float* state = column_of(l.state, column, l.hidden);
  for (std::size_t w = label.first; w < label.last; ++w)
    kernels.add_scaled(scale * word_gradient(kernels, l, label, kept, state, w), column_of(l.weight, w, l.hidden),
                       dx + column * l.hidden, l.hidden);
}

// Words [begin, end): columns are added in order, for any number of threads.
void weight_gradient(const Kernels& kernels, const ClassLoss& l, std::size_t begin, std::size_t end, const float* work,
                     float scale, float* dx) {
  for (std::size_t column = 0; column < l.columns; ++column) {
    const ClassLabel label(l, column);
    if (!label.valid) continue;
    const Kept kept = kept_of(work, column);
    const float* state = column_of(l.state, column, l.hidden);
    for (std::size_t w = std::max(begin, label.first); w < std::min(end, label.last); ++w)
      kernels.add_scaled(scale * word_gradient(kernels, l, label, kept, state, w), state, dx + w * l.hidden, l.hidden);
  }
}

void class_gradient(const ClassLoss& l, std::size_t column, const float* work, float scale, float* dx) {
  const ClassLabel label(l, column);
  if (!label.valid) return;
  const float log_sum = kept_of(work, column).of_classes;
  const float* scores = column_of(l.scores, column, l.classes);
  for (std::size_t c = 0; c < l.classes; ++c)
    dx[column * l.classes + c] += scale * (std::exp(scores[c] - log_sum) - (c == label.word_class ? 1.0f : 0.0f));
}

}  // namespace

void CpuBackend::class_loss(const ClassLoss& l, float* work, double* sum, float* y) {
  const std::size_t words = l.hidden * std::max<std::size_t>(l.words / std::max<std::size_t>(l.classes, 1), 1);
  parallel(l.columns, 1, words + l.classes, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c) forward_column(kernels_, l, c, work);
  });
  double total = 0;
  for (std::size_t c = 0; c < l.columns; ++c) {
    const ClassLabel label(l, c);
    const Kept kept = kept_of(work, c);
    const double right_class = label.valid ? l.scores[c * l.classes + label.word_class] : 0;
    total += static_cast<double>(kept.of_classes) - right_class + (static_cast<double>(kept.of_words) - kept.score);
  }
  *sum = total;
  *y = static_cast<float>(total);
}

void CpuBackend::class_loss_gradient(const ClassLoss& l, ClassLoss::Operand k, const float* work, const float* dy,
                                     float* dx, bool accumulate) {
  const float scale = *dy;
  const bool of_weight = k == ClassLoss::Operand::weight;
  const std::size_t size = k == ClassLoss::Operand::scores ? l.classes : l.hidden;
  const std::size_t count = of_weight ? l.words : l.columns;
  const std::size_t work_per_column =
      l.hidden * std::max<std::size_t>(of_weight ? l.columns : l.words, 1) / std::max<std::size_t>(l.classes, 1);
  parallel(count, 1, size + work_per_column, [&](std::size_t begin, std::size_t end) {
    if (!accumulate) std::fill(dx + begin * size, dx + end * size, 0.0f);
    if (of_weight) return weight_gradient(kernels_, l, begin, end, work, scale, dx);
    for (std::size_t c = begin; c < end; ++c)
      if (k == ClassLoss::Operand::state)
        state_gradient(kernels_, l, c, work, scale, dx);
      else
        class_gradient(l, c, work, scale, dx);
  });
}

}  // namespace tutti::cpu

// SPDX-License-Identifier: Apache-2.0
// The cross entropy of words through their classes; a block works on a column, or on a word of the weight.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/math.h"
#include "backend/cuda/sum_up.h"
#include "backend/cuda/team.h"

namespace tutti::cuda {
namespace {

constexpr unsigned words_at_once = threads_per_block;

__device__ float word_score(const ClassLoss& l, std::size_t column, std::size_t word) {
  const float *state = l.state + column * l.hidden, *weight = l.weight + word * l.hidden;
  float sum = 0;
  for (std::size_t h = 0; h < l.hidden; ++h) sum += state[h] * weight[h];
  return sum;
}

// The derivative with respect to the score of a word.
__device__ float word_derivative(const ClassLoss& l, const ClassLabel& label, std::size_t column, std::size_t word,
                                 float log_sum) {
  return exponential(word_score(l, column, word) - log_sum) - (word == label.word ? 1.0f : 0.0f);
}

// The logarithm of the sum of exponentials of what each member has gathered: its largest, and its sum below that.
__device__ float log_of_all(float high, float sum) {
  const float top = together<threads_per_block>(high, Larger());
  const float part = sum > 0 ? sum * exponential(high - top) : 0.0f;
  return top + logarithm(together<threads_per_block>(part, Plus()));
}

template <class Score>
__device__ float log_sum_of(std::size_t first, std::size_t last, const Score& score) {
  float high = -infinity(), sum = 0;
  for (std::size_t i = first + threadIdx.x; i < last; i += blockDim.x) {
    const float x = score(i);
    if (x <= high) {
      sum += exponential(x - high);
    } else {
      sum = (sum > 0 ? sum * exponential(high - x) : 0.0f) + 1;
      high = x;
    }
  }
  return log_of_all(high, sum);
}

// Keeps the two logarithms for the gradient.
__global__ void class_loss_columns(ClassLoss l, float* work, double* sums) {
  for (std::size_t column = blockIdx.x; column < l.columns; column += gridDim.x) {
    const ClassLabel label(l, column);
    if (!label.valid) {
      if (threadIdx.x == 0) sums[column] = static_cast<double>(infinity() - infinity());
      continue;
    }
    const float* scores = l.scores + column * l.classes;
    const float classes = log_sum_of(0, l.classes, [&](std::size_t c) { return scores[c]; });
    const float words = log_sum_of(label.first, label.last, [&](std::size_t w) { return word_score(l, column, w); });
    if (threadIdx.x > 0) continue;
    float* kept = work + column * ClassLoss::label_floats;
    kept[0] = classes, kept[1] = words;
    sums[column] = static_cast<double>(classes) - static_cast<double>(scores[label.word_class]) +
                   (static_cast<double>(words) - static_cast<double>(word_score(l, column, label.word)));
  }
}

__global__ void class_state_gradient(ClassLoss l, const float* work, const float* dy, float* dx, bool add) {
  __shared__ float derivative[words_at_once];
  for (std::size_t column = blockIdx.x; column < l.columns; column += gridDim.x) {
    float* gradient = dx + column * l.hidden;
    if (!add)
      for (std::size_t h = threadIdx.x; h < l.hidden; h += blockDim.x) gradient[h] = 0;
    const ClassLabel label(l, column);
    if (!label.valid) continue;
    const float log_sum = work[column * ClassLoss::label_floats + 1];
    for (std::size_t first = label.first; first < label.last; first += words_at_once) {
      const std::size_t count = first + words_at_once < label.last ? words_at_once : label.last - first;
      if (threadIdx.x < count)
        derivative[threadIdx.x] = *dy * word_derivative(l, label, column, first + threadIdx.x, log_sum);
      __syncthreads();
      for (std::size_t h = threadIdx.x; h < l.hidden; h += blockDim.x) {
        float sum = gradient[h];
        for (std::size_t w = 0; w < count; ++w) sum += derivative[w] * l.weight[(first + w) * l.hidden + h];
        gradient[h] = sum;
      }
      __syncthreads();
    }
  }
}

// Columns are added in their order.
__global__ void class_weight_gradient(ClassLoss l, const float* work, const float* dy, float* dx, bool add) {
  __shared__ float derivative[words_at_once];
  for (std::size_t word = blockIdx.x; word < l.words; word += gridDim.x) {
    float* gradient = dx + word * l.hidden;
    if (!add)
      for (std::size_t h = threadIdx.x; h < l.hidden; h += blockDim.x) gradient[h] = 0;
    for (std::size_t first = 0; first < l.columns; first += words_at_once) {
      const std::size_t count = first + words_at_once < l.columns ? words_at_once : l.columns - first;
      float mine = 0;
      if (threadIdx.x < count) {
        const std::size_t column = first + threadIdx.x;
        const ClassLabel label(l, column);
        if (label.valid && word >= label.first && word < label.last)
          mine = *dy * word_derivative(l, label, column, word, work[column * ClassLoss::label_floats + 1]);
      }
      derivative[threadIdx.x] = mine;
      __syncthreads();
      for (std::size_t h = threadIdx.x; h < l.hidden; h += blockDim.x) {
        float sum = gradient[h];
        for (std::size_t c = 0; c < count; ++c)
          if (derivative[c] != 0) sum += derivative[c] * l.state[(first + c) * l.hidden + h];
        gradient[h] = sum;
      }
      __syncthreads();
    }
  }
}

__global__ void class_score_gradient(ClassLoss l, const float* work, const float* dy, float* dx, bool add) {
  for (std::size_t i = first_element(); i < l.columns * l.classes; i += element_step()) {
    const std::size_t column = i / l.classes, c = i % l.classes;
    const ClassLabel label(l, column);
    const float p = label.valid ? exponential(l.scores[i] - work[column * ClassLoss::label_floats]) : 0.0f;
    const float g = label.valid ? *dy * (p - (c == label.word_class ? 1.0f : 0.0f)) : 0.0f;
    dx[i] = add ? dx[i] + g : g;
  }
}

}  // namespace

void CudaBackend::class_loss(const ClassLoss& l, float* work, double* sum, float* y) {
  double* sums = scratch_.reserve<double>(l.columns + 1);
  if (l.columns > 0) launch(class_loss_columns, blocks_for(l.columns, 1), threads_per_block, stream(), l, work, sums);
  launch(sum_up, 1, threads_per_block, stream(), sums, l.columns, sum, y);
}

void CudaBackend::class_loss_gradient(const ClassLoss& l, ClassLoss::Operand k, const float* work, const float* dy,
                                      float* dx, bool accumulate) {
  const bool of_weight = k == ClassLoss::Operand::weight;
  if (of_weight ? l.words == 0 : l.columns == 0) return;
  if (k == ClassLoss::Operand::scores)
    return launch(class_score_gradient, blocks_for(l.columns * l.classes), threads_per_block, stream(), l, work, dy, dx,
                  accumulate);
  launch(of_weight ? class_weight_gradient : class_state_gradient, blocks_for(of_weight ? l.words : l.columns, 1),
         threads_per_block, stream(), l, work, dy, dx, accumulate);
}

}  // namespace tutti::cuda

// SPDX-License-Identifier: Apache-2.0
// Criteria, and the size of gradients: sums over everything in double, in an order that depends on the sizes alone. The
// host gets them later.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/lanes.h"
#include "backend/cuda/math.h"
#include "backend/cuda/team.h"

namespace tutti::cuda {
namespace {

// The last step of sums that criteria compute in parts. One block; `y` may be null.
__global__ void sum_up(const double* sums, std::size_t count, double* sum, float* y) {
  double total = 0;
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) total += sums[i];
  total = together<threads_per_block>(total, Plus());
  if (threadIdx.x > 0) return;
  *sum = total;
  if (y) *y = static_cast<float>(total);
}

// -sum label * log softmax(z), and the softmax itself. Its logarithm would lose small probabilities.
template <int Team>
__global__ void cross_entropy_lines(Lines lines, const float* label, const float* z, float* p, double* sums) {
  using D = Distributed<Team>;
  for (std::size_t line = D::first(); line < lines.count; line += D::step()) {
    const std::size_t at = lines.at(line);
    const float shift = softmax_line<Team>(z + at, p + at, lines);
    double total = 0;
    for (std::size_t i = D::member(); i < lines.size; i += Team) {
      const std::size_t e = at + i * lines.inner;
      if (const float l = label[e]; l != 0)
        total -= static_cast<double>(l) * (static_cast<double>(z[e]) - static_cast<double>(shift));
    }
    total = together<Team>(total, Plus());
    // Must not hide behind labels of zero.
    if (D::member() == 0) sums[line] = shift != shift ? static_cast<double>(shift) : total;
  }
}

// Right if fewer than `top` predictions beat the one at the label's maximum; of equals the first wins.
template <int Team>
__global__ void error_lines(Lines lines, std::size_t top, double error, const float* label, const float* z,
                            double* sums) {
  using D = Distributed<Team>;
  for (std::size_t line = D::first(); line < lines.count; line += D::step()) {
    const float* scores = z + lines.at(line);
    const std::size_t truth = first_largest<Team>(label + lines.at(line), lines);
    const float own = scores[truth * lines.inner];
    unsigned ahead = 0;
    for (std::size_t i = D::member(); i < lines.size; i += Team) {
      const float s = scores[i * lines.inner];
      ahead += s > own || (s == own && i < truth);
    }
    ahead = together<Team>(ahead, Plus());
    if (D::member() == 0) sums[line] = ahead >= top || own != own ? error : 0.0;
  }
}

struct Terms {
  LossOp op;
  std::size_t count, sample, weight_size;  // elements; of a sample; of its weight
  const float *label, *prediction, *weight;

  __device__ float weight_of(std::size_t i) const {
    if (op != LossOp::weighted_logistic) return 1.0f;
    return weight_size == sample ? weight[i] : weight[i / sample];
  }
  __device__ double term(std::size_t i) const {
    switch (op) {
      case LossOp::cross_entropy:
        return -static_cast<double>(label[i]) * static_cast<double>(safe_log(prediction[i]));
      case LossOp::square_error: {
        const double d = static_cast<double>(label[i]) - static_cast<double>(prediction[i]);
        return d * d;
      }
      case LossOp::logistic:
      case LossOp::weighted_logistic: {
        const float y = label[i], p = prediction[i];
        return -static_cast<double>(weight_of(i)) * static_cast<double>(safe_log(2 * y * p + (1 - y) - p));
      }
      case LossOp::sum:
        return static_cast<double>(label[i]);
      case LossOp::sum_abs:
        return static_cast<double>(fabsf(label[i]));
      case LossOp::cross_entropy_with_softmax:
      case LossOp::classification_error:
        break;
    }
    return 0;
  }
  __device__ float derivative(std::size_t i, std::size_t k, float scale) const {
    switch (op) {
      case LossOp::cross_entropy:
        return k == 0 ? -scale * safe_log(prediction[i]) : -scale * quotient(label[i], prediction[i]);
      case LossOp::square_error:
        return (k == 0 ? 2 * scale : -2 * scale) * (label[i] - prediction[i]);
      case LossOp::logistic:
      case LossOp::weighted_logistic: {
        if (k != 1) return 0.0f;
        const float y = label[i], p = prediction[i];
        return -scale * weight_of(i) * quotient(2 * y - 1, 2 * y * p + (1 - y) - p);
      }
      case LossOp::sum:
        return scale;
      case LossOp::sum_abs:
        return label[i] > 0 ? scale : label[i] < 0 ? -scale : 0.0f;
      case LossOp::cross_entropy_with_softmax:
      case LossOp::classification_error:
        break;
    }
    return 0.0f;
  }
};

// Each block sums a part.
__global__ void sum_terms(Terms terms, double* sums) {
  double total = 0;
  for (std::size_t i = first_element(); i < terms.count; i += element_step()) total += terms.term(i);
  total = together<threads_per_block>(total, Plus());
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

template <unsigned V>
__global__ void scale_each(float factor, std::size_t count, float* x, double* sums) {
  double total = 0;
  for (std::size_t i = first_element() * V; i < count; i += element_step() * V) {
    Lanes<V> v = load<V>(x + i);
    for (unsigned l = 0; l < V; ++l) v.at[l] *= factor, total += static_cast<double>(fabsf(v.at[l]));
    store(x + i, v);
  }
  if (!sums) return;
  total = together<threads_per_block>(total, Plus());
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void terms_gradient_each(Terms terms, std::size_t k, const float* dy, float* dx, bool add) {
  const float scale = *dy;
  for (std::size_t i = first_element(); i < terms.count; i += element_step()) {
    const float g = terms.derivative(i, k, scale);
    dx[i] = add ? dx[i] + g : g;
  }
}

template <int Team>
__global__ void cross_entropy_gradient_lines(Lines lines, std::size_t k, const float* label, const float* p,
                                             const float* dy, float* dx, bool add) {
  using D = Distributed<Team>;
  const float scale = *dy;
  for (std::size_t line = D::first(); line < lines.count; line += D::step()) {
    const std::size_t at = lines.at(line);
    float mass = 0;
    for (std::size_t i = D::member(); i < lines.size; i += Team) mass += label[at + i * lines.inner];
    mass = together<Team>(mass, Plus());
    for (std::size_t i = D::member(); i < lines.size; i += Team) {
      const std::size_t e = at + i * lines.inner;
      const float g = k == 1 ? scale * (p[e] * mass - label[e]) : -scale * safe_log(p[e]);
      dx[e] = add ? dx[e] + g : g;
    }
  }
}

Terms terms_of(const Loss& loss, std::span<const float* const> in) {
  const Extent& e = loss.extent;
  return {loss.op,
          e.count(),
          e.size * e.inner,
          loss.weight_size,
          in[0],
          in.size() > 1 ? in[1] : nullptr,
          in.size() > 2 ? in[2] : nullptr};
}

__global__ void keep_each(const double* sums, std::size_t count, std::size_t decisive, double* kept, int* halt) {
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) {
    const double sum = sums[i];
    kept[i] = sum;
    if (i == decisive && sum != sum) *halt = 1;
  }
}

// ---- the cross entropy of words through their classes; a block works on a column, or on a word of the weight

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

// The logarithm of the sum of exponentials of what each member has gathered: its largest, and its sum below that. A
// score that is NaN makes the sum NaN.
__device__ float log_of_all(float high, float sum) {
  const float top = together<threads_per_block>(high, Larger());
  const float all = together<threads_per_block>(sum * exponential(high - top), Plus());
  return all == all ? top + logarithm(all) : all;
}

template <class Score>
__device__ float log_sum_of(std::size_t first, std::size_t last, const Score& score) {
  float high = -infinity(), sum = 0;
  for (std::size_t i = first + threadIdx.x; i < last; i += blockDim.x) {
    const float x = score(i);
    if (x == high) {  // also -infinity
      sum += 1;
    } else if (x < high) {
      sum += exponential(x - high);
    } else {
      sum = sum * exponential(high - x) + 1;
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

void CudaDevice::keep_sums(const double* sums, std::size_t count, std::size_t decisive, double* kept) {
  not_while_capturing();
  launch(keep_each, 1, threads_per_block, stream(), sums, count, decisive, kept, halt_);
}

void CudaTensors::scale(float factor, float* x, std::size_t count, double* sum) {
  const bool fours = in_whole_lanes<float>(count, {x});
  const std::size_t parts = count == 0 ? 0 : blocks_for(fours ? count / 4 : count);
  double* sums = sum ? scratch_.reserve<double>(parts + 1) : nullptr;
  if (parts > 0)
    launch(fours ? scale_each<4> : scale_each<1>, static_cast<unsigned>(parts), threads_per_block, stream(), factor,
           count, x, sums);
  if (sum) launch(sum_up, 1, threads_per_block, stream(), sums, parts, sum, nullptr);
}

void CudaBackend::loss(const Loss& loss, std::span<const float* const> in, float* work, double* sum, float* y) {
  const Lines lines = lines_of(loss.extent);
  const bool by_line = loss.op == LossOp::cross_entropy_with_softmax || loss.op == LossOp::classification_error;
  const std::size_t parts = loss.extent.count() == 0 ? 0 : by_line ? lines.count : blocks_for(loss.extent.count());
  double* sums = scratch_.reserve<double>(parts + 1);
  if (parts > 0 && loss.op == LossOp::cross_entropy_with_softmax)
    launch_on_lines(cross_entropy_lines<1>, cross_entropy_lines<32>, cross_entropy_lines<256>, lines, stream(), in[0],
                    in[1], work, sums);
  else if (parts > 0 && loss.op == LossOp::classification_error)
    launch_on_lines(error_lines<1>, error_lines<32>, error_lines<256>, lines, stream(), loss.top,
                    1.0 / static_cast<double>(loss.sample_lines), in[0], in[1], sums);
  else if (parts > 0)
    launch(sum_terms, static_cast<unsigned>(parts), threads_per_block, stream(), terms_of(loss, in), sums);
  launch(sum_up, 1, threads_per_block, stream(), sums, parts, sum, y);
}

void CudaBackend::loss_gradient(const Loss& loss, std::size_t k, std::span<const float* const> in, const float* work,
                                const float* dy, float* dx, bool accumulate) {
  if (loss.extent.count() == 0) return;
  if (loss.op == LossOp::cross_entropy_with_softmax)
    return launch_on_lines(cross_entropy_gradient_lines<1>, cross_entropy_gradient_lines<32>,
                           cross_entropy_gradient_lines<256>, lines_of(loss.extent), stream(), k, in[0], work, dy, dx,
                           accumulate);
  launch_for(terms_gradient_each, loss.extent.count(), stream(), terms_of(loss, in), k, dy, dx, accumulate);
}

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
    return launch_for(class_score_gradient, l.columns * l.classes, stream(), l, work, dy, dx, accumulate);
  launch(of_weight ? class_weight_gradient : class_state_gradient, blocks_for(of_weight ? l.words : l.columns, 1),
         threads_per_block, stream(), l, work, dy, dx, accumulate);
}

}  // namespace tutti::cuda

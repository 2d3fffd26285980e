// SPDX-License-Identifier: Apache-2.0
// Criteria, and the size of gradients: sums over everything in double, in an order that depends on the sizes alone. The
// host gets them later.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/lanes.h"
#include "backend/cuda/math.h"
#include "backend/cuda/softmax.h"
#include "backend/cuda/sum_up.h"

namespace tutti::cuda {
namespace {

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
__global__ void error_lines(Lines lines, std::size_t top, const float* label, const float* z, double* sums) {
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
    if (D::member() == 0) sums[line] = ahead >= top || own != own ? 1.0 : 0.0;
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

}  // namespace

void CudaDevice::keep_sums(const double* sums, std::size_t count, std::size_t decisive, double* kept) {
  not_while_capturing();
  launch(keep_each, 1, threads_per_block, stream(), sums, count, decisive, kept, halt_);
}

void CudaTensors::scale(float factor, float* x, std::size_t count, double* sum) {
  const bool fours = in_fours(count, x);
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
    launch_on_lines(error_lines<1>, error_lines<32>, error_lines<256>, lines, stream(), loss.top, in[0], in[1], sums);
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
  launch(terms_gradient_each, blocks_for(loss.extent.count()), threads_per_block, stream(), terms_of(loss, in), k, dy,
         dx, accumulate);
}

}  // namespace tutti::cuda

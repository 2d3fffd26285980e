// SPDX-License-Identifier: Apache-2.0
// Along an axis: reductions and the softmax family. And how far the results of algorithms lie apart.
#include <array>

#include "backend/cuda/arrange.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/lanes.h"
#include "backend/cuda/math.h"
#include "backend/cuda/team.h"

namespace tutti::cuda {
namespace {

template <int Team>
__global__ void reduce_lines(Lines lines, ReduceOp op, const float* x, float* y) {
  using D = Distributed<Team>;
  for (std::size_t line = D::first(); line < lines.count; line += D::step()) {
    const float* from = x + lines.at(line);
    float result = 0;
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::mean:
        for (std::size_t i = D::member(); i < lines.size; i += Team) result += from[i * lines.inner];
        result = together<Team>(result, Plus());
        if (op == ReduceOp::mean) result /= static_cast<float>(lines.size);
        break;
      case ReduceOp::log_sum:
        result = log_sum<Team>(from, lines);
        break;
      case ReduceOp::max:
        result = largest<Team>(from, lines);
        break;
      case ReduceOp::min:
        result = from[0];
        for (std::size_t i = D::member(); i < lines.size; i += Team) result = Smaller()(result, from[i * lines.inner]);
        result = together<Team>(result, Smaller());
        break;
    }
    if (D::member() == 0) y[line] = result;
  }
}

__device__ float reduce_derivative(ReduceOp op, float x, float y, std::size_t n) {
  switch (op) {
    case ReduceOp::sum:
      return 1.0f;
    case ReduceOp::mean:
      return 1.0f / static_cast<float>(n);
    case ReduceOp::log_sum:
      return exponential(x - y);
    case ReduceOp::max:
    case ReduceOp::min:
      return x == y ? 1.0f : 0.0f;
  }
  return 0.0f;
}

__global__ void reduce_gradient_each(Lines lines, ReduceOp op, const float* x, const float* y, const float* dy,
                                     float* dx, bool add) {
  const std::size_t count = lines.count * lines.size;
  const bool linear = op == ReduceOp::sum || op == ReduceOp::mean;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t line = e / (lines.size * lines.inner) * lines.inner + e % lines.inner;
    const float g = dy[line] * reduce_derivative(op, linear ? 0.0f : x[e], linear ? 0.0f : y[line], lines.size);
    dx[e] = add ? dx[e] + g : g;
  }
}

template <int Team>
__global__ void softmax_lines(Lines lines, SoftmaxOp op, const float* x, float* y) {
  using D = Distributed<Team>;
  for (std::size_t line = D::first(); line < lines.count; line += D::step()) {
    const float* from = x + lines.at(line);
    float* to = y + lines.at(line);
    switch (op) {
      case SoftmaxOp::softmax:
        softmax_line<Team>(from, to, lines);
        break;
      case SoftmaxOp::log_softmax: {
        const float shift = log_sum<Team>(from, lines);
        for (std::size_t i = D::member(); i < lines.size; i += Team)
          to[i * lines.inner] = from[i * lines.inner] - shift;
        break;
      }
      case SoftmaxOp::hardmax: {
        const unsigned best = first_largest<Team>(from, lines);
        for (std::size_t i = D::member(); i < lines.size; i += Team) to[i * lines.inner] = i == best ? 1.0f : 0.0f;
        break;
      }
    }
  }
}

template <int Team>
__global__ void softmax_gradient_lines(Lines lines, SoftmaxOp op, const float* y, const float* dy, float* dx,
                                       bool add) {
  using D = Distributed<Team>;
  const bool logarithmic = op == SoftmaxOp::log_softmax;
  for (std::size_t line = D::first(); line < lines.count; line += D::step()) {
    const std::size_t at = lines.at(line);
    float total = 0;
    if (op != SoftmaxOp::hardmax)
      for (std::size_t i = D::member(); i < lines.size; i += Team) {
        const std::size_t e = at + i * lines.inner;
        total += logarithmic ? dy[e] : y[e] * dy[e];
      }
    total = together<Team>(total, Plus());
    for (std::size_t i = D::member(); i < lines.size; i += Team) {
      const std::size_t e = at + i * lines.inner;
      const float g = op == SoftmaxOp::hardmax ? 0.0f
                      : logarithmic            ? dy[e] - exponential(y[e]) * total
                                               : y[e] * (dy[e] - total);
      dx[e] = add ? dx[e] + g : g;
    }
  }
}

template <class T>
__global__ void distance_of_block(std::size_t count, const T* expected, const T* got, Distance* to) {
  Distance mine;
  for (std::size_t i = first_element(); i < count; i += element_step()) {
    const auto wanted = static_cast<double>(value_of(expected[i]));
    mine.apart += fabs(static_cast<double>(value_of(got[i])) - wanted);
    mine.size += fabs(wanted);
  }
  mine.apart = together<threads_per_block>(mine.apart, Plus());
  mine.size = together<threads_per_block>(mine.size, Plus());
  if (threadIdx.x == 0) to[blockIdx.x] = mine;
}

template <class T>
__global__ void trial_numbers(std::size_t count, unsigned seed, T* to) {
  for (std::size_t i = first_element(); i < count; i += element_step()) {
    unsigned bits = (static_cast<unsigned>(i) + seed) * 2654435761u;
    bits ^= bits >> 15;
    round_to(to[i], static_cast<float>(static_cast<int>(bits * 2246822519u >> 28) - 8) / 8);
  }
}

}  // namespace

void CudaTensors::reduce(ReduceOp op, const Extent& e, const float* x, float* y) {
  if (e.outer > 0 && e.inner > 0)
    launch_on_lines(reduce_lines<1>, reduce_lines<32>, reduce_lines<256>, lines_of(e), stream(), op, x, y);
}

void CudaTensors::reduce_gradient(ReduceOp op, const Extent& e, const float* x, const float* y, const float* dy,
                                  float* dx, bool accumulate) {
  if (e.count()) launch_for(reduce_gradient_each, e.count(), stream(), lines_of(e), op, x, y, dy, dx, accumulate);
}

void CudaBackend::softmax(SoftmaxOp op, const Extent& e, const float* x, float* y) {
  if (e.count())
    launch_on_lines(softmax_lines<1>, softmax_lines<32>, softmax_lines<256>, lines_of(e), stream(), op, x, y);
}

void CudaBackend::softmax_gradient(SoftmaxOp op, const Extent& e, const float* y, const float* dy, float* dx,
                                   bool accumulate) {
  if (e.count())
    launch_on_lines(softmax_gradient_lines<1>, softmax_gradient_lines<32>, softmax_gradient_lines<256>, lines_of(e),
                    stream(), op, y, dy, dx, accumulate);
}

Distance distance(const void* expected, const void* got, std::size_t count, Element element, cudaStream_t stream) {
  constexpr unsigned blocks = 256;
  constexpr const char* doing = "comparing algorithms";
  Scratch workspace;
  auto* on_device = workspace.reserve<Distance>(blocks);
  with_type(element, [&](auto number) {
    using T = decltype(number);
    launch(distance_of_block<T>, blocks, threads_per_block, stream, count, static_cast<const T*>(expected),
           static_cast<const T*>(got), on_device);
  });
  std::array<Distance, blocks> of_blocks;
  check(cudaMemcpyAsync(of_blocks.data(), on_device, sizeof of_blocks, cudaMemcpyDeviceToHost, stream), doing);
  check(cudaStreamSynchronize(stream), doing);
  Distance all;
  for (const Distance& d : of_blocks) all.apart += d.apart, all.size += d.size;
  return all;
}

void put_trial_numbers(void* to, std::size_t count, Element element, unsigned seed, cudaStream_t stream) {
  with_type(element, [&](auto number) {
    using T = decltype(number);
    launch_for(trial_numbers<T>, count, stream, count, seed, static_cast<T*>(to));
  });
}

}  // namespace tutti::cuda

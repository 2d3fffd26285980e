// SPDX-License-Identifier: Apache-2.0
// softmax.h -- reductions and criteria over one line, by a team of threads.
#pragma once

#include "backend/cuda/math.h"
#include "backend/cuda/team.h"

namespace tutti::cuda {

template <int Team>
__device__ inline float largest(const float* x, const Lines& lines) {
  float best = x[0];
  for (std::size_t i = Distributed<Team>::member(); i < lines.size; i += Team)
    best = Larger()(best, x[i * lines.inner]);
  return together<Team>(best, Larger());
}

// The index of the first maximum; NaN loses, except in first place.
template <int Team>
__device__ inline unsigned first_largest(const float* x, const Lines& lines) {
  float best = x[0];
  unsigned at = 0;
  for (std::size_t i = Distributed<Team>::member(); i < lines.size; i += Team)
    if (const float v = x[i * lines.inner]; v > best) best = v, at = static_cast<unsigned>(i);
  struct Beats {
    __device__ float operator()(float a, float b) const { return b > a ? b : a; }
  };
  const float top = together<Team>(best, Beats());
  return together<Team>(best == top ? at : best != best ? 0u : 0xffffffffu, Least());
}

template <int Team>
__device__ inline float exponential_sum(const float* x, float shift, const Lines& lines) {
  float total = 0;
  for (std::size_t i = Distributed<Team>::member(); i < lines.size; i += Team)
    total += exponential(x[i * lines.inner] - shift);
  return together<Team>(total, Plus());
}

template <int Team>
__device__ inline float log_sum(const float* x, const Lines& lines) {
  const float shift = largest<Team>(x, lines);
  return shift + logarithm(exponential_sum<Team>(x, shift, lines));
}

// Returns the logarithm of the sum of exponentials.
template <int Team>
__device__ inline float softmax_line(const float* x, float* y, const Lines& lines) {
  const float shift = largest<Team>(x, lines), total = exponential_sum<Team>(x, shift, lines), scale = 1.0f / total;
  for (std::size_t i = Distributed<Team>::member(); i < lines.size; i += Team)
    y[i * lines.inner] = exponential(x[i * lines.inner] - shift) * scale;
  return shift + logarithm(total);
}

}  // namespace tutti::cuda

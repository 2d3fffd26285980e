// SPDX-License-Identifier: Apache-2.0
// team.h -- threads that process one line together: one thread, a warp, or a block. Every member gets the result. The
// order of a sum depends only on the size of the team.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/math.h"
#include "base/cuda/launch.h"
#include "tutti/backend.h"

namespace tutti::cuda {

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
// NaN wins.
struct Larger {
  __device__ float operator()(float a, float b) const { return b > a ? b : b != b ? b : a; }
};
struct Smaller {
  __device__ float operator()(float a, float b) const { return b < a ? b : b != b ? b : a; }
};
struct Least {
  __device__ unsigned operator()(unsigned a, unsigned b) const { return b < a ? b : a; }
};

template <int Team, class T, class Op>
__device__ inline T together(T v, Op op) {
  if constexpr (Team == 1) return v;
  constexpr int lanes = Team < 32 ? Team : 32;
  for (int by = lanes / 2; by > 0; by /= 2) v = op(v, __shfl_xor_sync(0xffffffffu, v, by));
  if constexpr (Team > 32) {
    __shared__ T of_warp[Team / 32];
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    v = of_warp[0];
    for (int w = 1; w < Team / 32; ++w) v = op(v, of_warp[w]);
    __syncthreads();
  }
  return v;
}

// How lines are distributed to teams: blocks of `threads`, teams per block, index of the member.
template <int Team>
struct Distributed {
  static constexpr unsigned threads = Team > 128 ? Team : 128;
  static constexpr unsigned teams = threads / Team;
  static unsigned blocks(std::size_t lines) { return blocks_for(lines, teams); }
  __device__ static std::size_t first() { return static_cast<std::size_t>(blockIdx.x) * teams + threadIdx.x / Team; }
  __device__ static std::size_t step() { return static_cast<std::size_t>(gridDim.x) * teams; }
  __device__ static unsigned member() { return threadIdx.x % Team; }
};

// Lines of `size` along the middle axis of an extent.
struct Lines {
  std::size_t count, size, inner;
  __device__ std::size_t at(std::size_t line) const { return line / inner * size * inner + line % inner; }
};
inline Lines lines_of(const Extent& e) { return {e.outer * e.inner, e.size, e.inner}; }

// Launches the kernel with the team that reads these lines best (one thread, a warp, a block): neighbouring threads
// should read neighbouring floats.
template <class... Wanted, class... Given>
void launch_on_lines(void (*one)(Lines, Wanted...), void (*warp)(Lines, Wanted...), void (*block)(Lines, Wanted...),
                     const Lines& lines, cudaStream_t stream, const Given&... given) {
  if (lines.inner >= 32 || lines.size == 1)
    launch(one, Distributed<1>::blocks(lines.count), Distributed<1>::threads, stream, lines, given...);
  else if (lines.size <= 2048)
    launch(warp, Distributed<32>::blocks(lines.count), Distributed<32>::threads, stream, lines, given...);
  else
    launch(block, Distributed<256>::blocks(lines.count), Distributed<256>::threads, stream, lines, given...);
}

// Reductions and criteria over one line.
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

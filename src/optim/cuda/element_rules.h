// SPDX-License-Identifier: Apache-2.0
// element_rules.h -- besides the rules of optim/element_rules.h, those that only GPUs need: sums, norms, noise, and
// rules fused into one pass. Compiled without fused multiply-add.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "optim/element_rules.h"
#include "optim/noise_formula.h"

namespace tutti::optim::cuda {

struct Squares {
  static constexpr Turn turn = Turn::squares;
  const float* g;
  __device__ double operator()(std::size_t i) const { return static_cast<double>(g[i]) * g[i]; }
};

struct LimitNorm {
  static constexpr Turn turn = Turn::norm;
  float* g;
  const double* squares;
  double limit;
  struct Scale {
    float *g, factor;
    __device__ void operator()(std::size_t i) const {
      if (factor != 1.0f) g[i] *= factor;
    }
  };
  __device__ Scale begun() const {
    const double norm = sqrt(*squares);
    return {g, norm > limit ? static_cast<float>(limit / norm) : 1.0f};
  }
};

struct Noise {
  static constexpr Turn turn = Turn::noise;
  float* w;
  double deviation;
  std::uint64_t step, first;
  __device__ void operator()(std::size_t i) const {
    const auto p = noise::polar(step, first + i);
    w[i] += static_cast<float>(deviation * (p.a * sqrt(p.square)));
  }
};

// A rule with the gradient as stored.
template <class Rule, Turn When>
struct Plainly {
  static constexpr Turn turn = When;
  Rule rule;
  __device__ auto operator()(std::size_t i) const { return rule(i, rule.g[i]); }
};

// A rule with the gradient plus a penalty, as AddScaled adds it: memory is read once, and the gradient is not changed.
template <class Rule, Turn When>
struct Penalised {
  static constexpr Turn turn = When;
  Rule rule;
  AddScaled penalty;
  __device__ auto operator()(std::size_t i) const { return rule(i, penalty.g[i] + penalty.factor * penalty.w[i]); }
};

struct DescendByMean {
  static constexpr Turn turn = Turn::rule;
  float* w;
  const float* g;
  float rate;
  const double* sum;
  double count;
  __device__ Plainly<Descend, turn> begun() const { return {{w, g, rate / static_cast<float>(*sum / count)}}; }
};

// What a thread computes before its elements.
template <class Rule>
__device__ auto begun(const Rule& rule) {
  if constexpr (requires { rule.begun(); })
    return rule.begun();
  else
    return rule;
}

}  // namespace tutti::optim::cuda

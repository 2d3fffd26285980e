// SPDX-License-Identifier: Apache-2.0
// element_rules.h -- what the element loops of optim/kernels_impl.h do to one element, operation by operation. Compiled
// without fused multiply-add.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "optim/kernels.h"
#include "optim/noise_formula.h"

namespace tutti::optim::cuda {

// The order in which the elements of a run are worked on, whatever is left out.
enum class Turn { squares, norm, clip, penalty, scaling, rule, noise, shrinkage };

// Rules get the gradient of an element, so that what stands before them can change it on its way.
struct Descend {
  float* w;
  const float* g;
  float rate;
  __device__ void operator()(std::size_t i, float x) const { w[i] -= rate * x; }
};

struct Momentum {
  float* w;
  const float* g;
  float *s, mu, gain;
  __device__ void operator()(std::size_t i, float x) const {
    const float next = mu * s[i] + gain * x;
    s[i] = next;
    w[i] -= next;
  }
};

struct Nesterov {
  float* w;
  const float* g;
  float *s, mu, gain;
  __device__ void operator()(std::size_t i, float x) const {
    const float push = gain * x;
    const float next = mu * s[i] + push;
    s[i] = next;
    w[i] -= mu * next + push;
  }
};

struct SparseMomentum {
  float* w;
  const float* g;
  float *s, mu, rate;
  __device__ void operator()(std::size_t i, float x) const {
    const float fresh = 1.0f - mu;
    const float next = mu * s[i] + fresh * x;
    s[i] = next;
    w[i] -= rate * next;
  }
};

struct SparseNesterov {
  float* w;
  const float* g;
  float *s, mu, rate;
  __device__ void operator()(std::size_t i, float x) const {
    const float fresh = 1.0f - mu;
    const float push = fresh * x;
    const float next = mu * s[i] + push;
    s[i] = next;
    w[i] -= rate * (mu * next + push);
  }
};

struct Truncate {
  static constexpr Turn turn = Turn::clip;
  float *g, limit;
  __device__ void operator()(std::size_t i) const {
    const float x = g[i];
    const float low = x < -limit ? -limit : x;
    g[i] = low > limit ? limit : low;
  }
};

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

struct AddScaled {
  static constexpr Turn turn = Turn::penalty;
  float* g;
  const float* w;
  float factor;
  __device__ void operator()(std::size_t i) const { g[i] += factor * w[i]; }
};

struct Shrink {
  static constexpr Turn turn = Turn::shrinkage;
  float *w, threshold;
  __device__ void operator()(std::size_t i) const {
    const float x = w[i];
    const float down = x - threshold, up = x + threshold;
    const float inner = x < -threshold ? up : (x != x ? x : 0.0f);
    w[i] = x > threshold ? down : inner;
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

// Rules that scale give the multiplier.
struct Adagrad {
  float *g, *a;
  __device__ double operator()(std::size_t i, float x) const {
    const float squares = a[i] + x * x;
    const float denominator = sqrtf(squares + 1e-16f);
    a[i] = squares;
    g[i] = x / denominator;
    return 1.0f / denominator;
  }
};

struct RmsProp {
  float *g, *a, *step, *sign;
  RmsConstants c;
  __device__ double operator()(std::size_t i, float x) const {
    const float square = x * x;
    const bool first = step[i] == 0.0f;
    const float last = first ? square : a[i];
    const float before = first ? 0.02f : step[i];
    const float mean = c.gamma * last + (1.0f - c.gamma) * square;
    const float grown = before * c.increase, shrunk = before * c.decrease;
    const float up = grown > c.largest ? c.largest : grown;
    const float down = shrunk < c.smallest ? c.smallest : shrunk;
    const float now = x * sign[i] > 0.0f ? up : down;
    const float factor = now / sqrtf(mean + 1e-6f);
    a[i] = mean;
    step[i] = now;
    sign[i] = x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : 0.0f);
    g[i] = x * factor;
    return factor;
  }
};

template <bool Smooth>
struct FsAdagrad {
  float* w;
  const float* g;
  float *a, *m;
  FsAdagradConstants c;
  __device__ void operator()(std::size_t i, float x) const {
    const float squares = c.keep * a[i] + (1.0f - c.keep) * (x * x);
    a[i] = squares;
    const float ratio = c.target / sqrtf(squares != 0.0f ? squares : 1.0f);
    const float limited = ratio > 10.0f ? 10.0f : ratio;
    const float normalised = squares != 0.0f ? x * limited : x;
    if constexpr (Smooth) {
      const float next = c.momentum * m[i] + (1.0f - c.momentum) * normalised;
      m[i] = next;
      w[i] -= c.rate * next;
    } else {
      w[i] -= c.rate * normalised;
    }
  }
};

struct Adam {
  float* w;
  const float* g;
  float *m, *v;
  AdamConstants c;
  __device__ void operator()(std::size_t i, float gradient) const {
    const float x = gradient * c.inverse_n;
    const float mean = c.beta1 * m[i] + (1.0f - c.beta1) * x;
    const float square = c.beta2 * v[i] + (1.0f - c.beta2) * (x * x);
    m[i] = mean;
    v[i] = square;
    w[i] -= c.rate * mean / (sqrtf(square) * c.root_correction + c.epsilon);
  }
};

struct Textbook {
  float* w;
  const float* g;
  float* a;
  TextbookConstants c;
  __device__ void operator()(std::size_t i, float gradient) const {
    const float x = gradient * c.inverse_n;
    const float square = c.decay * a[i] + (1.0f - c.decay) * (x * x);
    a[i] = square;
    w[i] -= c.rate * x / (sqrtf(square) + c.epsilon);
  }
};

// A rule by the gradient as it lies in memory.
template <class Rule, Turn When>
struct Plainly {
  static constexpr Turn turn = When;
  Rule rule;
  __device__ auto operator()(std::size_t i) const { return rule(i, rule.g[i]); }
};

// By the gradient and a penalty, as AddScaled adds it: memory is passed over once, and the gradient stays as it is.
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

// What a thread works out before its elements.
template <class Rule>
__device__ auto begun(const Rule& rule) {
  if constexpr (requires { rule.begun(); })
    return rule.begun();
  else
    return rule;
}

}  // namespace tutti::optim::cuda

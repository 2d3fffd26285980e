// SPDX-License-Identifier: Apache-2.0
// element_rules.h -- optimizer formulas for one element, shared by CPU and GPU so that both compute the same operations
// in the same order, without fused multiply-add. Functions are constexpr so that GPU kernels can use them. On the host
// they have internal linkage in every source, so that code for newer processors never reaches other sources.
#pragma once

#include <cstddef>
#include <cstdint>

#include "optim/kernels.h"

namespace tutti::optim {
#ifdef __CUDACC__
namespace cuda {
#else
namespace {
#endif

#ifdef __CUDA_ARCH__
__device__ inline float root(float x) { return sqrtf(x); }
#else
constexpr float root(float x) { return __builtin_sqrtf(x); }
#endif

// The order in which elements are processed, whatever is skipped.
enum class Turn { squares, norm, clip, penalty, scaling, rule, noise, shrinkage };

// Rules read the gradient through a functor, so that earlier stages can change it.
struct Descend {
  float* w;
  const float* g;
  float rate;
  constexpr void operator()(std::size_t i, float x) const { w[i] -= rate * x; }
};

struct Momentum {
  float* w;
  const float* g;
  float *s, mu, gain;
  constexpr void operator()(std::size_t i, float x) const {
    const float next = mu * s[i] + gain * x;
    s[i] = next;
    w[i] -= next;
  }
};

struct Nesterov {
  float* w;
  const float* g;
  float *s, mu, gain;
  constexpr void operator()(std::size_t i, float x) const {
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
  constexpr void operator()(std::size_t i, float x) const {
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
  constexpr void operator()(std::size_t i, float x) const {
    const float fresh = 1.0f - mu;
    const float push = fresh * x;
    const float next = mu * s[i] + push;
    s[i] = next;
    w[i] -= rate * (mu * next + push);
  }
};

// Comparisons are written so that a NaN gradient stays NaN and is detected.
struct Truncate {
  static constexpr Turn turn = Turn::clip;
  float *g, limit;
  constexpr void operator()(std::size_t i) const {
    const float x = g[i];
    const float low = x < -limit ? -limit : x;
    g[i] = low > limit ? limit : low;
  }
};

struct AddScaled {
  static constexpr Turn turn = Turn::penalty;
  float* g;
  const float* w;
  float factor;
  constexpr void operator()(std::size_t i) const { g[i] += factor * w[i]; }
};

struct Shrink {
  static constexpr Turn turn = Turn::shrinkage;
  float *w, threshold;
  constexpr void operator()(std::size_t i) const {
    const float x = w[i];
    const float down = x - threshold, up = x + threshold;
    const float inner = x < -threshold ? up : (x != x ? x : 0.0f);
    w[i] = x > threshold ? down : inner;
  }
};

// Rules that scale gradients return the multiplier.
struct Adagrad {
  float *g, *a;
  constexpr double operator()(std::size_t i, float x) const {
    const float squares = a[i] + x * x;
    const float denominator = root(squares + 1e-16f);
    a[i] = squares;
    g[i] = x / denominator;
    return 1.0f / denominator;
  }
};

// A step of 0 marks an element that was never updated.
struct RmsProp {
  float *g, *a, *step, *sign;
  RmsConstants c;
  constexpr double operator()(std::size_t i, float x) const {
    const float square = x * x;
    const bool first = step[i] == 0.0f;
    const float last = first ? square : a[i];
    const float before = first ? 0.02f : step[i];
    const float mean = c.gamma * last + (1.0f - c.gamma) * square;
    const float grown = before * c.increase, shrunk = before * c.decrease;
    const float up = grown > c.largest ? c.largest : grown;
    const float down = shrunk < c.smallest ? c.smallest : shrunk;
    const float now = x * sign[i] > 0.0f ? up : down;
    const float factor = now / root(mean + 1e-6f);
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
  constexpr void operator()(std::size_t i, float x) const {
    const float squares = c.keep * a[i] + (1.0f - c.keep) * (x * x);
    a[i] = squares;
    const float ratio = c.target / root(squares != 0.0f ? squares : 1.0f);
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
  constexpr void operator()(std::size_t i, float gradient) const {
    const float x = gradient * c.inverse_n;
    const float mean = c.beta1 * m[i] + (1.0f - c.beta1) * x;
    const float square = c.beta2 * v[i] + (1.0f - c.beta2) * (x * x);
    m[i] = mean;
    v[i] = square;
    w[i] -= c.rate * mean / (root(square) * c.root_correction + c.epsilon);
  }
};

struct Textbook {
  float* w;
  const float* g;
  float* a;
  TextbookConstants c;
  constexpr void operator()(std::size_t i, float gradient) const {
    const float x = gradient * c.inverse_n;
    const float square = c.decay * a[i] + (1.0f - c.decay) * (x * x);
    a[i] = square;
    w[i] -= c.rate * x / (root(square) + c.epsilon);
  }
};

}  // namespace
}  // namespace tutti::optim

// SPDX-License-Identifier: Apache-2.0
// The one source of the element loops; included by one .cpp per instruction set, whose compiler flags decide the width.
// Everything has internal linkage and calls no library function, so that no code for a wide set leaks into the rest.
#pragma once

#include "optim/kernels.h"

namespace tutti::optim {
namespace {

constexpr std::size_t lanes = 16;

inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

// Calls body(i) for i in [0, n). No software prefetch: the processor alone was measured to be faster.
template <class Body>
inline __attribute__((always_inline)) void each(std::size_t n, Body body) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) body(i);
}

void descend(float* w, const float* g, std::size_t n, float rate) {
  each(n, [=](std::size_t i) { w[i] -= rate * g[i]; });
}

void momentum(float* w, const float* g, float* s, std::size_t n, float mu, float gain) {
  each(n, [=](std::size_t i) {
    const float next = mu * s[i] + gain * g[i];
    s[i] = next;
    w[i] -= next;
  });
}

void nesterov(float* w, const float* g, float* s, std::size_t n, float mu, float gain) {
  each(n, [=](std::size_t i) {
    const float push = gain * g[i];
    const float next = mu * s[i] + push;
    s[i] = next;
    w[i] -= mu * next + push;
  });
}

void sparse_momentum(float* w, const float* g, float* s, std::size_t n, float mu, float rate) {
  const float fresh = 1.0f - mu;
  each(n, [=](std::size_t i) {
    const float next = mu * s[i] + fresh * g[i];
    s[i] = next;
    w[i] -= rate * next;
  });
}

void sparse_nesterov(float* w, const float* g, float* s, std::size_t n, float mu, float rate) {
  const float fresh = 1.0f - mu;
  each(n, [=](std::size_t i) {
    const float push = fresh * g[i];
    const float next = mu * s[i] + push;
    s[i] = next;
    w[i] -= rate * (mu * next + push);
  });
}

// Comparisons are written so that a gradient that is not a number stays one and is seen by whoever looks for it.
void truncate(float* g, std::size_t n, float limit) {
  for (std::size_t i = 0; i < n; ++i) {
    const float x = g[i];
    const float low = x < -limit ? -limit : x;
    g[i] = low > limit ? limit : low;
  }
}

void add_scaled(float* __restrict g, const float* __restrict w, std::size_t n, float factor) {
  for (std::size_t i = 0; i < n; ++i) g[i] += factor * w[i];
}

void shrink(float* w, std::size_t n, float threshold) {
  for (std::size_t i = 0; i < n; ++i) {
    const float x = w[i];
    const float down = x - threshold, up = x + threshold;
    const float inner = x < -threshold ? up : (x != x ? x : 0.0f);
    w[i] = x > threshold ? down : inner;
  }
}

double total(const double* sums) {
  double all = 0;
  for (std::size_t l = 0; l < lanes; ++l) all += sums[l];
  return all;
}

// Adds body(i) for i in [0, n) in fixed lanes.
template <class Body>
inline __attribute__((always_inline)) double sum(std::size_t n, Body body) {
  double sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    float part[lanes];
#pragma GCC ivdep
    for (std::size_t l = 0; l < lanes; ++l) part[l] = body(i + l);
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += part[l];
  }
  for (std::size_t l = 0; i < n; ++i, ++l) sums[l] += body(i);
  return total(sums);
}

void clear_sums(double* sums, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sums[i] = 0;
}

void add_squares(const float* g, std::size_t n, double* sum) {
  double sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += static_cast<double>(g[i + l]) * g[i + l];
  for (std::size_t l = 0; i < n; ++i, ++l) sums[l] += static_cast<double>(g[i]) * g[i];
  *sum += total(sums);
}

void limit_norm(float* g, std::size_t n, const double* squares, double limit) {
  const double norm = root(*squares);
  if (!(norm > limit)) return;
  const auto factor = static_cast<float>(limit / norm);
  for (std::size_t i = 0; i < n; ++i) g[i] *= factor;
}

void descend_by_mean(float* w, const float* g, std::size_t n, float rate, const double* sum, std::size_t count) {
  descend(w, g, n, rate / static_cast<float>(*sum / static_cast<double>(count)));
}

void adagrad(float* g, float* a, std::size_t n, double* to) {
  const double multipliers = sum(n, [=](std::size_t i) {
    const float x = g[i];
    const float squares = a[i] + x * x;
    const float denominator = root(squares + 1e-16f);
    a[i] = squares;
    g[i] = x / denominator;
    return 1.0f / denominator;
  });
  if (to) *to += multipliers;
}

// A step of 0 marks an element that has not been updated yet.
void rms_prop(float* g, float* a, float* step, float* sign, std::size_t n, const RmsConstants& constants, double* to) {
  const RmsConstants c = constants;
  const double multipliers = sum(n, [=](std::size_t i) {
    const float x = g[i], square = x * x;
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
  });
  if (to) *to += multipliers;
}

void fs_adagrad(float* w, const float* g, float* a, float* m, std::size_t n, const FsAdagradConstants& constants) {
  const FsAdagradConstants c = constants;
  const bool smooth = c.momentum > 0.0f;
  const auto normalised = [=](std::size_t i) {
    const float x = g[i];
    const float squares = c.keep * a[i] + (1.0f - c.keep) * (x * x);
    a[i] = squares;
    const float ratio = c.target / root(squares != 0.0f ? squares : 1.0f);
    const float limited = ratio > 10.0f ? 10.0f : ratio;
    return squares != 0.0f ? x * limited : x;
  };
  if (smooth) {
    each(n, [=](std::size_t i) {
      const float next = c.momentum * m[i] + (1.0f - c.momentum) * normalised(i);
      m[i] = next;
      w[i] -= c.rate * next;
    });
  } else {
    each(n, [=](std::size_t i) { w[i] -= c.rate * normalised(i); });
  }
}

void adam(float* w, const float* g, float* m, float* v, std::size_t n, const AdamConstants& constants) {
  const AdamConstants c = constants;
  each(n, [=](std::size_t i) {
    const float x = g[i] * c.inverse_n;
    const float mean = c.beta1 * m[i] + (1.0f - c.beta1) * x;
    const float square = c.beta2 * v[i] + (1.0f - c.beta2) * (x * x);
    m[i] = mean;
    v[i] = square;
    w[i] -= c.rate * mean / (root(square) * c.root_correction + c.epsilon);
  });
}

void contribute(float* g, const float* m, const float* v, std::size_t n, float share, float fresh) {
  each(n, [=](std::size_t i) {
    const float part = share * m[i] + fresh * g[i];
    g[i] = v[i] != 0.0f ? part : 0.0f;
  });
}

void frozen_adam(float* w, const float* g, float* m, const float* v, std::size_t n, const AdamConstants& constants) {
  const AdamConstants c = constants;
  each(n, [=](std::size_t i) {
    const float square = v[i], sum = c.beta1 * m[i] + g[i];
    const float mean = square != 0.0f ? sum : 0.0f;
    m[i] = mean;
    w[i] -= c.rate * mean / (root(square) * c.root_correction + c.epsilon);
  });
}

void rms_prop_textbook(float* w, const float* g, float* a, std::size_t n, const TextbookConstants& constants) {
  const TextbookConstants c = constants;
  each(n, [=](std::size_t i) {
    const float x = g[i] * c.inverse_n;
    const float square = c.decay * a[i] + (1.0f - c.decay) * (x * x);
    a[i] = square;
    w[i] -= c.rate * x / (root(square) + c.epsilon);
  });
}

void clear(float* s, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) s[i] = 0;
}

constexpr Kernels make_table(const char* name) {
  constexpr std::size_t block = 2048;  // four streams of them fit the first cache
  return {
      name,       block,           descend,    momentum,  nesterov,          sparse_momentum, sparse_nesterov, truncate,
      add_scaled, shrink,          clear,      add_noise, clear_sums,        add_squares,     limit_norm,      adagrad,
      rms_prop,   descend_by_mean, fs_adagrad, adam,      rms_prop_textbook, contribute,      frozen_adam,     nullptr,
      nullptr};
}

}  // namespace
}  // namespace tutti::optim

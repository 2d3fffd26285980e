// SPDX-License-Identifier: Apache-2.0
// weight_formulas.h -- formulas of weight exchanges for one element, shared by CPU and GPU so that both compute the
// same operations in the same order. Used by weight_kernels.h. w: weights of this rank; p: common weights; sum: sum of
// the ranks' offers. Functions are constexpr so that GPU kernels can use them.
#pragma once

#include <cmath>
#include <cstddef>

namespace tutti::weights {

struct Copy {
  const float* from;
  float* to;
  constexpr void operator()(std::size_t i) const { to[i] = from[i]; }
};

struct Swap {
  float *a, *b;
  constexpr void operator()(std::size_t i) const {
    const float v = a[i];
    a[i] = b[i], b[i] = v;
  }
};

// offer = factor (p - w)
struct Offer {
  const float *p, *w;
  float* offer;
  float factor;
  constexpr void operator()(std::size_t i) const { offer[i] = factor * (p[i] - w[i]); }
};

// The same for a rank that carries its residual, `lost`, in the units of offers.
struct OfferCarried {
  const float *p, *w, *lost;
  float* offer;
  float factor, carry;
  constexpr void operator()(std::size_t i) const { offer[i] = factor * ((p[i] - carry * lost[i]) - w[i]); }
};

// w = p minus the undelivered residual
struct Carry {
  const float *p, *lost;
  float* w;
  float carry;
  constexpr void operator()(std::size_t i) const { w[i] = p[i] - carry * lost[i]; }
};

// w = p = p - rate sum
struct Descend {
  float *w, *p;
  const float* sum;
  float rate;
  constexpr void operator()(std::size_t i) const { w[i] = p[i] = p[i] - rate * sum[i]; }
};

// s = momentum s + sum; w = p = p - s - ahead s
struct Smooth {
  float *w, *p, *s;
  const float* sum;
  float momentum, ahead;
  constexpr void operator()(std::size_t i) const {
    const float next = momentum * s[i] + sum[i];
    s[i] = next;
    w[i] = p[i] = (p[i] - next) - ahead * next;
  }
};

// v = momentum v + sum; w = p = p - rate (sum + momentum v)
struct Nesterov {
  float *w, *p, *v;
  const float* sum;
  float rate, momentum;
  constexpr void operator()(std::size_t i) const {
    const float next = momentum * v[i] + sum[i];
    v[i] = next;
    w[i] = p[i] = p[i] - rate * (sum[i] + momentum * next);
  }
};

// Rate and unbias include the bias corrections of the step.
struct Adam {
  float *w, *p, *m, *v;
  const float* sum;
  float beta1, beta2, rate, unbias, epsilon;
  constexpr void operator()(std::size_t i) const {
    const float g = sum[i];
    const float mean = beta1 * m[i] + (1 - beta1) * g, square = beta2 * v[i] + (1 - beta2) * g * g;
    m[i] = mean, v[i] = square;
    w[i] = p[i] = p[i] - rate * mean / (std::sqrt(square * unbias) + epsilon);
  }
};

// offer = rate (p - w); w += offer
struct Pull {
  const float* p;
  float *w, *offer;
  float rate;
  constexpr void operator()(std::size_t i) const {
    const float step = rate * (p[i] - w[i]);
    offer[i] = step;
    w[i] += step;
  }
};

struct Clear {
  float* values;
  constexpr void operator()(std::size_t i) const { values[i] = 0; }
};

struct Difference {
  const float *a, *b;
  float* to;
  constexpr void operator()(std::size_t i) const { to[i] = a[i] - b[i]; }
};

// step = rate (common - known): w and its known value move by step towards the common weights, and these towards w
struct Approach {
  float *w, *known, *common;
  float rate;
  constexpr void operator()(std::size_t i) const {
    const float step = rate * (common[i] - known[i]);
    w[i] += step, common[i] -= step, known[i] += step;
  }
};

struct Add {
  const float* from;
  float* to;
  constexpr void operator()(std::size_t i) const { to[i] += from[i]; }
};

struct Subtract {
  const float* from;
  float* to;
  constexpr void operator()(std::size_t i) const { to[i] -= from[i]; }
};

// before = w - before: what was learned since
struct Learned {
  const float* w;
  float* before;
  constexpr void operator()(std::size_t i) const { before[i] = w[i] - before[i]; }
};

// w = share of own weights + the rest of w
struct Mix {
  const float* own;
  float* w;
  float share;
  constexpr void operator()(std::size_t i) const { w[i] = share * own[i] + (1 - share) * w[i]; }
};

}  // namespace tutti::weights

// SPDX-License-Identifier: Apache-2.0
// The one source of the element loops; included by one .cpp per instruction set, whose compiler flags decide the width.
// Everything has internal linkage and calls no library function, so that no code for a wide set leaks into the rest.
#pragma once

#include "optim/element_rules.h"

namespace tutti::optim {
namespace {

constexpr std::size_t lanes = 16;

// Calls body(i) for i in [0, n). No software prefetch: the processor alone was measured to be faster.
template <class Body>
inline __attribute__((always_inline)) void each(std::size_t n, Body body) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) body(i);
}

// By the gradient as it lies in memory.
template <class Rule>
inline __attribute__((always_inline)) void apply(const Rule& rule, std::size_t n) {
  each(n, [rule](std::size_t i) { rule(i, rule.g[i]); });
}

void descend(float* w, const float* g, std::size_t n, float rate) { apply(Descend{w, g, rate}, n); }

void momentum(float* w, const float* g, float* s, std::size_t n, float mu, float gain) {
  apply(Momentum{w, g, s, mu, gain}, n);
}

void nesterov(float* w, const float* g, float* s, std::size_t n, float mu, float gain) {
  apply(Nesterov{w, g, s, mu, gain}, n);
}

void sparse_momentum(float* w, const float* g, float* s, std::size_t n, float mu, float rate) {
  apply(SparseMomentum{w, g, s, mu, rate}, n);
}

void sparse_nesterov(float* w, const float* g, float* s, std::size_t n, float mu, float rate) {
  apply(SparseNesterov{w, g, s, mu, rate}, n);
}

void truncate(float* g, std::size_t n, float limit) { each(n, Truncate{g, limit}); }

void add_scaled(float* g, const float* w, std::size_t n, float factor) { each(n, AddScaled{g, w, factor}); }

void shrink(float* w, std::size_t n, float threshold) { each(n, Shrink{w, threshold}); }

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
  const double norm = __builtin_sqrt(*squares);
  if (!(norm > limit)) return;
  const auto factor = static_cast<float>(limit / norm);
  for (std::size_t i = 0; i < n; ++i) g[i] *= factor;
}

void descend_by_mean(float* w, const float* g, std::size_t n, float rate, const double* sum, std::size_t count) {
  descend(w, g, n, rate / static_cast<float>(*sum / static_cast<double>(count)));
}

void adagrad(float* g, float* a, std::size_t n, double* to) {
  const double multipliers = sum(n, [rule = Adagrad{g, a}](std::size_t i) { return rule(i, rule.g[i]); });
  if (to) *to += multipliers;
}

void rms_prop(float* g, float* a, float* step, float* sign, std::size_t n, const RmsConstants& c, double* to) {
  const double multipliers =
      sum(n, [rule = RmsProp{g, a, step, sign, c}](std::size_t i) { return rule(i, rule.g[i]); });
  if (to) *to += multipliers;
}

void fs_adagrad(float* w, const float* g, float* a, float* m, std::size_t n, const FsAdagradConstants& c) {
  if (c.momentum > 0.0f)
    apply(FsAdagrad<true>{w, g, a, m, c}, n);
  else
    apply(FsAdagrad<false>{w, g, a, m, c}, n);
}

void adam(float* w, const float* g, float* m, float* v, std::size_t n, const AdamConstants& c) {
  apply(Adam{w, g, m, v, c}, n);
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

void rms_prop_textbook(float* w, const float* g, float* a, std::size_t n, const TextbookConstants& c) {
  apply(Textbook{w, g, a, c}, n);
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

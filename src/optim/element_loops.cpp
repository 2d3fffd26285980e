// SPDX-License-Identifier: Apache-2.0
// The one source of the element loops, compiled once per instruction set; the compiler flags decide the width.
// Everything has internal linkage and calls no library function, so that no code for a wide set leaks into the rest.
#include "optim/kernels.h"

namespace tutti::optim {
namespace {

constexpr std::size_t lanes = 16;

// Calls body(i) for i in [0, n). No software prefetch: the processor alone was measured to be faster.
template <class Body>
inline __attribute__((always_inline)) void each(std::size_t n, Body body) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) body(i);
}

template <class Rule>
void apply(const Rule& rule, std::size_t n) {
  if constexpr (ReadsGradient<Rule>)
    each(n, Plainly<Rule, Turn::rule>{rule});
  else
    each(n, begun(rule));
}

// In fixed lanes.
template <class Rule>
void add(const Rule& rule, std::size_t n, double* sum) {
  const auto value = [rule](std::size_t i) __attribute__((always_inline)) {
    if constexpr (ReadsGradient<Rule>)
      return rule(i, rule.g[i]);
    else
      return rule(i);
  };
  double sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    decltype(value(i)) part[lanes];
#pragma GCC ivdep
    for (std::size_t l = 0; l < lanes; ++l) part[l] = value(i + l);
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += part[l];
  }
  for (std::size_t l = 0; i < n; ++i, ++l) sums[l] += value(i);
  double all = 0;
  for (std::size_t l = 0; l < lanes; ++l) all += sums[l];
  if (sum) *sum += all;
}

template <class T>
void clear(T* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] = 0;
}

template <class... Rule>
constexpr std::tuple<Kernels::Loop<Rule>...> loops_of(std::tuple<Kernels::Loop<Rule>...>) {
  return {apply<Rule>...};
}
template <class... Rule>
constexpr std::tuple<Kernels::Sum<Rule>...> sums_of(std::tuple<Kernels::Sum<Rule>...>) {
  return {add<Rule>...};
}

}  // namespace

template <>
const Kernels& kernels<compiled_for>() {
  constexpr std::size_t block = 2048;  // four streams of them fit the first cache
  static constexpr Kernels table = {compiled_name,
                                    block,
                                    loops_of(decltype(Kernels::loops)()),
                                    sums_of(decltype(Kernels::sums)()),
                                    clear<float>,
                                    clear<double>,
                                    nullptr,
                                    nullptr};
  return table;
}

}  // namespace tutti::optim

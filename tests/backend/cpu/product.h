// SPDX-License-Identifier: Apache-2.0
// product.h -- a matrix product with made-up operands, and what must come out.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tutti/tensor_ops.h"

namespace tutti::product_test {

struct Product {
  Gemm g;
  std::vector<float> a, b, c;
  // Strides wider than the rows by `slack`; what lies between must stay as it is.
  Product(Gemm shape, std::size_t slack, bool whole_numbers, unsigned seed) : g(shape) {
    g.lda = (g.transpose_a ? g.m : g.k) + slack;
    g.ldb = (g.transpose_b ? g.k : g.n) + slack;
    g.ldc = g.n + slack;
    std::mt19937 random(seed);
    const auto fill = [&](std::vector<float>& v, std::size_t n) {
      v.resize(n + 1);
      for (auto& x : v)
        x = whole_numbers ? static_cast<float>(static_cast<int>(random() % 17) - 8)
                          : static_cast<float>(random()) / 2147483648.0f - 1.0f;
    };
    fill(a, g.lda * (g.transpose_a ? g.k : g.m)), fill(b, g.ldb * (g.transpose_b ? g.n : g.k)), fill(c, g.ldc * g.m);
  }
  // `as` gives the value as which an operand is read.
  template <class As>
  double at(std::size_t r, std::size_t s, const As& as) const {
    double sum = 0;
    for (std::size_t i = 0; i < g.k; ++i)
      sum += static_cast<double>(as(g.transpose_a ? a[i * g.lda + r] : a[r * g.lda + i])) *
             as(g.transpose_b ? b[s * g.ldb + i] : b[i * g.ldb + s]);
    return sum;
  }
};

template <class Matmul, class As>
void expect_right(Matmul& matmul, Product p, double tolerance, const As& as) {
  const std::vector<float> before = p.c;
  matmul.run(p.g, p.a.data(), p.b.data(), p.c.data());
  for (std::size_t r = 0; r < p.g.m; ++r)
    for (std::size_t s = 0; s < p.g.ldc; ++s) {
      const float old = before[r * p.g.ldc + s], now = p.c[r * p.g.ldc + s];
      if (s >= p.g.n)
        ASSERT_EQ(now, old) << "outside of the result";
      else
        ASSERT_NEAR(now, p.at(r, s, as) + (p.g.accumulate ? old : 0.0), tolerance)
            << p.g.m << " x " << p.g.n << " x " << p.g.k << (p.g.transpose_a ? ", A'" : "")
            << (p.g.transpose_b ? ", B'" : "");
    }
}

}  // namespace tutti::product_test

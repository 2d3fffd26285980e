// SPDX-License-Identifier: Apache-2.0
// Products in bfloat16: exact where whole numbers make them so, the rounding of operands and nothing else otherwise.
#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/cpu/bfloat16_matmul.h"
#include "product.h"
#include "tutti/backend.h"
#include "tutti/error.h"

namespace tutti::bfloat16_test {
namespace {

using product_test::Product;

class Bfloat16 : public testing::Test {
 protected:
  void SetUp() override {
    if (!supports("cpu", ComputeType::bfloat16)) GTEST_SKIP() << "this processor has no AVX-512 with BF16";
    backend = make_backend("cpu", ComputeType::bfloat16);
    matmul = std::make_unique<cpu::Bfloat16Matmul>(*cpu::bfloat16_kernels());
  }
  std::unique_ptr<Backend> backend;
  std::unique_ptr<cpu::Bfloat16Matmul> matmul;  // whatever the shape
};

float rounded(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u);
}

void expect_right(cpu::Bfloat16Matmul& matmul, const Product& p, double tolerance) {
  product_test::expect_right(matmul, p, tolerance, rounded);
}

TEST_F(Bfloat16, WholeNumbersAreExact) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true})
        for (const std::size_t m : {1u, 5u, 6u, 13u, 50u})
          for (const std::size_t n : {1u, 10u, 17u, 48u, 64u, 130u})
            for (const std::size_t k : {1u, 3u, 16u, 33u})
              expect_right(
                  *matmul,
                  Product({.transpose_a = ta, .transpose_b = tb, .m = m, .n = n, .k = k, .accumulate = accumulate},
                          (m + n + k) % 3, true, 5),
                  0);
}

TEST_F(Bfloat16, LongSumsAndManyRows) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      expect_right(*matmul, Product({.transpose_a = ta, .transpose_b = tb, .m = 7, .n = 20, .k = 4099}, 1, true, 6), 0);
      expect_right(*matmul, Product({.transpose_a = ta, .transpose_b = tb, .m = 2100, .n = 18, .k = 9}, 0, true, 7), 0);
    }
}

TEST_F(Bfloat16, OperandsAreRoundedToNearestAndSumsAreFloat) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      expect_right(*matmul, Product({.transpose_a = ta, .transpose_b = tb, .m = 33, .n = 70, .k = 500}, 2, false, 8),
                   1e-4);
}

// Gradients of small layers, huge layers on few rows: the bits of float32.
TEST_F(Bfloat16, ProductsThatWouldNotGainStayInFloat32) {
  for (const Gemm& g : {Gemm{.transpose_b = true, .m = 3, .n = 4100, .k = 1030}, Gemm{.m = 500, .n = 20, .k = 80},
                        Gemm{.transpose_a = true, .m = 20, .n = 500, .k = 300}}) {
    Product p(g, 0, false, 9);
    std::vector<float> other(p.c);
    backend->gemm(p.g, p.a.data(), p.b.data(), p.c.data());
    make_backend("cpu")->gemm(p.g, p.a.data(), p.b.data(), other.data());
    EXPECT_EQ(p.c, other);
  }
}

TEST_F(Bfloat16, LargeProductsDoNot) {
  Product p({.m = 128, .n = 128, .k = 64}, 0, false, 9);
  std::vector<float> same(p.c);
  backend->gemm(p.g, p.a.data(), p.b.data(), p.c.data());
  matmul->run(p.g, p.a.data(), p.b.data(), same.data());
  EXPECT_EQ(p.c, same);
}

TEST_F(Bfloat16, NothingToSum) {
  Product p({.m = 2, .n = 3, .k = 0}, 0, true, 1);
  expect_right(*matmul, p, 0);
  p.g.accumulate = true;
  expect_right(*matmul, p, 0);
}

TEST_F(Bfloat16, ARightOperandIsConvertedOncePerVersion) {
  for (const bool tb : {false, true}) {
    Product p({.transpose_b = tb, .m = 9, .n = 70, .k = 40}, 0, true, 2);
    p.g.b_version = backend->new_version();
    matmul->run(p.g, p.a.data(), p.b.data(), p.c.data());
    const auto first = p.c;
    const auto b = p.b;
    for (auto& x : p.b) x += 1;
    matmul->run(p.g, p.a.data(), p.b.data(), p.c.data());
    EXPECT_EQ(p.c, first) << "the version says that it is the same";
    p.g.b_version = backend->new_version();
    expect_right(*matmul, p, 0);
    // The same place in another shape.
    p.g.n = 35, p.g.ldc = 35;
    if (!tb) p.g.ldb = 35;
    expect_right(*matmul, p, 0);
  }
}

TEST_F(Bfloat16, SameBitsForAnyNumberOfThreads) {
  const int threads = omp_get_max_threads();
  for (const std::size_t n : {64u, 700u}) {
    Product p({.m = 300, .n = n, .k = 300}, 0, false, 3);
    std::vector<std::vector<float>> results;
    for (const int t : {1, 2, 3}) {
      omp_set_num_threads(t);
      for (const bool ta : {false, true}) {
        p.g.transpose_a = ta;
        matmul->run(p.g, p.a.data(), p.b.data(), p.c.data());
        results.push_back(p.c);
      }
    }
    omp_set_num_threads(threads);
    for (std::size_t i = 2; i < results.size(); ++i) EXPECT_EQ(results[i], results[i % 2]);
  }
}

TEST_F(Bfloat16, WhatIsNotANumberStaysSo) {
  Product p({.m = 3, .n = 4, .k = 5}, 0, true, 4);
  p.a[6] = NAN;
  matmul->run(p.g, p.a.data(), p.b.data(), p.c.data());
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t s = 0; s < 4; ++s) EXPECT_EQ(std::isnan(p.c[r * 4 + s]), r == 1);
}

TEST(ComputeType, EveryDeviceHasFloat32) {
  EXPECT_TRUE(supports("cpu", ComputeType::float32));
  EXPECT_EQ(make_backend("cpu")->compute_type(), ComputeType::float32);
  EXPECT_FALSE(supports("abacus", ComputeType::bfloat16));
  EXPECT_THROW(make_backend("abacus", ComputeType::bfloat16), Error);
  if (!supports("cpu", ComputeType::bfloat16)) {
    EXPECT_THROW(make_backend("cpu", ComputeType::bfloat16), Error);
  }
}

}  // namespace
}  // namespace tutti::bfloat16_test

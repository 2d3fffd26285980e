// SPDX-License-Identifier: Apache-2.0
// Packed products: exact where whole numbers make them so; the same bits for any rows beside, threads and versions.
#include <gtest/gtest.h>
#include <omp.h>

#include <vector>

#include "backend/cpu/packed_matmul.h"
#include "product.h"

namespace tutti::packed_test {
namespace {

using product_test::Product;

class Packed : public testing::Test {
 protected:
  void SetUp() override {
    if (!cpu::packed_kernels()) GTEST_SKIP() << "this processor has no AVX2 with FMA";
    matmul = std::make_unique<cpu::PackedMatmul>(*cpu::packed_kernels());
  }
  std::vector<float> result(const Product& p) {
    std::vector<float> c = p.c;
    matmul->run(p.g, p.a.data(), p.b.data(), c.data());
    return c;
  }
  std::unique_ptr<cpu::PackedMatmul> matmul;  // whatever the shape
};

void expect_right(cpu::PackedMatmul& matmul, const Product& p, double tolerance) {
  product_test::expect_right(matmul, p, tolerance, [](float x) { return x; });
}

TEST_F(Packed, WholeNumbersAreExact) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true})
        for (const std::size_t m : {1u, 5u, 6u, 13u, 50u})
          for (const std::size_t n : {1u, 10u, 16u, 17u, 48u, 130u})
            for (const std::size_t k : {1u, 3u, 16u, 37u})
              expect_right(
                  *matmul,
                  Product({.transpose_a = ta, .transpose_b = tb, .m = m, .n = n, .k = k, .accumulate = accumulate},
                          (m + n + k) % 3, true, 5),
                  0);
}

TEST_F(Packed, LongSumsAndManyRows) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      expect_right(*matmul, Product({.transpose_a = ta, .transpose_b = tb, .m = 7, .n = 20, .k = 4099}, 1, true, 6), 0);
      expect_right(*matmul, Product({.transpose_a = ta, .transpose_b = tb, .m = 700, .n = 18, .k = 9}, 0, true, 7), 0);
      expect_right(*matmul, Product({.transpose_a = ta, .transpose_b = tb, .m = 33, .n = 70, .k = 500}, 2, false, 8),
                   1e-4);
    }
}

TEST_F(Packed, ARowDoesNotDependOnTheRowsBeside) {
  const Product whole({.m = 37, .n = 40, .k = 600}, 0, false, 3);
  const std::vector<float> together = result(whole);
  for (std::size_t r = 0; r < whole.g.m; ++r) {
    Product row = whole;
    row.g.m = 1;
    std::vector<float> c(row.g.n);
    matmul->run(row.g, row.a.data() + r * row.g.lda, row.b.data(), c.data());
    for (std::size_t i = 0; i < c.size(); ++i) ASSERT_EQ(c[i], together[r * whole.g.ldc + i]) << r;
  }
}

TEST_F(Packed, ThreadsGiveTheSameBits) {
  const int before = omp_get_max_threads();
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const Product p({.transpose_a = ta, .transpose_b = tb, .m = 301, .n = 150, .k = 700}, 1, false, 4);
      omp_set_num_threads(1);
      const auto one = result(p);
      omp_set_num_threads(3);
      EXPECT_EQ(result(p), one);
    }
  omp_set_num_threads(before);
}

TEST_F(Packed, ARightOperandIsPackedAnewForEveryVersion) {
  for (const bool tb : {false, true}) {
    Product p({.transpose_b = tb, .m = 9, .n = 70, .k = 300}, 0, true, 2);
    std::vector<float> last;
    for (const std::uint64_t version : {1u, 2u}) {
      p.g.b_version = version;
      for (auto& x : p.b) x += 1;
      Product without = p;  // in another place
      without.g.b_version = 0;
      const auto expected = result(without);
      for (int use = 0; use < 3; ++use) EXPECT_EQ(result(p), expected) << use;  // the second one keeps it
      last = expected;
    }
    for (auto& x : p.b) x += 1;
    EXPECT_EQ(result(p), last) << "the version says that it is the same";
    p.g.b_version = 0;
    EXPECT_NE(result(p), last);
  }
}

}  // namespace
}  // namespace tutti::packed_test

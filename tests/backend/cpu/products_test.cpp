// SPDX-License-Identifier: Apache-2.0
// Products by every library of this machine: right for any shape, exact where whole numbers make them so, and computed
// by the library that was chosen.
#include <gtest/gtest.h>
#include <omp.h>

#include <thread>
#include <vector>

#include "backend/cpu/openblas.h"
#include "backend/cpu/products.h"
#include "product.h"

namespace tutti::products_test {
namespace {

using product_test::Product;

// One library, whatever the shape.
struct By {
  ProductLibrary library;
  cpu::Products products = cpu::Products();
  void run(const Gemm& g, const float* a, const float* b, float* c) { products.run(library, g, a, b, c); }
};

std::vector<float> result(const Product& p, cpu::Products& products) {
  std::vector<float> c = p.c;
  products.run(p.g, p.a.data(), p.b.data(), c.data());
  return c;
}

class Libraries : public testing::TestWithParam<ProductLibrary> {
 protected:
  void SetUp() override {
    if (!has_library(GetParam())) GTEST_SKIP() << "not on this machine";
  }
};

INSTANTIATE_TEST_SUITE_P(All, Libraries, testing::ValuesIn(all_product_libraries),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(Libraries, WholeNumbersAreExact) {
  By library{GetParam()};
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true})
        for (const std::size_t m : {1u, 16u, 37u})
          for (const std::size_t n : {1u, 17u, 130u})
            for (const std::size_t k : {1u, 37u, 300u})
              product_test::expect_right(
                  library,
                  Product({.transpose_a = ta, .transpose_b = tb, .m = m, .n = n, .k = k, .accumulate = accumulate},
                          (m + n + k) % 3, true, 5),
                  0, [](float x) { return x; });
}

TEST_P(Libraries, SeveralThreads) {
  By library{GetParam()};
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      product_test::expect_right(
          library, Product({.transpose_a = ta, .transpose_b = tb, .m = 150, .n = 210, .k = 90}, 1, true, 4), 0,
          [](float x) { return x; });
  omp_set_num_threads(before);
}

TEST_P(Libraries, RanksThatAreThreads) {
  const Product p({.m = 64, .n = 300, .k = 200}, 0, false, 8);
  cpu::Products alone;
  std::vector<float> expected = p.c;
  alone.run(GetParam(), p.g, p.a.data(), p.b.data(), expected.data());
  std::vector<std::thread> ranks;
  for (int r = 0; r < 4; ++r)
    ranks.emplace_back([&] {
      cpu::Products products;
      for (int i = 0; i < 20; ++i) {
        std::vector<float> c = p.c;
        products.run(GetParam(), p.g, p.a.data(), p.b.data(), c.data());
        EXPECT_EQ(c, expected);
      }
    });
  for (auto& rank : ranks) rank.join();
}

TEST_P(Libraries, AChoiceCounts) {
  // Ragged sums, so that libraries differ in the last bits.
  const Product p({.m = 96, .n = 700, .k = 900}, 0, false, 3);
  ASSERT_TRUE(is_large(p.g));
  auto choices = std::make_shared<KernelChoices>();
  cpu::Products products(choices);
  By library{GetParam()};
  std::vector<float> expected = p.c;
  library.run(p.g, p.a.data(), p.b.data(), expected.data());
  (*choices)[ProductKind::of(p.g)] = GetParam();  // as when a run has read its checkpoint
  EXPECT_EQ(result(p, products), expected);
  // Of fewer samples, down to half: the same kind. Of others: by shape.
  Product fewer({.m = 70, .n = 700, .k = 900}, 0, false, 3), half({.m = 64, .n = 700, .k = 900}, 0, false, 3);
  EXPECT_EQ(ProductKind::of(fewer.g), ProductKind::of(p.g));
  EXPECT_NE(ProductKind::of(half.g), ProductKind::of(p.g));
  cpu::Products by_shape;
  EXPECT_EQ(result(half, products), result(half, by_shape));
}

TEST(ProductKinds, TextAndBack) {
  const Gemm forward{.m = 100, .n = 2048, .k = 784}, gradient{.transpose_a = true, .m = 7, .n = 2048, .k = 100};
  EXPECT_EQ(ProductKind::of(forward).text(), "NN:128:2048:784");
  EXPECT_EQ(ProductKind::of(gradient).text(), "TN:128:2048:0");
  for (const Gemm& g : {forward, gradient})
    EXPECT_EQ(ProductKind::parse(ProductKind::of(g).text()), ProductKind::of(g));
  for (const char* wrong : {"", "NN", "NN:1:2", "NN:1:2:3:4", "XN:1:2:3", "NN:1:2:x", "NN:1:2:3 ", "NN:-1:2:3"})
    EXPECT_FALSE(ProductKind::parse(wrong)) << wrong;
}

TEST(ProductKinds, OneChoiceForEveryLargeKind) {
  const Gemm large{.m = 200, .n = 1024, .k = 512, .lda = 512, .ldb = 1024, .ldc = 1024};
  Gemm same = large, small = large, transposed = large, gradient = large;
  same.m = 130, small.m = 4;
  transposed.transpose_b = true, transposed.ldb = 512;
  gradient.transpose_a = true, gradient.m = 256, gradient.k = 200, gradient.lda = 512;
  const KernelChoices choices =
      time_products(std::vector<RepeatedProduct>{{large}, {same}, {small}, {transposed}, {gradient, 4}});
  EXPECT_EQ(choices.size(), 3u);
  for (const Gemm& g : {large, transposed, gradient}) {
    ASSERT_TRUE(choices.contains(ProductKind::of(g)));
    EXPECT_TRUE(has_library(choices.at(ProductKind::of(g))));
  }
  EXPECT_EQ(product_libraries(2).find('\n'), std::string::npos);
  EXPECT_NE(product_libraries(1), product_libraries(2));
}

}  // namespace
}  // namespace tutti::products_test

// SPDX-License-Identifier: Apache-2.0
// The CPU backend against plain loops in double: products of every kind, strided copies, reductions, criteria.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tutti/backend.h"
#include "tutti/error.h"

namespace tutti::backend_test {
namespace {

std::vector<float> random(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> v(n);
  for (auto& x : v) x = draw(engine);
  return v;
}

TEST(Backend, UnknownDevice) { EXPECT_THROW(make_backend("abacus"), Error); }

TEST(Backend, ProductsOfEveryKind) {
  const auto backend = make_backend("cpu");
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true})
        for (const auto& [m, n, k] : {std::tuple<std::size_t, std::size_t, std::size_t>{1, 1, 1},
                                      {3, 5, 7},
                                      {16, 10, 33},
                                      {32, 64, 16},
                                      {17, 2, 100}}) {
          const std::size_t pad = 3, lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad;
          const auto a = random((ta ? k : m) * lda, 1), b = random((tb ? n : k) * ldb, 2), before = random(m * ldc, 3);
          auto c = before;
          backend->gemm({ta, tb, m, n, k, lda, ldb, ldc, accumulate}, a.data(), b.data(), c.data());
          for (std::size_t i = 0; i < m; ++i)
            for (std::size_t j = 0; j < n; ++j) {
              double sum = accumulate ? before[i * ldc + j] : 0.0;
              for (std::size_t l = 0; l < k; ++l)
                sum +=
                    static_cast<double>(ta ? a[l * lda + i] : a[i * lda + l]) * (tb ? b[j * ldb + l] : b[l * ldb + j]);
              ASSERT_NEAR(c[i * ldc + j], sum, 1e-5 * static_cast<double>(k)) << ta << tb << accumulate << m;
            }
          for (std::size_t i = 0; i < m; ++i)  // what lies between the rows stays
            for (std::size_t j = n; j < ldc; ++j) ASSERT_EQ(c[i * ldc + j], before[i * ldc + j]);
        }
}

TEST(Backend, ProductsRepeatTheirBits) {
  const auto first = make_backend("cpu"), second = make_backend("cpu");
  const auto a = random(64 * 200, 1), b = random(200 * 48, 2);
  for (const std::size_t m : {64u, 31u}) {
    std::vector<float> c(m * 48), d(m * 48), e(m * 48);
    const Gemm g{.transpose_b = true, .m = m, .n = 48, .k = 200, .lda = 200, .ldb = 200, .ldc = 48};
    first->gemm(g, a.data(), b.data(), c.data());
    first->gemm(g, a.data(), b.data(), d.data());
    second->gemm(g, a.data(), b.data(), e.data());
    EXPECT_EQ(c, d);
    EXPECT_EQ(c, e);
  }
}

TEST(Backend, Sparse) {
  const auto backend = make_backend("cpu");
  // Columns {2: 3}, {}, {0: 1, 2: -1}.
  const std::vector<float> values = {3, 1, -1};
  const std::vector<std::int32_t> indices = {2, 0, 2};
  const std::vector<std::int64_t> begin = {0, 1, 1, 3};
  const SparseView x{3, values.data(), indices.data(), begin.data()};
  const std::vector<float> w = {1, 2, 3, 4, 5, 6};  // [3][2]
  std::vector<float> y(6, 9), dense(9, 9), dw(6, 1);
  const SparseWeight columns{2, 2, 1}, rows{2, 1, 3};
  backend->sparse_times(x, columns, w.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{15, 18, 0, 0, -4, -4}));
  backend->densify(x, 3, dense.data());
  EXPECT_EQ(dense, (std::vector<float>{0, 0, 3, 0, 0, 0, 1, 0, -1}));
  backend->sparse_times_gradient(x, columns, std::vector<float>{1, 2, 3, 4, 5, 6}.data(), dw.data());
  EXPECT_EQ(dw, (std::vector<float>{6, 7, 1, 1, -1, 1}));
  // The same weight stored the other way, [2][3].
  backend->sparse_times(x, rows, std::vector<float>{1, 3, 5, 2, 4, 6}.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{15, 18, 0, 0, -4, -4}));
  std::fill(dw.begin(), dw.end(), 1.0f);
  backend->sparse_times_gradient(x, rows, std::vector<float>{1, 2, 3, 4, 5, 6}.data(), dw.data());
  EXPECT_EQ(dw, (std::vector<float>{6, 1, -1, 7, 1, 1}));
}

TEST(Backend, ColumnsByNumber) {
  const auto backend = make_backend("cpu");
  const std::vector<std::int32_t> from = {3, -1, 0, 3};
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> y(8, 9.0f);
  backend->gather_columns(from, 2, x.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{7, 8, 0, 0, 1, 2, 7, 8}));
  std::vector<float> dx(8, 1.0f);
  backend->scatter_columns(from, 2, x.data(), dx.data());
  EXPECT_EQ(dx, (std::vector<float>{6, 7, 1, 1, 1, 1, 9, 11}));
}

TEST(Backend, StridedCopies) {
  const auto backend = make_backend("cpu");
  const auto x = random(24, 1);
  Layout l;  // transpose of 4 x 6
  l.rank = 2, l.size = {4, 6};
  l.stride[0] = {6, 1}, l.stride[3] = {1, 4};
  std::vector<float> y(24);
  backend->copy(l, x.data(), y.data(), false);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 6; ++j) EXPECT_EQ(y[j * 4 + i], x[i * 6 + j]);
  l.stride[3] = {0, 1};  // sums along the first axis
  std::vector<float> sums(6, 1);
  backend->copy(l, x.data(), sums.data(), true);
  for (std::size_t j = 0; j < 6; ++j) EXPECT_FLOAT_EQ(sums[j], 1 + x[j] + x[6 + j] + x[12 + j] + x[18 + j]);
}

// What one thread computes, several threads compute with the same bits, products apart.
TEST(Backend, ThreadsDoNotChangeResults) {
  const auto backend = make_backend("cpu");
  const std::size_t rows = 300, n = 333;
  const auto x = random(rows * n, 1), bias = random(n, 2), labels = random(rows * n, 3);
  const auto results = [&] {
    std::vector<float> y = x, db(n), soft(rows * n), work(rows * n), dx(rows * n), sum(rows);
    backend->bias_activation(UnaryOp::tanh, rows, n, bias.data(), y.data());
    backend->softmax(SoftmaxOp::softmax, {rows, n, 1}, y.data(), soft.data());
    const std::vector<const float*> in = {labels.data(), y.data()};
    const Loss loss{.op = LossOp::cross_entropy_with_softmax, .extent = {rows, n, 1}};
    double value = 0;
    float single = 0;
    backend->loss(loss, in, work.data(), &value, &single);
    const float one = 1;
    backend->loss_gradient(loss, 1, in, work.data(), &one, dx.data(), false);
    backend->bias_activation_gradient(UnaryOp::tanh, rows, n, y.data(), dx.data(), db.data(), false);
    backend->reduce(ReduceOp::log_sum, {rows, n, 1}, dx.data(), sum.data());
    sum.insert(sum.end(), db.begin(), db.end());
    sum.push_back(static_cast<float>(value));
    return sum;
  };
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto alone = results();
  omp_set_num_threads(3);
  const auto together = results();
  omp_set_num_threads(threads);
  EXPECT_EQ(alone, together);
}

// Of 7 words in the classes [0, 3), [3, 4), [4, 7).
TEST(Backend, ClassLossIsTheLogarithmOfBothProbabilities) {
  constexpr std::size_t columns = 4, hidden = 3, words = 7, classes = 3;
  const auto state = random(columns * hidden, 1), weight = random(hidden * words, 2),
             scores = random(columns * classes, 3);
  const std::vector<float> labels = {1, 0, 0, 3, 3, 1, 3, 4, 6, 2, 4, 7, 4, 2, 4, 7};
  double expected = 0;
  for (std::size_t c = 0; c < columns; ++c) {
    const auto label = [&](std::size_t i) { return static_cast<std::size_t>(labels[c * 4 + i]); };
    const auto score = [&](std::size_t word) {
      double sum = 0;
      for (std::size_t h = 0; h < hidden; ++h) sum += state[c * hidden + h] * weight[word * hidden + h];
      return sum;
    };
    double all_classes = 0, all_words = 0;
    for (std::size_t k = 0; k < classes; ++k) all_classes += std::exp(scores[c * classes + k]);
    for (std::size_t w = label(2); w < label(3); ++w) all_words += std::exp(score(w));
    expected -=
        std::log(std::exp(scores[c * classes + label(1)]) / all_classes * std::exp(score(label(0))) / all_words);
  }
  const auto backend = make_backend("cpu");
  const ClassLoss l{columns, hidden, words, classes, labels.data(), state.data(), weight.data(), scores.data()};
  std::vector<float> work(labels.size());
  double sum = 0;
  float y = 0;
  backend->class_loss(l, work.data(), &sum, &y);
  EXPECT_NEAR(sum, expected, 1e-5);
  EXPECT_FLOAT_EQ(y, static_cast<float>(sum));
}

TEST(Backend, ReductionsAlongAnyAxis) {
  const auto backend = make_backend("cpu");
  const Extent e{2, 3, 4};
  const auto x = random(e.count(), 5);
  std::vector<float> y(8);
  for (const auto op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::log_sum}) {
    backend->reduce(op, e, x.data(), y.data());
    for (std::size_t o = 0; o < 2; ++o)
      for (std::size_t i = 0; i < 4; ++i) {
        const double a = x[o * 12 + i], b = x[o * 12 + 4 + i], c = x[o * 12 + 8 + i];
        const double expected = op == ReduceOp::sum    ? a + b + c
                                : op == ReduceOp::mean ? (a + b + c) / 3
                                : op == ReduceOp::min  ? std::min({a, b, c})
                                : op == ReduceOp::max  ? std::max({a, b, c})
                                                       : std::log(std::exp(a) + std::exp(b) + std::exp(c));
        EXPECT_NEAR(y[o * 4 + i], expected, 1e-6);
      }
  }
}

}  // namespace
}  // namespace tutti::backend_test

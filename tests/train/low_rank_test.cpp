// SPDX-License-Identifier: Apache-2.0
// Factoring matrices: eigenvectors are orthogonal and belong to their values, products reproduce what they stand for.
#include "train/low_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tutti::low_rank_test {
namespace {

std::vector<float> random_matrix(std::size_t size, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> a(size);
  for (auto& v : a) v = normal(engine);
  return a;
}

// The largest difference between A and left * right.
double error_of(const std::vector<float>& a, std::size_t rows, std::size_t columns, const LowRank& f) {
  double worst = 0;
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::size_t r = 0; r < f.rank; ++r)
        sum += static_cast<double>(f.left[r * rows + i]) * f.right[c * f.rank + r];
      worst = std::max(worst, std::abs(sum - a[c * rows + i]));
    }
  return worst;
}

TEST(LowRank, EigenvectorsAreOrthogonalAndFitTheirValues) {
  for (const std::size_t n : {1, 2, 3, 7, 30, 65}) {
    std::vector<double> a(n * n);
    const auto values = random_matrix(n * n, static_cast<unsigned>(n));
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) a[i * n + j] = values[i * n + j] + values[j * n + i];
    const Eigen e = symmetric_eigen(a, n);
    for (std::size_t r = 0; r < n; ++r) {
      if (r > 0) {
        EXPECT_GE(e.values[r - 1], e.values[r]);
      }
      for (std::size_t s = 0; s < n; ++s) {
        double dot = 0;
        for (std::size_t i = 0; i < n; ++i) dot += e.vectors[r * n + i] * e.vectors[s * n + i];
        EXPECT_NEAR(dot, r == s, 1e-12) << n << ": " << r << ", " << s;
      }
      for (std::size_t i = 0; i < n; ++i) {
        double image = 0;
        for (std::size_t j = 0; j < n; ++j) image += a[i * n + j] * e.vectors[r * n + j];
        EXPECT_NEAR(image, e.values[r] * e.vectors[r * n + i], 1e-11);
      }
    }
  }
}

TEST(LowRank, EigenvaluesOfDegenerateMatrices) {
  const std::size_t n = 6;
  std::vector<double> zero(n * n, 0.0), ones(n * n, 1.0), identity(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) identity[i * n + i] = 1;
  for (const double v : symmetric_eigen(zero, n).values) EXPECT_EQ(v, 0);
  for (const double v : symmetric_eigen(identity, n).values) EXPECT_EQ(v, 1);
  const Eigen e = symmetric_eigen(ones, n);
  EXPECT_NEAR(e.values[0], 6, 1e-12);
  for (std::size_t i = 1; i < n; ++i) EXPECT_NEAR(e.values[i], 0, 1e-12);
}

TEST(LowRank, AllSingularValuesReproduceTheMatrix) {
  for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{40, 24}, {24, 40}, {33, 33}, {2, 50}}) {
    const auto a = random_matrix(rows * columns, 5);
    const LowRank f = factorize(a, rows, columns, 1, 8);
    EXPECT_EQ(f.rank, std::min(rows, columns));
    EXPECT_LT(error_of(a, rows, columns, f), 1e-5) << rows << " x " << columns;
    double squares = 0, values = 0;
    for (const float v : a) squares += static_cast<double>(v) * v;
    for (const double s : f.singular_values) values += s * s;
    EXPECT_NEAR(values / squares, 1, 1e-9);
  }
}

TEST(LowRank, AMatrixOfLowRankIsFound) {
  const std::size_t rows = 30, columns = 20, rank = 3;
  const auto left = random_matrix(rows * rank, 1), right = random_matrix(rank * columns, 2);
  std::vector<float> a(rows * columns);
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t r = 0; r < rank; ++r) a[c * rows + i] += left[r * rows + i] * right[c * rank + r];
  const LowRank f = factorize(a, rows, columns, 0.9999, 1);
  EXPECT_EQ(f.rank, rank);
  EXPECT_LT(error_of(a, rows, columns, f), 1e-5);
  EXPECT_GT(error_of(a, rows, columns, factorize(a, rows, columns, 0.3, 1)), 0.01);
}

TEST(LowRank, RatioAndAlignmentDecideTheRank) {
  const std::vector<double> s = {4, 3, 2, 1};  // 10 in all
  EXPECT_EQ(kept_rank(s, 0.39, 1), 1u);
  EXPECT_EQ(kept_rank(s, 0.4, 1), 2u);  // more than the share, not as much
  EXPECT_EQ(kept_rank(s, 0.7, 1), 3u);
  EXPECT_EQ(kept_rank(s, 0.39, 3), 3u);
  EXPECT_EQ(kept_rank(s, 0.7, 8), 4u);
  EXPECT_EQ(kept_rank(s, 1, 1), 4u);
}

}  // namespace
}  // namespace tutti::low_rank_test

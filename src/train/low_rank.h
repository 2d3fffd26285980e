// SPDX-License-Identifier: Apache-2.0
// low_rank.h -- factors matrices into two smaller ones by their singular values, for action SVD.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tutti {

// Eigenvalues of a symmetric matrix in descending order; row i of `vectors` is the eigenvector of value i.
struct Eigen {
  std::vector<double> values;
  std::vector<double> vectors;  // n x n, row after row
};
Eigen symmetric_eigen(std::vector<double> matrix, std::size_t n);

// A (rows x columns) is approximately left (rows x rank) times right (rank x columns), all column-major. Each factor
// includes the square root of the singular values.
struct LowRank {
  std::size_t rank = 0;
  std::vector<double> singular_values;  // all of them, descending
  std::vector<float> left, right;
};

// The number of singular values that hold more than the given share of their sum, rounded up to a multiple of
// `aligned`. A ratio of 1 keeps all.
std::size_t kept_rank(std::span<const double> singular_values, double keep_ratio, std::size_t aligned);
LowRank factorize(std::span<const float> a, std::size_t rows, std::size_t columns, double keep_ratio,
                  std::size_t aligned);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Computes singular values from the eigenvalues of the smaller of A'A and AA', in double precision. The factors are a
// projection of A onto orthogonal eigenvectors, so their product is as exact as these are, even if singular values are
// small.
#include "train/low_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tutti {
namespace {

constexpr std::size_t block = 256;  // columns at a time: the rows of a block fit into the cache

struct Tridiagonal {
  std::vector<double> diagonal, below;
};

// Householder reflections make the matrix tridiagonal. They are stored in the matrix: the vector of step k is in row k
// behind the diagonal, scaled so that the reflection is I - v v'.
Tridiagonal reduce(std::vector<double>& a, std::size_t n) {
  Tridiagonal t{std::vector<double>(n), std::vector<double>(n)};
  std::vector<double> v(n), w(n);
  for (std::size_t k = 0; k + 1 < n; ++k) {
    double norm = 0;
    for (std::size_t i = k + 1; i < n; ++i) norm += a[k * n + i] * a[k * n + i];
    norm = std::sqrt(norm);
    const double first = a[k * n + k + 1], target = first > 0 ? -norm : norm;
    t.diagonal[k] = a[k * n + k];
    t.below[k] = norm == 0 ? 0 : target;
    const double square = 2 * norm * (norm + std::abs(first));  // of x - target e1
    const double scale = square > 0 ? std::sqrt(2 / square) : 0;
    for (std::size_t i = k + 1; i < n; ++i) v[i] = a[k * n + i] * scale;
    v[k + 1] = (first - target) * scale;
    double dot = 0;
    for (std::size_t i = k + 1; i < n; ++i) {
      double sum = 0;
      for (std::size_t j = k + 1; j < n; ++j) sum += a[i * n + j] * v[j];
      w[i] = sum;
      dot += sum * v[i];
    }
    for (std::size_t i = k + 1; i < n; ++i) w[i] -= dot / 2 * v[i];
    for (std::size_t i = k + 1; i < n; ++i)
      for (std::size_t j = k + 1; j < n; ++j) a[i * n + j] -= v[i] * w[j] + w[i] * v[j];
    std::copy(v.begin() + static_cast<std::ptrdiff_t>(k) + 1, v.end(),
              a.begin() + static_cast<std::ptrdiff_t>(k * n + k + 1));
  }
  t.diagonal[n - 1] = a[n * n - 1];
  return t;
}

// The transposed product of all reflections.
std::vector<double> accumulate(const std::vector<double>& a, std::size_t n) {
  std::vector<double> z(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) z[i * n + i] = 1;
  for (std::size_t k = n - 1; k-- > 0;) {
    const double* v = &a[k * n];
    for (std::size_t i = k + 1; i < n; ++i) {
      double sum = 0;
      for (std::size_t j = k + 1; j < n; ++j) sum += z[i * n + j] * v[j];
      for (std::size_t j = k + 1; j < n; ++j) z[i * n + j] -= sum * v[j];
    }
  }
  return z;
}

// A rotation of rows i and i + 1.
struct Rotation {
  std::size_t row;
  double cosine, sine;
};

void rotate(std::vector<double>& z, std::size_t n, const std::vector<Rotation>& rotations) {
  for (std::size_t begin = 0; begin < n; begin += block) {
    const std::size_t end = std::min(n, begin + block);
    for (const Rotation& r : rotations) {
      double *low = &z[r.row * n], *high = low + n;
      for (std::size_t j = begin; j < end; ++j) {
        const double h = high[j];
        high[j] = r.sine * low[j] + r.cosine * h;
        low[j] = r.cosine * low[j] - r.sine * h;
      }
    }
  }
}

// One implicit QL step with Wilkinson's shift on [first, last].
void ql_step(Tridiagonal& t, std::size_t first, std::size_t last, std::vector<Rotation>& rotations) {
  auto& d = t.diagonal;
  auto& e = t.below;
  double g = (d[first + 1] - d[first]) / (2 * e[first]);
  g = d[last] - d[first] + e[first] / (g + std::copysign(std::hypot(g, 1.0), g));
  double sine = 1, cosine = 1, shift = 0;
  for (std::size_t i = last; i-- > first;) {
    const double f = sine * e[i], b = cosine * e[i];
    const double r = std::hypot(f, g);
    e[i + 1] = r;
    if (r == 0) {
      d[i + 1] -= shift;
      e[last] = 0;
      return;
    }
    sine = f / r, cosine = g / r;
    g = d[i + 1] - shift;
    const double q = (d[i] - g) * sine + 2 * cosine * b;
    shift = sine * q;
    d[i + 1] = g + shift;
    g = cosine * q - b;
    rotations.push_back({i, cosine, sine});
  }
  d[first] -= shift;
  e[first] = g;
  e[last] = 0;
}

void diagonalize(Tridiagonal& t, std::vector<double>& z, std::size_t n) {
  std::vector<Rotation> rotations;
  for (std::size_t first = 0; first < n; ++first) {
    for (;;) {
      std::size_t last = first;
      for (; last + 1 < n; ++last) {
        const double size = std::abs(t.diagonal[last]) + std::abs(t.diagonal[last + 1]);
        if (std::abs(t.below[last]) <= std::numeric_limits<double>::epsilon() * size) break;
      }
      if (last == first) break;
      rotations.clear();
      ql_step(t, first, last, rotations);
      rotate(z, n, rotations);
    }
  }
}

// A'A, or AA' if that is smaller; A is column-major.
std::vector<double> gram(std::span<const float> a, std::size_t rows, std::size_t columns) {
  const std::size_t n = std::min(rows, columns), length = std::max(rows, columns);
  const bool of_columns = columns <= rows;
  std::vector<double> g(n * n, 0.0), line(length * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < length; ++k) line[i * length + k] = of_columns ? a[i * rows + k] : a[k * rows + i];
  constexpr std::size_t part = 512;  // of the sums, so that the lines of a tile stay in the cache
  for (std::size_t from = 0; from < length; from += part) {
    const std::size_t to = std::min(length, from + part);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        const double *x = &line[i * length], *y = &line[j * length];
        double sum[4] = {};
        std::size_t k = from;
        for (; k + 4 <= to; k += 4)
          for (std::size_t u = 0; u < 4; ++u) sum[u] += x[k + u] * y[k + u];
        for (; k < to; ++k) sum[0] += x[k] * y[k];
        g[i * n + j] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
      }
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j) g[j * n + i] = g[i * n + j];
  return g;
}

}  // namespace

Eigen symmetric_eigen(std::vector<double> matrix, std::size_t n) {
  if (n == 0) return {};
  Tridiagonal t = reduce(matrix, n);
  std::vector<double> z = accumulate(matrix, n);
  diagonalize(t, z, n);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return t.diagonal[a] > t.diagonal[b]; });
  Eigen e{std::vector<double>(n), std::vector<double>(n * n)};
  for (std::size_t i = 0; i < n; ++i) {
    e.values[i] = t.diagonal[order[i]];
    std::copy_n(z.begin() + static_cast<std::ptrdiff_t>(order[i] * n), n,
                e.vectors.begin() + static_cast<std::ptrdiff_t>(i * n));
  }
  return e;
}

std::size_t kept_rank(std::span<const double> values, double keep_ratio, std::size_t aligned) {
  const double whole = std::accumulate(values.begin(), values.end(), 0.0);
  double sum = 0;
  std::size_t rank = values.size();
  if (keep_ratio < 1)
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += values[i];
      if (sum > whole * keep_ratio) {
        rank = i + 1;
        break;
      }
    }
  return std::min(values.size(), (rank + aligned - 1) / aligned * aligned);
}

LowRank factorize(std::span<const float> a, std::size_t rows, std::size_t columns, double keep_ratio,
                  std::size_t aligned) {
  const bool of_columns = columns <= rows;
  const std::size_t n = std::min(rows, columns), length = std::max(rows, columns);
  const Eigen e = symmetric_eigen(gram(a, rows, columns), n);
  LowRank f;
  for (const double value : e.values) f.singular_values.push_back(std::sqrt(std::max(value, 0.0)));
  f.rank = kept_rank(f.singular_values, keep_ratio, aligned);
  f.left.resize(rows * f.rank), f.right.resize(f.rank * columns);
  std::vector<double> image(length);
  for (std::size_t r = 0; r < f.rank; ++r) {
    const double* v = &e.vectors[r * n];
    std::fill(image.begin(), image.end(), 0.0);  // A v, or A' v
    for (std::size_t c = 0; c < columns; ++c)
      for (std::size_t i = 0; i < rows; ++i) image[of_columns ? i : c] += v[of_columns ? c : i] * a[c * rows + i];
    const double root = std::sqrt(f.singular_values[r]);
    const double down = root > 0 ? 1 / root : 0;
    for (std::size_t i = 0; i < rows; ++i)
      f.left[r * rows + i] = static_cast<float>(of_columns ? image[i] * down : v[i] * root);
    for (std::size_t c = 0; c < columns; ++c)
      f.right[c * f.rank + r] = static_cast<float>(of_columns ? v[c] * root : image[c] * down);
  }
  return f;
}

}  // namespace tutti

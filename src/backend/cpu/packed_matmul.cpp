// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/packed_matmul.h"

#include <algorithm>

#include "backend/cpu/parallel.h"

namespace tutti::cpu {
namespace {

constexpr std::size_t rows = PackedKernels::rows, columns = PackedKernels::columns;

std::size_t padded(std::size_t n) { return (n + columns - 1) / columns * columns; }

}  // namespace

bool PackedMatmul::pays(const Gemm& g) {
  // A weight gradient, or a chunk of one.
  if (g.transpose_a) return g.n >= 128 && g.k >= 8 && (g.m < 768 || g.n < 512);
  return g.m >= 8 && g.n >= 128 && g.k >= 128 && g.n * g.k >= (std::size_t{1} << 19);
}

float* PackedMatmul::reserve(FloatBuffer& buffer, std::size_t floats) {
  if (buffer.size() < floats) buffer = FloatBuffer(floats);
  return buffer.data();
}

void PackedMatmul::pack_right(const Gemm& g, const float* b, std::size_t first, std::size_t depth, std::size_t column,
                              std::size_t n, float* to) const {
  kernels_.pack_right(g.transpose_b ? b + column * g.ldb + first : b + first * g.ldb + column, g.ldb, g.transpose_b, n,
                      depth, to);
}

const float* PackedMatmul::kept(const Gemm& g, const float* b) {
  if (g.b_version == 0 || g.n * g.k > most_kept) return nullptr;
  Kept& k = kept_[{b, g.transpose_b}];
  if (!k.is_of(g)) {
    k.version = g.b_version, k.k = g.k, k.n = g.n, k.stride = g.ldb, k.packed = false;
    return nullptr;
  }
  if (std::exchange(k.packed, true)) return k.panels.data();
  const std::size_t width = padded(g.n);
  float* to = reserve(k.panels, width * g.k);
  parallel(g.n, columns, g.k, [&](std::size_t begin, std::size_t end) {
    for (std::size_t first = 0; first < g.k; first += most_depth) {
      const std::size_t depth = std::min(most_depth, g.k - first);
      pack_right(g, b, first, depth, begin, end - begin, to + first * width + begin * depth);
    }
  });
  return to;
}

void PackedMatmul::run(const Gemm& g, const float* a, const float* b, float* c) {
  const float* whole = kept(g, b);
  const auto multiply = whole ? kernels_.multiply_and_fetch : kernels_.multiply;
  float* const left = reserve(left_, (std::min(g.m, most_rows) + rows) * most_depth);
  float* const right = reserve(right_, static_cast<std::size_t>(omp_get_max_threads()) * group * most_depth);
  for (std::size_t row = 0; row < g.m; row += most_rows)
    for (std::size_t first = 0; first < g.k; first += most_depth) {
      const std::size_t m = std::min(most_rows, g.m - row), depth = std::min(most_depth, g.k - first);
      parallel(m, rows, depth, [&](std::size_t begin, std::size_t end) {
        const float* from = g.transpose_a ? a + first * g.lda + row + begin : a + (row + begin) * g.lda + first;
        kernels_.pack_left(from, g.lda, g.transpose_a, end - begin, depth, left + begin * depth);
      });
      parallel(g.n, columns, m * depth, [&](std::size_t begin, std::size_t end) {
        float* const own = right + static_cast<std::size_t>(omp_get_thread_num()) * group * most_depth;
        for (std::size_t column = begin; column < end; column += group) {
          const std::size_t n = std::min(group, end - column);
          const float* panels = own;
          if (whole)
            panels = whole + first * padded(g.n) + column * depth;
          else
            pack_right(g, b, first, depth, column, n, own);
          for (std::size_t j = 0; j < n; j += columns)
            multiply(left, panels + j * depth, m, std::min(columns, n - j), depth, c + row * g.ldc + column + j, g.ldc,
                     g.accumulate || first > 0);
        }
      });
    }
}

}  // namespace tutti::cpu

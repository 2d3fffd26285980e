// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/bfloat16_matmul.h"

#include <omp.h>

#include <algorithm>

#include "backend/cpu/parallel.h"

namespace tutti::cpu {
namespace {

constexpr std::size_t panel = Bfloat16Kernels::panel, left_panel = Bfloat16Kernels::left_panel;
// A panel of the right operand of this many pairs, 256 KB, stays in the second-level cache.
constexpr std::size_t most_pairs = 1024;
// A right operand above this number of words would evict everything else from the second-level cache.
constexpr std::size_t large = std::size_t{1} << 18;
// Rows of the left operand that are multiplied with one panel of the right one before the next panel.
constexpr std::size_t most_rows = 42 * left_panel;

std::size_t pairs_of(const Gemm& g) { return (g.k + 1) / 2; }
std::size_t panels(std::size_t columns, std::size_t width) { return (columns + width - 1) / width; }

}  // namespace

std::uint32_t* Bfloat16Matmul::reserve(FloatBuffer& buffer, std::size_t words) {
  static_assert(sizeof(float) == sizeof(std::uint32_t));
  if (buffer.size() < words) buffer = FloatBuffer(words);
  return reinterpret_cast<std::uint32_t*>(buffer.data());
}

const std::uint32_t* Bfloat16Matmul::left(const Gemm& g, const float* a) {
  const std::size_t pairs = pairs_of(g);
  if (!g.transpose_a) {
    std::uint32_t* to = reserve(left_, g.m * pairs);
    parallel(g.m, 1, g.k, [&](std::size_t begin, std::size_t end) {
      kernels_.convert(a + begin * g.lda, g.lda, end - begin, g.k, to + begin * pairs);
    });
    return to;
  }
  std::uint32_t* to = reserve(left_, panels(g.m, left_panel) * left_panel * pairs);
  parallel(pairs, 1, 2 * g.m, [&](std::size_t begin, std::size_t end) {
    kernels_.pack(a, g.lda, g.k, g.m, left_panel, begin, end, false, to);
  });
  return to;
}

void Bfloat16Matmul::convert_right(const Gemm& g, const float* b, std::uint32_t* to) const {
  const bool stream = g.n * pairs_of(g) > large;
  if (g.transpose_b)
    parallel(panels(g.n, panel), 1, panel * g.k, [&](std::size_t begin, std::size_t end) {
      kernels_.pack_transposed(b, g.ldb, g.k, g.n, begin, end, stream, to);
    });
  else
    parallel(pairs_of(g), 1, 2 * g.n, [&](std::size_t begin, std::size_t end) {
      kernels_.pack(b, g.ldb, g.k, g.n, panel, begin, end, stream, to);
    });
}

const std::uint32_t* Bfloat16Matmul::right(const Gemm& g, const float* b) {
  const std::size_t words = panels(g.n, panel) * panel * pairs_of(g);
  if (g.b_version == 0) {
    std::uint32_t* to = reserve(right_, words);
    convert_right(g, b, to);
    return to;
  }
  Kept& kept = kept_[{b, g.transpose_b}];
  std::uint32_t* to = reserve(kept.words, words);
  if (kept.version == g.b_version && kept.k == g.k && kept.n == g.n && kept.stride == g.ldb) return to;
  convert_right(g, b, to);
  kept.version = g.b_version, kept.k = g.k, kept.n = g.n, kept.stride = g.ldb;
  return to;
}

// Every element is summed in the same order, however rows and panels are distributed.
void Bfloat16Matmul::multiply(const Gemm& g, const std::uint32_t* a, const std::uint32_t* b, float* c,
                              std::size_t first_row, std::size_t last_row, std::size_t first_panel,
                              std::size_t last_panel) const {
  const std::size_t pairs = pairs_of(g);
  for (std::size_t block = first_row; block < last_row; block += most_rows)
    for (std::size_t j = first_panel; j < last_panel; ++j)
      for (std::size_t p = 0; p < pairs; p += most_pairs) {
        const std::size_t end = std::min(last_row, block + most_rows), n = std::min(panel, g.n - j * panel);
        const std::size_t some = std::min(most_pairs, pairs - p);
        const std::uint32_t* right = b + (j * pairs + p) * panel;
        const bool add = g.accumulate || p > 0;
        if (!g.transpose_a) {
          kernels_.multiply(a + block * pairs + p, pairs, 1, right, end - block, n, some, c + block * g.ldc + j * panel,
                            g.ldc, add);
          continue;
        }
        for (std::size_t row = block; row < end; row += left_panel)
          kernels_.multiply(a + row * pairs + p * left_panel, 1, left_panel, right, std::min(left_panel, end - row), n,
                            some, c + row * g.ldc + j * panel, g.ldc, add);
      }
}

void Bfloat16Matmul::run(const Gemm& g, const float* a, const float* b, float* c) {
  if (g.k == 0) {  // a sum of nothing
    for (std::size_t r = 0; r < g.m && !g.accumulate; ++r) std::fill_n(c + r * g.ldc, g.n, 0.0f);
    return;
  }
  const std::uint32_t* right_words = right(g, b);
  const std::uint32_t* left_words = left(g, a);
  const std::size_t columns = panels(g.n, panel);
  if (columns >= static_cast<std::size_t>(omp_get_max_threads()))
    parallel(columns, 1, panel * g.m * g.k,
             [&](std::size_t begin, std::size_t end) { multiply(g, left_words, right_words, c, 0, g.m, begin, end); });
  else
    parallel(g.m, left_panel, g.n * g.k, [&](std::size_t begin, std::size_t end) {
      multiply(g, left_words, right_words, c, begin, end, 0, columns);
    });
}

}  // namespace tutti::cpu

// SPDX-License-Identifier: Apache-2.0
// Compiled for AVX2 with FMA. Internal linkage and no library functions, so that no such code leaks into the rest. The
// scheme of panels and tiles is that of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication",
// 2008.
#include "backend/cpu/packed_kernels.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

namespace tutti::cpu {
namespace {

constexpr std::size_t rows = PackedKernels::rows, columns = PackedKernels::columns, lanes = 8;

inline std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

// 8 rows of 8 floats.
inline __attribute__((always_inline)) void transpose(const float* x, std::size_t stride, float* y,
                                                     std::size_t y_stride) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(x + i * stride);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    _mm256_storeu_ps(y + i * y_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(y + (i + 4) * y_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

void pack_rows(const float* a, std::size_t stride, std::size_t m, std::size_t depth, float* out) {
  std::size_t row = 0;
  for (; row + rows <= m; row += rows, a += rows * stride)
    for (std::size_t p = 0; p < depth; ++p, out += rows)
      for (std::size_t i = 0; i < rows; ++i) out[i] = a[i * stride + p];
  for (std::size_t i = 0; row + i < m; ++i)
    for (std::size_t p = 0; p < depth; ++p) out[p * rows + i] = a[i * stride + p];
}

// Some rows of every panel in turn: what is read lies together, and so does what is written.
void pack_transposed_rows(const float* a, std::size_t stride, std::size_t m, std::size_t depth, float* out) {
  constexpr std::size_t some = 16;
  for (std::size_t first = 0; first < depth; first += some)
    for (std::size_t row = 0; row < m; row += rows)
      for (std::size_t p = first; p < smaller(depth, first + some); ++p) {
        const float* from = a + p * stride + row;
        float* to = out + row * depth + p * rows;
        if (m - row >= rows) {
          _mm_storeu_ps(to, _mm_loadu_ps(from));
          _mm_storel_pi(reinterpret_cast<__m64*>(to + 4),
                        _mm_loadl_pi(_mm_setzero_ps(), reinterpret_cast<const __m64*>(from + 4)));
        } else {
          for (std::size_t i = 0; row + i < m; ++i) to[i] = from[i];
        }
      }
}

void pack_left(const float* a, std::size_t stride, bool transposed, std::size_t m, std::size_t depth, float* out) {
  (transposed ? pack_transposed_rows : pack_rows)(a, stride, m, depth, out);
}

// A panel of which only some columns are there, from position p on.
void pack_some(const float* b, std::size_t across, std::size_t along, std::size_t n, std::size_t p, std::size_t depth,
               float* out) {
  for (; p < depth; ++p)
    for (std::size_t i = 0; i < columns; ++i) out[p * columns + i] = i < n ? b[i * across + p * along] : 0;
}

// Eight rows of every panel in turn, so that a row is read along.
void pack_columns(const float* b, std::size_t stride, std::size_t n, std::size_t depth, float* out) {
  constexpr std::size_t some = 8;
  const std::size_t whole = n - n % columns;
  for (std::size_t first = 0; first < depth; first += some)
    for (std::size_t j = 0; j < whole; j += columns)
      for (std::size_t p = first; p < smaller(depth, first + some); ++p) {
        const float* from = b + p * stride + j;
        float* to = out + j * depth + p * columns;
        _mm256_storeu_ps(to, _mm256_loadu_ps(from));
        _mm256_storeu_ps(to + lanes, _mm256_loadu_ps(from + lanes));
      }
  if (whole < n) pack_some(b + whole, 1, stride, n - whole, 0, depth, out + whole * depth);
}

// Whole cache lines of eight rows, then of eight others.
void pack_transposed_columns(const float* b, std::size_t stride, std::size_t n, std::size_t depth, float* out) {
  const std::size_t even = depth - depth % columns;
  for (std::size_t j = 0; j < n; j += columns, b += columns * stride, out += columns * depth) {
    const bool whole = n - j >= columns;
    if (whole)
      for (std::size_t p = 0; p < even; p += columns)
        for (std::size_t half = 0; half < columns; half += lanes)
          for (std::size_t k = p; k < p + columns; k += lanes)
            transpose(b + half * stride + k, stride, out + k * columns + half, columns);
    pack_some(b, stride, 1, smaller(columns, n - j), whole ? even : 0, depth, out);
  }
}

void pack_right(const float* b, std::size_t stride, bool transposed, std::size_t n, std::size_t depth, float* out) {
  (transposed ? pack_transposed_columns : pack_columns)(b, stride, n, depth, out);
}

struct Panel {
  const float* right;
  std::size_t depth;
  float* c;
  std::size_t stride, columns;
  bool add;
};

inline void store_some(float* c, std::size_t n, const __m256* sum, bool add) {
  alignas(32) float values[columns];
  _mm256_store_ps(values, sum[0]);
  _mm256_store_ps(values + lanes, sum[1]);
  for (std::size_t i = 0; i < n; ++i) c[i] = add ? c[i] + values[i] : values[i];
}

// R x 16 sums in registers. Two tiles together fetch the panel behind this one: half of it each, a cache line in every
// other step.
template <std::size_t R, bool fetch>
inline __attribute__((always_inline)) void tile(const Panel& t, const float* left, std::size_t row) {
  __m256 sum[R][2];
  float* c = t.c + row * t.stride;
#pragma GCC unroll 6
  for (std::size_t i = 0; i < R; ++i) {
    sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    _mm_prefetch(reinterpret_cast<const char*>(c + i * t.stride), _MM_HINT_T0);
  }
  const auto step = [&](const float* a, const float* b) __attribute__((always_inline)) {
    const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + lanes);
#pragma GCC unroll 6
    for (std::size_t i = 0; i < R; ++i) {
      const __m256 x = _mm256_broadcast_ss(a + i);
      sum[i][0] = _mm256_fmadd_ps(x, b0, sum[i][0]);
      sum[i][1] = _mm256_fmadd_ps(x, b1, sum[i][1]);
    }
  };
  const float *a = left + row * t.depth, *b = t.right;
  const float* ahead = b + t.depth * columns + row / rows % 2 * (t.depth / 2) * columns;
  std::size_t p = 0;
  for (; p + 2 <= t.depth; p += 2, a += 2 * rows, b += 2 * columns, ahead += columns) {
    if constexpr (fetch) _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
    step(a, b);
    step(a + rows, b + columns);
  }
  if (p < t.depth) step(a, b);
#pragma GCC unroll 6
  for (std::size_t i = 0; i < R; ++i, c += t.stride) {
    if (t.columns < columns) {
      store_some(c, t.columns, sum[i], t.add);
      continue;
    }
    if (t.add) {
      sum[i][0] = _mm256_add_ps(sum[i][0], _mm256_loadu_ps(c));
      sum[i][1] = _mm256_add_ps(sum[i][1], _mm256_loadu_ps(c + lanes));
    }
    _mm256_storeu_ps(c, sum[i][0]);
    _mm256_storeu_ps(c + lanes, sum[i][1]);
  }
}

// The last rows, up to R.
template <std::size_t R>
void last_tile(const Panel& t, const float* left, std::size_t row, std::size_t m) {
  if (m - row == R) return tile<R, false>(t, left, row);
  if constexpr (R > 1) last_tile<R - 1>(t, left, row, m);
}

template <bool fetch>
void multiply(const float* left, const float* right, std::size_t m, std::size_t n, std::size_t depth, float* c,
              std::size_t stride, bool add) {
  const Panel t{right, depth, c, stride, n, add};
  std::size_t row = 0;
  for (; row + rows <= m; row += rows) tile<rows, fetch>(t, left, row);
  if (row < m) last_tile<rows - 1>(t, left, row, m);
}

}  // namespace

const PackedKernels* packed_kernels() {
  static constexpr PackedKernels kernels{pack_left, pack_right, multiply<false>, multiply<true>};
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernels : nullptr;
}

}  // namespace tutti::cpu

#else

namespace tutti::cpu {
const PackedKernels* packed_kernels() { return nullptr; }
}  // namespace tutti::cpu

#endif

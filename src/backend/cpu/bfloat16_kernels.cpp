// SPDX-License-Identifier: Apache-2.0
// Compiled for AVX-512 with BF16. Internal linkage and no library functions, so that no such code leaks into the rest.
#include "backend/cpu/bfloat16_kernels.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>

namespace tutti::cpu {
namespace {

using Word = std::uint32_t;
constexpr std::size_t lanes = 16;

inline __mmask16 first_lanes(std::size_t n) {
  return n >= lanes ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << n) - 1);
}
inline std::size_t left_of(std::size_t at, std::size_t end) { return at < end ? end - at : 0; }

void convert(const float* x, std::size_t stride, std::size_t rows, std::size_t count, Word* out) {
  const std::size_t pairs = (count + 1) / 2;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* from = x + r * stride;
    auto* to = reinterpret_cast<std::uint16_t*>(out + r * pairs);
    for (std::size_t i = 0; i < 2 * pairs; i += lanes) {
      const __m512 v = _mm512_maskz_loadu_ps(first_lanes(left_of(i, count)), from + i);
      _mm256_mask_storeu_epi16(to + i, first_lanes(left_of(i, 2 * pairs)), (__m256i)_mm512_cvtneps_pbh(v));
    }
  }
}

// 16 words, each the pair (x[i], y[i]).
inline __m512i interleave(__m512 x, __m512 y) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(y, x));
}

template <bool Stream>
inline void put(Word* to, __m512i v) {
  if (Stream)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), v);
  else
    _mm512_store_si512(to, v);
}

// A few pairs of every panel in turn: the rows are read along, and what is written lies together.
template <bool Stream>
void pack_pairs(const float* x, std::size_t stride, std::size_t count, std::size_t columns, std::size_t width,
                std::size_t first, std::size_t last, Word* out) {
  constexpr std::size_t some = 8;
  const std::size_t pairs = (count + 1) / 2;
  for (std::size_t block = first; block < last; block += some)
    for (std::size_t panel = 0; panel < columns; panel += width)
      for (std::size_t p = block; p < last && p < block + some; ++p) {
        const float* even = x + 2 * p * stride;
        const bool whole = 2 * p + 1 < count;
        for (std::size_t j = 0; j < width; j += lanes) {
          const __mmask16 there = first_lanes(left_of(panel + j, columns));
          const __m512 a = _mm512_maskz_loadu_ps(there, even + panel + j);
          const __m512 b = _mm512_maskz_loadu_ps(whole ? there : static_cast<__mmask16>(0), even + stride + panel + j);
          put<Stream>(out + panel * pairs + p * width + j, interleave(a, b));
        }
      }
  if (Stream) _mm_sfence();
}

void pack(const float* x, std::size_t stride, std::size_t count, std::size_t columns, std::size_t width,
          std::size_t first, std::size_t last, bool stream, Word* out) {
  (stream ? pack_pairs<true> : pack_pairs<false>)(x, stride, count, columns, width, first, last, out);
}

inline void transpose(__m512i* r) {
  __m512i t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
  }
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
    r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
  }
}

template <bool Stream>
void pack_rows(const float* x, std::size_t stride, std::size_t count, std::size_t columns, std::size_t first,
               std::size_t last, Word* out) {
  constexpr std::size_t width = Bfloat16Kernels::panel;
  const std::size_t pairs = (count + 1) / 2;
  for (std::size_t panel = first; panel < last; ++panel)
    for (std::size_t j = 0; j < width; j += lanes)
      for (std::size_t p = 0; p < pairs; p += lanes) {
        __m512i r[lanes];
        for (std::size_t i = 0; i < lanes; ++i) {
          const std::size_t column = panel * width + j + i;
          const bool there = column < columns;
          const float* from = x + column * stride + 2 * p;
          const __m512 a = _mm512_maskz_loadu_ps(first_lanes(there ? left_of(2 * p, count) : 0), from);
          const __m512 b = _mm512_maskz_loadu_ps(first_lanes(there ? left_of(2 * p + lanes, count) : 0), from + lanes);
          r[i] = (__m512i)_mm512_cvtne2ps_pbh(b, a);
        }
        transpose(r);
        for (std::size_t i = 0; i < lanes && p + i < pairs; ++i)
          put<Stream>(out + (panel * pairs + p + i) * width + j, r[i]);
      }
  if (Stream) _mm_sfence();
}

void pack_transposed(const float* x, std::size_t stride, std::size_t count, std::size_t columns, std::size_t first,
                     std::size_t last, bool stream, Word* out) {
  (stream ? pack_rows<true> : pack_rows<false>)(x, stride, count, columns, first, last, out);
}

struct Tile {
  const Word* a;
  std::size_t row_step, pair_step;
  const Word* b;
  std::size_t pairs;
  float* c;
  std::size_t stride;
  __mmask16 last;
  bool add;
};

// R x 16V sums in registers.
template <int R, int V>
inline __attribute__((always_inline)) void tile(const Tile& t, std::size_t row) {
  __m512 sum[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sum[r][v] = _mm512_setzero_ps();
  const Word* a = t.a + row * t.row_step;
  for (std::size_t p = 0; p < t.pairs; ++p) {
    __m512bh b[V];
    for (int v = 0; v < V; ++v)
      b[v] = (__m512bh)_mm512_loadu_si512(t.b + p * Bfloat16Kernels::panel + static_cast<std::size_t>(v) * lanes);
    for (int r = 0; r < R; ++r) {
      const auto x =
          (__m512bh)_mm512_set1_epi32(static_cast<int>(a[static_cast<std::size_t>(r) * t.row_step + p * t.pair_step]));
      for (int v = 0; v < V; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, b[v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) {
      const __mmask16 there = v == V - 1 ? t.last : static_cast<__mmask16>(0xffff);
      float* c = t.c + (row + static_cast<std::size_t>(r)) * t.stride + static_cast<std::size_t>(v) * lanes;
      if (t.add) sum[r][v] = _mm512_add_ps(_mm512_maskz_loadu_ps(there, c), sum[r][v]);
      _mm512_mask_storeu_ps(c, there, sum[r][v]);
    }
}

// The last rows, up to R.
template <int R, int V>
void last_rows(const Tile& t, std::size_t row, std::size_t rows) {
  if (rows == R) return tile<R, V>(t, row);
  if constexpr (R > 1) last_rows<R - 1, V>(t, row, rows);
}

template <int V>
void all_rows(const Tile& t, std::size_t rows) {
  std::size_t r = 0;
  for (; r + 6 <= rows; r += 6) tile<6, V>(t, r);
  last_rows<5, V>(t, r, rows - r);
}

void multiply(const Word* a, std::size_t row_step, std::size_t pair_step, const Word* b, std::size_t rows,
              std::size_t n, std::size_t pairs, float* c, std::size_t stride, bool add) {
  const std::size_t vectors = (n + lanes - 1) / lanes;
  const Tile t{a, row_step, pair_step, b, pairs, c, stride, first_lanes(n - (vectors - 1) * lanes), add};
  switch (vectors) {
    case 4:
      return all_rows<4>(t, rows);
    case 3:
      return all_rows<3>(t, rows);
    case 2:
      return all_rows<2>(t, rows);
    case 1:
      return all_rows<1>(t, rows);
  }
}

}  // namespace

const Bfloat16Kernels* bfloat16_kernels() {
  static constexpr Bfloat16Kernels kernels{convert, pack, pack_transposed, multiply};
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
             ? &kernels
             : nullptr;
}

}  // namespace tutti::cpu

#else

namespace tutti::cpu {
const Bfloat16Kernels* bfloat16_kernels() { return nullptr; }
}  // namespace tutti::cpu

#endif

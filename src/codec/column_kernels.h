// SPDX-License-Identifier: Apache-2.0
// column_kernels.h -- the codec loops in terms of 16 floats at a time. Each instruction set has a source file that
// includes it and is compiled with its own flags. Everything has internal linkage and calls no inline library function,
// so that code for a newer processor never reaches other sources. Operations must not be reordered or fused: sums run
// in 64 virtual lanes (lane = row mod 64), folded in halves 64, 32, 16, 8, 4, 2, 1.
#pragma once

#include "codec/adaptive_kernels.h"
#include "codec/kernels.h"
#include "codec/lanes.h"

namespace {

using tutti::codec::Format;
using tutti::codec::Threshold;

constexpr float kFlat = 1e-36f;  // columns with a smaller range are constant

// ---- what a column's two floats mean --------------------------------------------------------------------------------

struct Pair {
  float lower, upper;
};
struct Grid {
  float lower, step;  // reconstruction: lower + (q + 0.5) * step
  [[gnu::always_inline]] static inline Grid of(Pair p, int levels) {
    const float range = p.upper - p.lower;
    return {p.lower, range < kFlat ? 0.0f : range / static_cast<float>(levels)};
  }
  float at(int q) const { return lower + (static_cast<float>(q) + 0.5f) * step; }
};

[[gnu::always_inline]] static inline Pair around(float m0, float m1) {
  const float mid = (m0 + m1) * 0.5f, d = m1 - m0;
  return {mid - d, mid + d};
}

// ---- first pass: the two floats of a column

[[gnu::always_inline]] static inline Pair pair_zero_threshold(size_t rows, const float* g, const float* residual) {
  const Sides m = side_means(rows, g, residual);
  return around(m.below, m.above);  // a NaN is among the negative values and makes both floats NaN
}

[[gnu::always_inline]] static inline float mean_value(size_t rows, const float* g, const float* residual) {
  Floats sum[4] = {};
  for_rows(
      rows, [&](size_t r, size_t n, size_t k)
                __attribute__((always_inline)) { sum[k] = sum[k] + value(g, residual, r, n); });
  return fold(sum) / static_cast<float>(rows);
}

[[gnu::always_inline]] static inline Pair pair_mean_threshold(size_t rows, const float* g, const float* residual,
                                                              float mean) {
  Floats sum[4] = {};
  for_rows(
      rows, [&](size_t r, size_t n, size_t k) __attribute__((always_inline)) {
        const Floats d = value(g, residual, r, n) - all(mean);
        const Floats distance = pick(d < all(0.0f), all(0.0f) - d, d);
        sum[k] = sum[k] + (n == kWidth ? distance : pick(lanes_below(n), distance, all(0.0f)));
      });
  const float deviation = fold(sum) / static_cast<float>(rows);
  return around(mean - deviation, mean + deviation);
}

[[gnu::always_inline]] static inline Pair pair_levels(size_t rows, const float* g, const float* residual) {
  Floats sum[4] = {};
  for_rows(
      rows, [&](size_t r, size_t n, size_t k) __attribute__((always_inline)) {
        const Floats v = value(g, residual, r, n);
        sum[k] = sum[k] + v * v;
      });
  const float reach = 4.0f * __builtin_sqrtf(fold(sum) / static_cast<float>(rows));
  return {-reach, reach};
}

// ---- second pass: words and residual --------------------------------------------------------------------------------

// A quantiser returns the level of each value, shifted to its place in the word, and its decoded value.
struct OneBit {
  Floats threshold, low, high;
  OneBit(Pair p, float t) : threshold(all(t)) {
    const Grid grid = Grid::of(p, 2);
    low = all(grid.at(0)), high = all(grid.at(1));
  }
  [[gnu::always_inline]] Ints operator()(Floats v, int shift, Floats& back) const {
    const Ints m = v >= threshold;
    back = pick(m, high, low);
    return pick(m, all(static_cast<std::int32_t>(1u << shift)), all(0));
  }
};

struct Levels {
  Floats lower, upper, step, scale, top;
  Ints top_level;
  Levels(Pair p, int bits) {
    const int levels = (1 << bits) - 1;
    const Grid grid = Grid::of(p, levels);
    const float range = p.upper - p.lower;
    lower = all(p.lower), upper = all(p.upper), step = all(grid.step), top = all(static_cast<float>(levels));
    scale = all(range < kFlat ? 0.0f : static_cast<float>(levels) / range);
    top_level = all(levels);
  }
  [[gnu::always_inline]] Ints operator()(Floats v, int shift, Floats& back) const {
    Floats at = (v - lower) * scale;
    at = pick(at < top, at, top);
    at = pick(v > lower, at, all(0.0f));  // 0 also if a value is NaN
    const Ints q = pick(v >= upper, top_level, to_ints(at));
    back = lower + (to_floats(q) + all(0.5f)) * step;
    return q << shift;
  }
};

// Rows r .. r + n - 1, n up to 16: stores the quantisation error in the residual and the level bits in the words.
template <class Quantizer>
[[gnu::always_inline]] static inline Ints quantize_rows(const float* g, float* residual, size_t r, size_t n, int shift,
                                                        const Quantizer& quantize) {
  Floats back;
  const Floats v = value(g, residual, r, n);
  const Ints q = quantize(v, shift, back);
  if (n == kWidth) {
    store(residual + r, v - back);
    return q;
  }
  store_first(residual + r, n, v - back);
  return pick(lanes_below(n), q, all(0));
}

// Word w of W holds rows w, w + W, w + 2W, ..., lowest bits first: rows i*W .. i*W + W - 1 fill bits i*B of all words.
// 64 words grow in registers; up to 2048 rows of one bit that is the order of the rows, too.
template <int B, class Quantizer>
[[gnu::always_inline]] static inline void write_words(size_t rows, const float* g, float* residual,
                                                      std::uint32_t* words, const Quantizer& quantize) {
  const size_t count = tutti::codec::words_per_column(B, rows);
  for (size_t first = 0; first < count; first += 4 * kWidth) {
    Ints word[4] = {};
    int shift = 0;
    for (size_t base = 0; base < rows; base += count, shift += B) {
      const size_t end = rows - base < count ? rows - base : count;
      if (first + 4 * kWidth <= end) {
        for (size_t k = 0; k < 4; ++k)
          word[k] = word[k] | quantize_rows(g, residual, base + first + k * kWidth, kWidth, shift, quantize);
        continue;
      }
      for (size_t k = 0, w = first; k < 4 && w < end; ++k, w += kWidth)
        word[k] = word[k] | quantize_rows(g, residual, base + w, end - w < kWidth ? end - w : kWidth, shift, quantize);
    }
    for (size_t k = 0, w = first; k < 4 && w < count; ++k, w += kWidth) {
      if (count - w >= kWidth)
        store(words + w, word[k]);
      else
        store_first(words + w, count - w, word[k]);
    }
  }
}

// A column whose values are sent themselves, as they would be decoded.
template <class Quantizer>
[[gnu::always_inline]] static inline void write_raw(size_t rows, const float* g, float* residual, std::byte* out,
                                                    const Quantizer& quantize) {
  const Floats v = load_first(g, rows) + load_first(residual, rows);
  Floats back;
  (void)quantize(v, 0, back);
  store_first(residual, rows, v - back);
  memcpy(out, &back, rows * sizeof(float));
}

template <int B, class Head, class Quantizer>
[[gnu::always_inline]] static inline void write_column(size_t rows, const float* g, float* residual, std::byte* out,
                                                       const Head& head, const Quantizer& quantize) {
  if (tutti::codec::travels_raw({B, false}, rows)) return write_raw(rows, g, residual, out, quantize);
  memcpy(out, &head, sizeof head);
  write_words<B>(rows, g, residual, reinterpret_cast<std::uint32_t*>(out + sizeof head), quantize);
}

// ---- columns of few rows --------------------------------------------------------------------------------------------

// One row: each column is its own sum, so 16 columns are processed together.
[[gnu::always_inline]] static inline Floats one_row(Floats v) {
  const Ints m = v >= all(0.0f);
  const Floats m0 = pick(m, all(0.0f), v), m1 = pick(m, v, all(0.0f));
  const Floats mid = (m0 + m1) * all(0.5f), d = m1 - m0;
  const Floats lower = mid - d, upper = mid + d, range = upper - lower;
  const Floats step = pick(range < all(kFlat), all(0.0f), range * all(0.5f));
  return lower + pick(m, all(1.5f), all(0.5f)) * step;
}

static void encode_rows_of_one(size_t columns, const float* g, float* residual, std::byte* out) {
  for (size_t c = 0; c < columns; c += kWidth) {
    const size_t n = columns - c < kWidth ? columns - c : kWidth;
    const Floats v = value(g, residual, c, n), back = one_row(v);
    if (n == kWidth) {
      store(residual + c, v - back);
      memcpy(out + 4 * c, &back, sizeof back);
    } else {
      store_first(residual + c, n, v - back);
      memcpy(out + 4 * c, &back, n * sizeof(float));
    }
  }
}

// The 16 folds of the vectors get(0) .. get(15), each in the order of fold().
template <class Get>
[[gnu::always_inline]] static inline Floats fold_each(const Get& get) {
#if defined(__AVX512F__)
  NativeFloats a[8], b[4];
  for (int i = 0; i < 8; ++i) {
    const NativeFloats x = get(2 * i).part[0], y = get(2 * i + 1).part[0];
    a[i] = __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           __builtin_shufflevector(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
  for (int i = 0; i < 4; ++i)
    b[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           __builtin_shufflevector(a[2 * i], a[2 * i + 1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  for (int i = 0; i < 2; ++i)
    a[i] = __builtin_shufflevector(b[2 * i], b[2 * i + 1], 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29) +
           __builtin_shufflevector(b[2 * i], b[2 * i + 1], 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
  return {{__builtin_shufflevector(a[0], a[1], 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
           __builtin_shufflevector(a[0], a[1], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)}};
#else
  float sums[kWidth];
  for (int i = 0; i < kWidth; ++i) sums[i] = fold(get(i));
  return load(sums);
#endif
}

// Columns of 3 to 16 rows are processed in groups of up to 16, with one vector and one word each. All of a group are
// read before any is written, because a load that overlaps a recent store waits for it. A full vector may be read and
// written inside the group: bytes beyond a column are overwritten by the following columns, which are stored later.
struct ShortGroup {
  size_t rows, columns;
  Ints inside;
  ShortGroup(size_t r, size_t c) : rows(r), columns(c), inside(lanes_below(r)) {}
  [[gnu::always_inline]] bool full(size_t c) const { return (columns - c) * rows >= kWidth; }
  [[gnu::always_inline]] Floats get(const float* p, size_t c) const {
    return full(c) ? load(p + c * rows) : load_first(p + c * rows, rows);
  }
  [[gnu::always_inline]] void put(float* p, size_t c, Floats v) const {
    full(c) ? store(p + c * rows, v) : store_first(p + c * rows, rows, v);
  }
};

// The two decoded values of up to 16 columns of one bit.
struct ShortGrids {
  float low[kWidth], high[kWidth];
  [[gnu::always_inline]] ShortGrids(Floats lower, Floats upper) {
    const Floats range = upper - lower, step = pick(range < all(kFlat), all(0.0f), range / all(2.0f));
    store(low, lower + all(0.5f) * step), store(high, lower + all(1.5f) * step);
  }
  [[gnu::always_inline]] Floats at(Ints ones, size_t c) const { return pick(ones, all(high[c]), all(low[c])); }
};

[[gnu::always_inline]] static inline void encode_short_group(size_t rows, size_t columns, const float* g,
                                                             float* residual, std::byte* out) {
  const ShortGroup group(rows, columns);
  const std::uint32_t valid = (1u << rows) - 1u;
  Floats v[kWidth];
  std::uint32_t word[kWidth];
  float positives[kWidth];
  for (size_t c = columns; c < kWidth; ++c) v[c] = all(0.0f), positives[c] = 0;
  for (size_t c = 0; c < columns; ++c) {
    v[c] = pick(group.inside, group.get(g, c) + group.get(residual, c), all(0.0f));
    word[c] = bits_of(v[c] >= all(0.0f)) & valid;
    positives[c] = static_cast<float>(__builtin_popcount(word[c]));
  }
  const Floats zero = all(0.0f);
  const Floats ones = load(positives), zeros = all(static_cast<float>(rows)) - ones;
  const Floats negative =
      fold_each([&](int c) __attribute__((always_inline)) { return pick(v[c] >= zero, zero, v[c]); });
  const Floats positive =
      fold_each([&](int c) __attribute__((always_inline)) { return pick(v[c] >= zero, v[c], zero); });
  const Floats m0 = pick(zeros > zero, negative / zeros, zero), m1 = pick(ones > zero, positive / ones, zero);
  const Floats mid = (m0 + m1) * all(0.5f), d = m1 - m0, lower = mid - d, upper = mid + d;
  float lowers[kWidth], uppers[kWidth];
  store(lowers, lower), store(uppers, upper);
  const ShortGrids grids(lower, upper);
  for (size_t c = 0; c < columns; ++c) {
    group.put(residual, c, v[c] - grids.at(v[c] >= zero, c));
    const Pair pair{lowers[c], uppers[c]};
    memcpy(out + 12 * c, &pair, sizeof pair);
    memcpy(out + 12 * c + sizeof pair, &word[c], sizeof word[c]);
  }
}

static void encode_short_columns(size_t rows, size_t columns, const float* g, float* residual, std::byte* out) {
  for (; columns >= kWidth; columns -= kWidth, g += kWidth * rows, residual += kWidth * rows, out += kWidth * 12)
    encode_short_group(rows, kWidth, g, residual, out);
  if (columns > 0) encode_short_group(rows, columns, g, residual, out);
}

// ---- whole columns --------------------------------------------------------------------------------------------------

// While the second pass works in the cache, the next column of both streams is prefetched.
[[gnu::always_inline]] static inline void prefetch_column(const float* g, const float* residual, size_t rows) {
  constexpr size_t kMost = 4096;
  const size_t n = rows < kMost ? rows : kMost;
  for (size_t r = 0; r < n; r += kWidth) {
    __builtin_prefetch(g + r);
    __builtin_prefetch(residual + r, 1);
  }
}

static void encode_one_bit(Threshold threshold, size_t rows, size_t columns, const float* g, float* residual,
                           std::byte* out) {
  const bool zero = threshold == Threshold::zero;
  if (zero && rows == 1) return encode_rows_of_one(columns, g, residual, out);
  if (zero && rows <= kWidth && !tutti::codec::travels_raw({1, false}, rows))
    return encode_short_columns(rows, columns, g, residual, out);
  const size_t step = tutti::codec::column_bytes({1, false}, rows);
  for (size_t c = 0; c < columns; ++c, g += rows, residual += rows, out += step) {
    const float mean = zero ? 0.0f : mean_value(rows, g, residual);
    const Pair pair = zero ? pair_zero_threshold(rows, g, residual) : pair_mean_threshold(rows, g, residual, mean);
    if (c + 1 < columns) prefetch_column(g + rows, residual + rows, rows);
    write_column<1>(rows, g, residual, out, pair, OneBit(pair, mean));
  }
}

template <int B, bool Adaptive>
static void encode_columns(size_t rows, size_t columns, const float* g, float* residual, std::byte* out) {
  const size_t step = tutti::codec::column_bytes({B, Adaptive}, rows);
  for (size_t c = 0; c < columns; ++c, g += rows, residual += rows, out += step) {
    if constexpr (!Adaptive) {
      const Pair pair = pair_levels(rows, g, residual);
      write_column<B>(rows, g, residual, out, pair, Levels(pair, B));
    } else if constexpr (B == 2) {
      const Sides inner = side_means(rows, g, residual);
      const Ranges ranges = means_of_parts<false>(rows, g, residual, inner).means;
      write_column<B>(rows, g, residual, out, ranges, QuarterLevels(ranges, inner));
    } else {
      const Ranges ranges = better_ends<B>(rows, g, residual);
      write_column<B>(rows, g, residual, out, ranges, EvenLevels<B>(ranges));
    }
  }
}

// Calls use<bits>().
template <class Use>
[[gnu::always_inline]] static inline void with_bits(int bits, const Use& use) {
  if (bits == 2) return use.template operator()<2>();
  if (bits == 4) return use.template operator()<4>();
  if (bits == 8) return use.template operator()<8>();
  use.template operator()<16>();
}

static void encode(Format format, size_t rows, size_t columns, const float* g, float* residual, std::byte* out) {
  if (format.bits == 1) return encode_one_bit(format.threshold, rows, columns, g, residual, out);
  if (format.adaptive && tutti::codec::travels_raw(format, rows)) return encode_whole(rows, columns, g, residual, out);
  with_bits(format.bits, [&]<int B>() {
    format.adaptive ? encode_columns<B, true>(rows, columns, g, residual, out)
                    : encode_columns<B, false>(rows, columns, g, residual, out);
  });
}

}  // namespace

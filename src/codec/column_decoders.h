// SPDX-License-Identifier: Apache-2.0
// column_decoders.h -- the loops that decode bytes into columns. Part of column_kernels.h, whose rules apply here too.
#pragma once

#include "codec/column_kernels.h"

namespace {

template <int B>
struct OriginalReader {
  using Head = Pair;
  Floats lower, step, low, high;
  explicit OriginalReader(Pair p) {
    const Grid grid = Grid::of(p, B == 1 ? 2 : (1 << B) - 1);
    lower = all(grid.lower), step = all(grid.step), low = all(grid.at(0)), high = all(grid.at(1));
  }
  [[gnu::always_inline]] Floats operator()(Ints word, int shift) const {
    if (B == 1) return pick(any_bit(word & all(static_cast<std::int32_t>(1u << shift))), high, low);
    const Ints q = (word >> shift) & all((1 << B) - 1);
    return lower + (to_floats(q) + all(0.5f)) * step;
  }
};

template <bool Add>
[[gnu::always_inline]] static inline void put(float* to, Floats v) {
  store(to, Add ? load(to) + v : v);
}
template <bool Add>
[[gnu::always_inline]] static inline void put_first(float* to, size_t n, Floats v) {
  store_first(to, n, Add ? load_first(to, n) + v : v);
}

template <int B, bool Add, class Reader>
[[gnu::always_inline]] static inline void read_words(size_t rows, const std::uint32_t* words, float* values,
                                                     const Reader& back) {
  const size_t count = tutti::codec::words_per_column(B, rows);
  int shift = 0;
  for (size_t base = 0; base < rows; base += count, shift += B) {
    const size_t end = rows - base < count ? rows - base : count;
    for (size_t w = 0; w < end; w += kWidth) {
      const size_t n = end - w;
      if (n >= kWidth)
        put<Add>(values + base + w, back(load(words + w), shift));
      else
        put_first<Add>(values + base + w, n, back(load_first(words + w, n), shift));
    }
  }
}

template <bool Add>
static void read_raw(size_t count, const std::byte* in, float* values) {
  const float* from = reinterpret_cast<const float*>(in);
  size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) put<Add>(values + i, load(from + i));
  if (i < count) put_first<Add>(values + i, count - i, load_first(from + i, count - i));
}

// The other way for up to 16 columns of 3 to 16 rows.
template <bool Add>
[[gnu::always_inline]] static inline void decode_short_group(size_t rows, size_t columns, const std::byte* in,
                                                             float* values) {
  const ShortGroup group(rows, columns);
  float lowers[kWidth] = {}, uppers[kWidth] = {};
  std::int32_t word[kWidth] = {};
  for (size_t c = 0; c < columns; ++c) {
    memcpy(&lowers[c], in + 12 * c, 4);
    memcpy(&uppers[c], in + 12 * c + 4, 4);
    memcpy(&word[c], in + 12 * c + 8, 4);
  }
  const Floats lower = load(lowers), range = load(uppers) - lower;
  const Floats step = pick(range < all(kFlat), all(0.0f), range / all(2.0f));
  float low[kWidth], high[kWidth];
  store(low, lower + all(0.5f) * step), store(high, lower + all(1.5f) * step);
  Floats v[kWidth];
  for (size_t c = 0; c < columns; ++c) {
    v[c] = pick(any_bit(all(word[c]) & lane_bits()), all(high[c]), all(low[c]));
    if (Add) v[c] = group.get(values, c) + v[c];
  }
  for (size_t c = 0; c < columns; ++c) group.put(values, c, v[c]);
}

template <bool Add>
static void decode_short_columns(size_t rows, size_t columns, const std::byte* in, float* values) {
  for (; columns >= kWidth; columns -= kWidth, in += kWidth * 12, values += kWidth * rows)
    decode_short_group<Add>(rows, kWidth, in, values);
  if (columns > 0) decode_short_group<Add>(rows, columns, in, values);
}

template <int B, bool Add, class Reader>
static void decode_columns(size_t rows, size_t columns, const std::byte* in, float* values) {
  using Head = typename Reader::Head;
  const size_t step = sizeof(Head) + 4 * tutti::codec::words_per_column(B, rows);
  for (size_t c = 0; c < columns; ++c, in += step, values += rows) {
    Head head;
    memcpy(&head, in, sizeof head);
    read_words<B, Add>(rows, reinterpret_cast<const std::uint32_t*>(in + sizeof head), values, Reader(head));
  }
}

template <bool Add>
static void decode_format(Format format, size_t rows, size_t columns, const std::byte* in, float* values) {
  if (tutti::codec::travels_raw(format, rows)) return read_raw<Add>(rows * columns, in, values);
  if (format.bits == 1 && rows <= kWidth) return decode_short_columns<Add>(rows, columns, in, values);
  if (format.bits == 1) return decode_columns<1, Add, OriginalReader<1>>(rows, columns, in, values);
  if (format.adaptive) {
    if (format.bits == 2) return decode_columns<2, Add, RangesReader<2>>(rows, columns, in, values);
    if (format.bits == 4) return decode_columns<4, Add, RangesReader<4>>(rows, columns, in, values);
    if (format.bits == 8) return decode_columns<8, Add, RangesReader<8>>(rows, columns, in, values);
    return decode_columns<16, Add, RangesReader<16>>(rows, columns, in, values);
  }
  if (format.bits == 2) return decode_columns<2, Add, OriginalReader<2>>(rows, columns, in, values);
  if (format.bits == 4) return decode_columns<4, Add, OriginalReader<4>>(rows, columns, in, values);
  if (format.bits == 8) return decode_columns<8, Add, OriginalReader<8>>(rows, columns, in, values);
  decode_columns<16, Add, OriginalReader<16>>(rows, columns, in, values);
}

static void decode(Format format, bool add, size_t rows, size_t columns, const std::byte* in, float* values) {
  add ? decode_format<true>(format, rows, columns, in, values)
      : decode_format<false>(format, rows, columns, in, values);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// The codec loops, compiled once per instruction set by the rules of column_kernels.h: those that decode bytes into
// columns, those of 16 bits, and the table of all.
#include "codec/column_kernels.h"
#include "codec/half_bits.h"

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
  const ShortGrids grids(load(lowers), load(uppers));
  Floats v[kWidth];
  for (size_t c = 0; c < columns; ++c) {
    v[c] = grids.at(any_bit(all(word[c]) & lane_bits()), c);
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
  with_bits(format.bits, [&]<int B>() {
    format.adaptive ? decode_columns<B, Add, RangesReader<B>>(rows, columns, in, values)
                    : decode_columns<B, Add, OriginalReader<B>>(rows, columns, in, values);
  });
}

static void decode(Format format, bool add, size_t rows, size_t columns, const std::byte* in, float* values) {
  add ? decode_format<true>(format, rows, columns, in, values)
      : decode_format<false>(format, rows, columns, in, values);
}

// ---- float32 to 16 bits and back ------------------------------------------------------------------------------------

// IEEE half precision and bfloat16, rounded to nearest even. Finite values beyond the range of the format are clamped
// to its largest value, and the difference stays in the residual; infinities are kept.

// 16 values at a time.
template <Half F>
[[gnu::always_inline]] static inline void write_halves(std::byte* out, Floats v) {
#if defined(__AVX512F__)
  if constexpr (F == Half::ieee) {
    const __m256i h = _mm512_maskz_cvtps_ph(0xffff, (__m512)v.part[0], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), h);
    return;
  }
#elif defined(__F16C__)
  if constexpr (F == Half::ieee) {
    for (int i = 0; i < kParts; ++i)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out) + i,
                       _mm256_cvtps_ph((__m256)v.part[i], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    return;
  }
#endif
  float lanes[kWidth];
  std::uint16_t halves[kWidth];
  store(lanes, v);
  for (int i = 0; i < kWidth; ++i)
    halves[i] = static_cast<std::uint16_t>(F == Half::ieee ? to_half(lanes[i]) : to_brain(lanes[i]));
  memcpy(out, halves, sizeof halves);
}

template <Half F>
[[gnu::always_inline]] static inline Floats read_halves(const std::byte* in) {
#if defined(__AVX512F__)
  if constexpr (F == Half::ieee)
    return {{(NativeFloats)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)))}};
#elif defined(__F16C__)
  if constexpr (F == Half::ieee)
    return each<Floats>([&](int i) __attribute__((always_inline)) {
      return (NativeFloats)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in) + i));
    });
#endif
  std::uint16_t halves[kWidth];
  float lanes[kWidth];
  memcpy(halves, in, sizeof halves);
  for (int i = 0; i < kWidth; ++i) lanes[i] = F == Half::ieee ? from_half(halves[i]) : from_brain(halves[i]);
  return load(lanes);
}

template <Half F>
[[gnu::always_inline]] static inline Floats limited(Floats v) {
  constexpr float kInfinity = __builtin_inff();
  v = pick((v > all(kLargest<F>)) & (v < all(kInfinity)), all(kLargest<F>), v);
  return pick((v < all(-kLargest<F>)) & (v > all(-kInfinity)), all(-kLargest<F>), v);
}

template <Half F, bool Residual>
[[gnu::always_inline]] static inline void encode_block(size_t n, const float* values, float* residual, std::byte* out) {
  Floats v = n == kWidth ? load(values) : load_first(values, n);
  if (Residual) v = v + (n == kWidth ? load(residual) : load_first(residual, n));
  std::byte halves[2 * kWidth];
  std::byte* const to = n == kWidth ? out : halves;
  write_halves<F>(to, limited<F>(v));
  if (Residual) {
    const Floats left = v - read_halves<F>(to);
    n == kWidth ? store(residual, left) : store_first(residual, n, left);
  }
  if (n < kWidth) memcpy(out, halves, 2 * n);
}

template <Half F, bool Residual>
static void encode_halves_as(size_t count, const float* values, float* residual, std::byte* out) {
  size_t i = 0;
  for (; i + kWidth <= count; i += kWidth)
    encode_block<F, Residual>(kWidth, values + i, Residual ? residual + i : residual, out + 2 * i);
  if (i < count) encode_block<F, Residual>(count - i, values + i, Residual ? residual + i : residual, out + 2 * i);
}

// Calls use<format>().
template <class Use>
[[gnu::always_inline]] static inline void with_format(Half format, const Use& use) {
  format == Half::ieee ? use.template operator()<Half::ieee>() : use.template operator()<Half::brain>();
}

static void encode_halves(Half format, size_t count, const float* values, float* residual, std::byte* out) {
  with_format(format, [&]<Half F>() {
    residual ? encode_halves_as<F, true>(count, values, residual, out)
             : encode_halves_as<F, false>(count, values, residual, out);
  });
}

template <Half F, bool Add>
static void decode_halves_as(size_t count, const std::byte* in, float* values) {
  size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) put<Add>(values + i, read_halves<F>(in + 2 * i));
  if (i == count) return;
  std::byte halves[2 * kWidth] = {};
  memcpy(halves, in + 2 * i, 2 * (count - i));
  put_first<Add>(values + i, count - i, read_halves<F>(halves));
}

static void decode_halves(Half format, bool add, size_t count, const std::byte* in, float* values) {
  with_format(format, [&]<Half F>() {
    add ? decode_halves_as<F, true>(count, in, values) : decode_halves_as<F, false>(count, in, values);
  });
}

}  // namespace

namespace tutti::codec {

template <>
const Kernels& kernels<compiled_for>() {
  static constexpr Kernels table{compiled_name, encode, decode, encode_halves, decode_halves};
  return table;
}

}  // namespace tutti::codec

// SPDX-License-Identifier: Apache-2.0
// lanes.h -- vectors of 16 floats or 32-bit words, for the instruction set of the including file. Internal linkage, see
// column_kernels.h.
#pragma once

#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

namespace {

using size_t = std::size_t;

// 16 lanes made of native vectors.
#if defined(__AVX512F__)
constexpr int kNative = 16;
#elif defined(__AVX2__)
constexpr int kNative = 8;
#else
constexpr int kNative = 4;
#endif
constexpr int kWidth = 16, kParts = kWidth / kNative;
typedef float NativeFloats __attribute__((vector_size(4 * kNative)));
typedef std::int32_t NativeInts __attribute__((vector_size(4 * kNative)));

struct Floats {
  NativeFloats part[kParts];
};
struct Ints {
  NativeInts part[kParts];
};

template <class To, class Use>
[[gnu::always_inline]] static inline To each(const Use& use) {
  To result;
  for (int i = 0; i < kParts; ++i) result.part[i] = use(i);
  return result;
}
[[gnu::always_inline]] static inline Floats operator+(Floats a, Floats b) {
  return each<Floats>([&](int i) __attribute__((always_inline)) { return a.part[i] + b.part[i]; });
}
[[gnu::always_inline]] static inline Floats operator-(Floats a, Floats b) {
  return each<Floats>([&](int i) __attribute__((always_inline)) { return a.part[i] - b.part[i]; });
}
[[gnu::always_inline]] static inline Floats operator*(Floats a, Floats b) {
  return each<Floats>([&](int i) __attribute__((always_inline)) { return a.part[i] * b.part[i]; });
}
[[gnu::always_inline]] static inline Floats operator/(Floats a, Floats b) {
  return each<Floats>([&](int i) __attribute__((always_inline)) { return a.part[i] / b.part[i]; });
}
[[gnu::always_inline]] static inline Ints operator<(Floats a, Floats b) {
  return each<Ints>([&](int i) __attribute__((always_inline)) { return a.part[i] < b.part[i]; });
}
[[gnu::always_inline]] static inline Ints operator>(Floats a, Floats b) {
  return each<Ints>([&](int i) __attribute__((always_inline)) { return a.part[i] > b.part[i]; });
}
[[gnu::always_inline]] static inline Ints operator>=(Floats a, Floats b) {
  return each<Ints>([&](int i) __attribute__((always_inline)) { return a.part[i] >= b.part[i]; });
}
[[gnu::always_inline]] static inline Ints operator+(Ints a, Ints b) {
  return each<Ints>([&](int i) __attribute__((always_inline)) { return a.part[i] + b.part[i]; });
}
[[gnu::always_inline]] static inline Ints operator|(Ints a, Ints b) {
  return each<Ints>([&](int i) __attribute__((always_inline)) { return a.part[i] | b.part[i]; });
}
[[gnu::always_inline]] static inline Ints operator&(Ints a, Ints b) {
  return each<Ints>([&](int i) __attribute__((always_inline)) { return a.part[i] & b.part[i]; });
}
[[gnu::always_inline]] static inline Ints operator<<(Ints a, int n) {
  return each<Ints>([&](int i) __attribute__((always_inline)) { return a.part[i] << n; });
}
[[gnu::always_inline]] static inline Ints operator>>(Ints a, int n) {
  return each<Ints>([&](int i) __attribute__((always_inline)) { return a.part[i] >> n; });
}
// Lanes of `a` where the mask is set (all ones), of `b` elsewhere.
[[gnu::always_inline]] static inline Floats pick(Ints m, Floats a, Floats b) {
  return each<Floats>([&](int i) __attribute__((always_inline)) { return m.part[i] ? a.part[i] : b.part[i]; });
}
[[gnu::always_inline]] static inline Ints pick(Ints m, Ints a, Ints b) {
  return each<Ints>([&](int i) __attribute__((always_inline)) { return m.part[i] ? a.part[i] : b.part[i]; });
}
[[gnu::always_inline]] static inline Ints any_bit(Ints a) {
  return each<Ints>([&](int i) __attribute__((always_inline)) { return a.part[i] != 0; });
}
[[gnu::always_inline]] static inline Ints below(Ints a, Ints b) {
  return each<Ints>([&](int i) __attribute__((always_inline)) { return a.part[i] < b.part[i]; });
}
[[gnu::always_inline]] static inline Floats to_floats(Ints a) {
  return each<Floats>([&](int i)
                          __attribute__((always_inline)) { return __builtin_convertvector(a.part[i], NativeFloats); });
}
[[gnu::always_inline]] static inline Ints to_ints(Floats a) {
  return each<Ints>([&](int i)
                        __attribute__((always_inline)) { return __builtin_convertvector(a.part[i], NativeInts); });
}
[[gnu::always_inline]] static inline Floats all(float x) {
  return each<Floats>([&](int) __attribute__((always_inline)) { return NativeFloats{} + x; });
}
[[gnu::always_inline]] static inline Ints all(std::int32_t x) {
  return each<Ints>([&](int) __attribute__((always_inline)) { return NativeInts{} + x; });
}

// ---- 16 values in memory, or the first n of them --------------------------------------------------------------------

// Copies one native vector at a time: a copy of all 64 bytes would go through memory.
template <class To, class From>
[[gnu::always_inline]] static inline To read_lanes(const From* p) {
  return each<To>([&](int i) __attribute__((always_inline)) {
    decltype(To{}.part[0] + To{}.part[0]) v;
    memcpy(&v, p + i * kNative, sizeof v);
    return v;
  });
}
template <class To, class V>
[[gnu::always_inline]] static inline void write_lanes(To* p, const V& v) {
  for (int i = 0; i < kParts; ++i) memcpy(p + i * kNative, &v.part[i], sizeof v.part[i]);
}
[[gnu::always_inline]] static inline Floats load(const float* p) { return read_lanes<Floats>(p); }
[[gnu::always_inline]] static inline Ints load(const std::uint32_t* p) { return read_lanes<Ints>(p); }
[[gnu::always_inline]] static inline void store(float* p, Floats v) { write_lanes(p, v); }
[[gnu::always_inline]] static inline void store(std::uint32_t* p, Ints v) { write_lanes(p, v); }

[[gnu::always_inline]] static inline Ints lane_numbers() {
  constexpr std::uint32_t numbers[kWidth] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load(numbers);
}
[[gnu::always_inline]] static inline Ints lane_bits() {
  constexpr std::uint32_t bits[kWidth] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  return load(bits);
}
[[gnu::always_inline]] static inline Ints lanes_below(size_t n) {
  return below(lane_numbers(), all(static_cast<std::int32_t>(n)));
}

#if defined(__AVX512F__)
[[gnu::always_inline]] static inline __mmask16 first(size_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
[[gnu::always_inline]] static inline Floats load_first(const float* p, size_t n) {
  return {{(NativeFloats)_mm512_maskz_loadu_ps(first(n), p)}};
}
[[gnu::always_inline]] static inline Ints load_first(const std::uint32_t* p, size_t n) {
  return {{(NativeInts)_mm512_maskz_loadu_epi32(first(n), p)}};
}
[[gnu::always_inline]] static inline void store_first(float* p, size_t n, Floats v) {
  _mm512_mask_storeu_ps(p, first(n), (__m512)v.part[0]);
}
[[gnu::always_inline]] static inline void store_first(std::uint32_t* p, size_t n, Ints v) {
  _mm512_mask_storeu_epi32(p, first(n), (__m512i)v.part[0]);
}
#else
template <class T>
[[gnu::always_inline]] static inline auto load_first(const T* p, size_t n) {
#if defined(__AVX2__)
  // Not copied lane by lane: a vector load waits until such single stores have reached the cache.
  using To = decltype(load(p));
  const Ints mask = lanes_below(n);
  return each<To>([&](int i) __attribute__((always_inline)) {
    const auto* at = reinterpret_cast<const int*>(p + i * kNative);
    return (decltype(To{}.part[0] + To{}.part[0])) _mm256_maskload_epi32(at, (__m256i)mask.part[i]);
  });
#else
  T lanes[kWidth] = {};
  for (size_t i = 0; i < n; ++i) lanes[i] = p[i];
  return load(lanes);
#endif
}
// Processors with AVX2 are slow to store through a mask.
template <class T, class V>
[[gnu::always_inline]] static inline void store_first(T* p, size_t n, V v) {
  if (n >= kWidth) return store(p, v);
  T lanes[kWidth];
  store(lanes, v);
  const T* from = lanes;
  if (n & 8) memcpy(p, from, 8 * sizeof *p), p += 8, from += 8;
  if (n & 4) memcpy(p, from, 4 * sizeof *p), p += 4, from += 4;
  if (n & 2) memcpy(p, from, 2 * sizeof *p), p += 2, from += 2;
  if (n & 1) *p = *from;
}
#endif

typedef float Floats4 __attribute__((vector_size(16)));
[[gnu::always_inline]] static inline float fold(Floats v) {
  Floats4 q[4];
  memcpy(q, &v, sizeof v);
  const Floats4 f = (q[0] + q[2]) + (q[1] + q[3]);
  return (f[0] + f[2]) + (f[1] + f[3]);
}
[[gnu::always_inline]] static inline float fold(const Floats (&v)[4]) { return fold((v[0] + v[2]) + (v[1] + v[3])); }

// One bit per lane, lane 0 lowest.
[[gnu::always_inline]] static inline std::uint32_t bits_of(Ints m) {
#if defined(__AVX512DQ__)
  return _mm512_movepi32_mask((__m512i)m.part[0]);
#elif defined(__AVX2__)
  return static_cast<std::uint32_t>(_mm256_movemask_ps((__m256)m.part[0])) |
         static_cast<std::uint32_t>(_mm256_movemask_ps((__m256)m.part[1])) << 8;
#else
  std::uint32_t lanes[kWidth], bits = 0;
  store(lanes, m & lane_bits());
  for (const std::uint32_t lane : lanes) bits |= lane;
  return bits;
#endif
}

// ---- the rows of a column ------------------------------------------------------------------------------------------

// Calls use(row, n, vector of 0..3) for all rows, 16 at a time, the last with fewer.
template <class Use>
[[gnu::always_inline]] static inline void for_rows(size_t rows, const Use& use) {
  size_t r = 0;
  for (; r + 4 * kWidth <= rows; r += 4 * kWidth)
    for (size_t k = 0; k < 4; ++k) use(r + k * kWidth, kWidth, k);
  for (size_t k = 0; r < rows; r += kWidth, ++k) use(r, rows - r < kWidth ? rows - r : kWidth, k);
}

[[gnu::always_inline]] static inline Floats value(const float* g, const float* residual, size_t r, size_t n) {
  return n == kWidth ? load(g + r) + load(residual + r) : load_first(g + r, n) + load_first(residual + r, n);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// half_kernels.h -- converts float32 to 16 bits and back: IEEE half precision and bfloat16, rounded to nearest even.
// Included beside column_kernels.h by one source file per instruction set. Finite values beyond the range of the format
// are clamped to its largest value, and the difference stays in the residual; infinities are kept.
#include "codec/half_bits.h"
#include "codec/kernels.h"
#include "codec/lanes.h"

namespace {

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

static void encode_halves(Half format, size_t count, const float* values, float* residual, std::byte* out) {
  if (format == Half::ieee)
    residual ? encode_halves_as<Half::ieee, true>(count, values, residual, out)
             : encode_halves_as<Half::ieee, false>(count, values, residual, out);
  else
    residual ? encode_halves_as<Half::brain, true>(count, values, residual, out)
             : encode_halves_as<Half::brain, false>(count, values, residual, out);
}

template <Half F, bool Add>
static void decode_halves_as(size_t count, const std::byte* in, float* values) {
  size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const Floats v = read_halves<F>(in + 2 * i);
    store(values + i, Add ? load(values + i) + v : v);
  }
  if (i == count) return;
  const size_t n = count - i;
  std::byte halves[2 * kWidth] = {};
  memcpy(halves, in + 2 * i, 2 * n);
  const Floats v = read_halves<F>(halves);
  store_first(values + i, n, Add ? load_first(values + i, n) + v : v);
}

static void decode_halves(Half format, bool add, size_t count, const std::byte* in, float* values) {
  if (format == Half::ieee)
    add ? decode_halves_as<Half::ieee, true>(count, in, values)
        : decode_halves_as<Half::ieee, false>(count, in, values);
  else
    add ? decode_halves_as<Half::brain, true>(count, in, values)
        : decode_halves_as<Half::brain, false>(count, in, values);
}

}  // namespace

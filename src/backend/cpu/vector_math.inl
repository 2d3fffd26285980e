// SPDX-License-Identifier: Apache-2.0
// vector_math.inl -- elementary functions of vectors. Included by kernels.cpp only: each
// instruction set has its own copy in an unnamed namespace, and nothing from the standard library is instantiated here,
// because the linker would keep just one copy of it, perhaps that of an instruction set this machine lacks.

#include "backend/cpu/vectors.inl"

namespace tutti::cpu {
namespace {

// Calls f(offset, count) for 16 floats at a time; count is All but in the last call, if that has fewer.
struct All {
  constexpr operator std::size_t() const { return lanes; }
};
template <class F>
inline void by_lanes(std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) f(i, All());
  if (i < n) f(i, n - i);
}
[[gnu::always_inline]] inline v16 take(const float* x, All) { return load(x); }
[[gnu::always_inline]] inline v16 take(const float* x, std::size_t count) {
  return count == lanes ? load(x) : load_part(x, count);
}
[[gnu::always_inline]] inline void put(float* y, v16 v, All) { store(y, v); }
[[gnu::always_inline]] inline void put(float* y, v16 v, std::size_t count) {
  count == lanes ? store(y, v) : store_part(y, v, count);
}
[[gnu::always_inline]] inline v16 first_lanes(v16 v, std::size_t count) { return floats(bits(v) & lanes_below(count)); }
// Lanes beyond the end count for nothing.
[[gnu::always_inline]] inline v16 only(v16 v, std::size_t count) { return count < lanes ? first_lanes(v, count) : v; }

template <class Vector>
[[gnu::always_inline]] inline Vector magnitude(Vector x) {
  return floats(bits(x) & 0x7fffffff);
}

// The lanes folded in halves: the same order for every instruction set.
[[gnu::always_inline]] inline float add_lanes(v16 v) {
  typedef float Four __attribute__((vector_size(16)));
  Four f[4];
  __builtin_memcpy(f, v.part, sizeof f);
  const Four sum = (f[0] + f[2]) + (f[1] + f[3]);
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}
inline float max_lanes(v16 v) {
  float t[lanes];
  store(t, v);
  float m = t[0];
  for (std::size_t i = 1; i < lanes; ++i)
    if (t[i] > m || t[i] != t[i]) m = t[i];
  return m;
}

// e^x by splitting off powers of two, for x from `least_exponent` to `most_exponent`; NaN stays NaN.
constexpr float least_exponent = -87.3365f, most_exponent = 88.3762f;
template <class Vector>
[[gnu::always_inline]] inline Vector exponential_within(Vector x) {
  constexpr float magic = 12582912.0f;  // x + magic has the nearest whole number in its last bits
  const Vector sum = x * 1.44269504088896341f + magic;
  const Vector n = sum - magic;
  const Vector r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Vector p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * floats((bits(sum) << 23) + 0x3f800000);
}

// e^x: 0 below the smallest normal number, infinity above 2^127.5; NaN stays NaN.
[[gnu::always_inline]] inline v16 exponential(v16 x) {
  const i16 low = x < least_exponent, high = x > most_exponent;
  const v16 y = exponential_within(select(low, least_exponent, select(high, most_exponent, x)));
  return select(low, v16(), select(high, __builtin_inff(), y));
}

// log x for x > 0; elsewhere the caller decides.
[[gnu::always_inline]] inline v16 logarithm(v16 x) {
  const i16 tiny = x < 1.17549435e-38f;
  const v16 scaled = select(tiny, x * 8388608.0f, x);
  const i16 b = bits(scaled);
  i16 e = ((b >> 23) & 0xff) - 126;
  e = select(tiny, e - 23, e);
  v16 m = floats((b & 0x007fffff) | 0x3f000000);
  const i16 low = m < 0.707106781186547524f;
  e = select(low, e - 1, e);
  m = select(low, m + m, m) - 1.0f;
  const v16 z = m * m;
  v16 p = splat(7.0376836292e-2f);
  p = p * m + -1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m + -1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m + -1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m + -2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const v16 ef = to_floats(e);
  v16 y = p * m * z;
  y = y + ef * -2.12194440e-4f;
  y = y - 0.5f * z;
  const v16 r = m + y + ef * 0.693359375f;
  return select(x == __builtin_inff(), x, r);
}

template <class Vector>
[[gnu::always_inline]] inline Vector sigmoid(Vector x) {
  const Vector a = -magnitude(x);
  const auto low = a < least_exponent;
  const Vector e = select(low, Vector(), exponential_within(select(low, least_exponent, a)));
  const Vector s = 1.0f / (1.0f + e);
  return select(x < 0.0f, e * s, s);
}

template <class Vector>
[[gnu::always_inline]] inline Vector tangent_h(Vector x) {
  constexpr float one_from = 40;  // tanh(x) is 1 in float32 for x >= 20, so 2x may stop here
  const Vector a = magnitude(x);
  const Vector z = x * x;
  Vector p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z + -5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z + -3.33332819422e-1f;
  const Vector small = p * z * x + x;
  const Vector twice = a + a;
  const Vector large = 1.0f - 2.0f / (exponential_within(select(twice > one_from, one_from, twice)) + 1.0f);
  return select(a < 0.625f, small, select(x < 0.0f, -large, large));
}

// The original's floor for logarithms of nothing; NaN stays NaN.
constexpr float log_of_nothing = -85.1f;
inline v16 safe_log(v16 x) { return select(x <= 0.0f, log_of_nothing, select(x != x, x, logarithm(x))); }

inline v16 log_plus(v16 a, v16 b) {
  const v16 high = select(a > b, a, b), low = select(a > b, b, a);
  return select(a != a, a, high + logarithm(1.0f + exponential(low - high)));
}

// a / b with b kept away from zero.
inline v16 quotient(v16 a, v16 b) {
  constexpr float least = 1e-30f;
  const v16 away = select(b < 0.0f, v16(-least), v16(least));
  return a / select(magnitude(b) < least, away, b);
}

}  // namespace
}  // namespace tutti::cpu

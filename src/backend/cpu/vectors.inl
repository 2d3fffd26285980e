// SPDX-License-Identifier: Apache-2.0
// vectors.inl -- several native vectors as one value; 16 lanes (v16, i16) in most places. GCC compares and selects wider
// vectors lane by lane, which is slow to run and to compile. Included by vector_math.inl only.

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tutti::cpu {
namespace {

constexpr std::size_t lanes = 16;
#if defined(__AVX512F__)
constexpr std::size_t native_bytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t native_bytes = 32;
#else
constexpr std::size_t native_bytes = 16;
#endif
constexpr std::size_t parts = lanes * sizeof(float) / native_bytes;
typedef float NativeFloats __attribute__((vector_size(native_bytes)));
typedef std::int32_t NativeInts __attribute__((vector_size(native_bytes)));
typedef std::uint32_t NativeWords __attribute__((vector_size(native_bytes)));

template <class To, class F>
[[gnu::always_inline]] inline To by_part(F f) {
  To result;
  for (std::size_t k = 0; k < sizeof result.part / native_bytes; ++k) result.part[k] = f(k);
  return result;
}

template <std::size_t n>
struct Ints;

// n native vectors. Operators are friends, so either operand may be a number.
template <std::size_t n>
struct Floats {
  static constexpr std::size_t lanes = n * native_bytes / sizeof(float);

  NativeFloats part[n];
  [[gnu::always_inline]] Floats() : part{} {}
  // In all lanes.
  [[gnu::always_inline]] Floats(float a) {
    for (NativeFloats& p : part) p = a - NativeFloats{};  // exact, also for -0
  }

  [[gnu::always_inline]] friend Floats operator+(Floats a, Floats b) {
    return by_part<Floats>([&](std::size_t k) { return a.part[k] + b.part[k]; });
  }
  [[gnu::always_inline]] friend Floats operator-(Floats a, Floats b) {
    return by_part<Floats>([&](std::size_t k) { return a.part[k] - b.part[k]; });
  }
  [[gnu::always_inline]] friend Floats operator*(Floats a, Floats b) {
    return by_part<Floats>([&](std::size_t k) { return a.part[k] * b.part[k]; });
  }
  [[gnu::always_inline]] friend Floats operator/(Floats a, Floats b) {
    return by_part<Floats>([&](std::size_t k) { return a.part[k] / b.part[k]; });
  }
  [[gnu::always_inline]] friend Floats operator-(Floats a) {
    return by_part<Floats>([&](std::size_t k) { return -a.part[k]; });
  }
  [[gnu::always_inline]] friend Floats& operator+=(Floats& a, Floats b) { return a = a + b; }

  [[gnu::always_inline]] friend Ints<n> operator<(Floats a, Floats b) {
    return by_part<Ints<n>>([&](std::size_t k) { return a.part[k] < b.part[k]; });
  }
  [[gnu::always_inline]] friend Ints<n> operator<=(Floats a, Floats b) {
    return by_part<Ints<n>>([&](std::size_t k) { return a.part[k] <= b.part[k]; });
  }
  [[gnu::always_inline]] friend Ints<n> operator>(Floats a, Floats b) { return b < a; }
  [[gnu::always_inline]] friend Ints<n> operator>=(Floats a, Floats b) { return b <= a; }
  [[gnu::always_inline]] friend Ints<n> operator==(Floats a, Floats b) {
    return by_part<Ints<n>>([&](std::size_t k) { return a.part[k] == b.part[k]; });
  }
  [[gnu::always_inline]] friend Ints<n> operator!=(Floats a, Floats b) {
    return by_part<Ints<n>>([&](std::size_t k) { return a.part[k] != b.part[k]; });
  }

  [[gnu::always_inline]] friend Ints<n> bits(Floats v) {
    return by_part<Ints<n>>([&](std::size_t k) { return reinterpret_cast<NativeInts>(v.part[k]); });
  }
};

// Also the result of a comparison: all bits of a lane are set or none.
template <std::size_t n>
struct Ints {
  NativeInts part[n];
  [[gnu::always_inline]] Ints() : part{} {}
  [[gnu::always_inline]] Ints(std::int32_t a) {
    for (NativeInts& p : part) p = NativeInts{} + a;
  }

  // Wraps around.
  [[gnu::always_inline]] friend Ints operator+(Ints a, Ints b) {
    return by_part<Ints>([&](std::size_t k) {
      return reinterpret_cast<NativeInts>(reinterpret_cast<NativeWords>(a.part[k]) +
                                          reinterpret_cast<NativeWords>(b.part[k]));
    });
  }
  [[gnu::always_inline]] friend Ints operator-(Ints a, Ints b) {
    return by_part<Ints>([&](std::size_t k) { return a.part[k] - b.part[k]; });
  }
  [[gnu::always_inline]] friend Ints operator&(Ints a, Ints b) {
    return by_part<Ints>([&](std::size_t k) { return a.part[k] & b.part[k]; });
  }
  [[gnu::always_inline]] friend Ints operator|(Ints a, Ints b) {
    return by_part<Ints>([&](std::size_t k) { return a.part[k] | b.part[k]; });
  }
  [[gnu::always_inline]] friend Ints operator<<(Ints a, int count) {
    return by_part<Ints>([&](std::size_t k) { return a.part[k] << count; });
  }
  [[gnu::always_inline]] friend Ints operator>>(Ints a, int count) {
    return by_part<Ints>([&](std::size_t k) { return a.part[k] >> count; });
  }

  // a where the mask is set, b elsewhere.
  [[gnu::always_inline]] friend Floats<n> select(Ints mask, Floats<n> a, Floats<n> b) {
    return by_part<Floats<n>>([&](std::size_t k) { return mask.part[k] ? a.part[k] : b.part[k]; });
  }
  [[gnu::always_inline]] friend Ints select(Ints mask, Ints a, Ints b) {
    return by_part<Ints>([&](std::size_t k) { return mask.part[k] ? a.part[k] : b.part[k]; });
  }

  [[gnu::always_inline]] friend Floats<n> floats(Ints v) {
    return by_part<Floats<n>>([&](std::size_t k) { return reinterpret_cast<NativeFloats>(v.part[k]); });
  }
  [[gnu::always_inline]] friend Floats<n> to_floats(Ints v) {
    return by_part<Floats<n>>([&](std::size_t k) { return __builtin_convertvector(v.part[k], NativeFloats); });
  }
};

using v16 = Floats<parts>;
using i16 = Ints<parts>;
// One register. For long formulas, whose intermediate values would not fit into the registers with v16.
using Native = Floats<1>;

template <class Vector>
[[gnu::always_inline]] inline Vector load_as(const float* x) {
  Vector v;
  __builtin_memcpy(v.part, x, sizeof v.part);
  return v;
}
[[gnu::always_inline]] inline v16 load(const float* x) { return load_as<v16>(x); }
template <std::size_t n>
[[gnu::always_inline]] inline void store(float* y, Floats<n> v) {
  __builtin_memcpy(y, v.part, sizeof v.part);
}
inline v16 splat(float a) { return v16() + a; }

// All bits of the first n lanes.
[[gnu::always_inline]] inline i16 lanes_below(std::size_t n) {
  constexpr std::int32_t numbers[lanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  i16 number;
  __builtin_memcpy(number.part, numbers, sizeof numbers);
  return by_part<i16>([&](std::size_t k) { return number.part[k] < NativeInts{} + static_cast<std::int32_t>(n); });
}

// From and to the first n places, fewer than all; the other lanes of what is loaded are zeros. Masked, not copied lane
// by lane: a vector load waits until such single stores have reached the cache.
[[gnu::always_inline]] inline v16 load_part(const float* x, std::size_t n) {
#if defined(__AVX512F__)
  v16 v;
  v.part[0] = (NativeFloats)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << n) - 1U), x);
  return v;
#elif defined(__AVX2__)
  const i16 mask = lanes_below(n);
  return by_part<v16>([&](std::size_t k) {
    return (NativeFloats)_mm256_maskload_ps(x + k * (lanes / parts), (__m256i)mask.part[k]);
  });
#else
  float t[lanes] = {};
  for (std::size_t i = 0; i < n; ++i) t[i] = x[i];
  return load(t);
#endif
}
[[gnu::always_inline]] inline void store_part(float* y, v16 v, std::size_t n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(y, static_cast<__mmask16>((1U << n) - 1U), (__m512)v.part[0]);
#else
  // Processors with AVX2 are slow to store through a mask.
  float t[lanes];
  store(t, v);
  const float* from = t;
  if (n & 8) __builtin_memcpy(y, from, 8 * sizeof *y), y += 8, from += 8;
  if (n & 4) __builtin_memcpy(y, from, 4 * sizeof *y), y += 4, from += 4;
  if (n & 2) __builtin_memcpy(y, from, 2 * sizeof *y), y += 2, from += 2;
  if (n & 1) *y = *from;
#endif
}

inline float first_lane(v16 v) { return v.part[0][0]; }

template <class F>
inline v16 lane_by_lane(v16 x, F f) {
  float t[lanes];
  store(t, x);
  for (float& v : t) v = f(v);
  return load(t);
}

}  // namespace
}  // namespace tutti::cpu

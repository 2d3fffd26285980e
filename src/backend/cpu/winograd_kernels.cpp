// SPDX-License-Identifier: Apache-2.0
// Compiled for AVX2 with FMA. Internal linkage and no library functions, so that no such code leaks into the rest.
// The algorithm: Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016, with the points 0, a, -a,
// b, -b and infinity. The gradient of the weights is the same algorithm transposed.
#include "backend/cpu/winograd_kernels.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

namespace tutti::cpu {
namespace {

using Vector = __m256;
using Place = WinogradKernels::Place;
using Steps = WinogradKernels::Steps;
using Weights = WinogradKernels::Weights;
constexpr std::size_t columns = WinogradKernels::columns, lanes = 8, rows = WinogradKernels::rows;

// These points round less than 1 and 2, and their squares are exact.
constexpr float a = 0.75f, b = 1.5f, a2 = a * a, b2 = b * b;

[[gnu::always_inline]] inline Vector all(float x) { return _mm256_set1_ps(x); }
[[gnu::always_inline]] inline Vector plus(Vector x, float f, Vector y) {
  return _mm256_fmadd_ps(all(f), y, x);
}  // x + f y
[[gnu::always_inline]] inline Vector minus(Vector x, float f, Vector y) {
  return _mm256_fnmadd_ps(all(f), y, x);
}  // x - f y

// One axis of each transform. From n values to m.
struct Pixels {
  static constexpr int n = 6, m = 6;
  [[gnu::always_inline]] static inline void apply(const Vector* d, Vector* v) {
    const Vector p = minus(d[4], b2, d[2]), q = minus(d[3], b2, d[1]);
    const Vector r = minus(d[4], a2, d[2]), s = minus(d[3], a2, d[1]);
    v[0] = minus(plus(d[4], a2 * b2, d[0]), a2 + b2, d[2]);
    v[1] = plus(p, a, q), v[2] = minus(p, a, q);
    v[3] = plus(r, b, s), v[4] = minus(r, b, s);
    v[5] = minus(plus(d[5], a2 * b2, d[1]), a2 + b2, d[3]);
  }
};
struct Results {
  static constexpr int n = 6, m = 4;
  [[gnu::always_inline]] static inline void apply(const Vector* v, Vector* y) {
    const Vector s = v[1] + v[2], d = v[1] - v[2], t = v[3] + v[4], e = v[3] - v[4];
    y[0] = v[0] + s + t;
    y[1] = plus(all(a) * d, b, e);
    y[2] = plus(all(a2) * s, b2, t);
    y[3] = plus(plus(v[5], a2 * a, d), b2 * b, e);
  }
};
struct Gradient {
  static constexpr int n = 4, m = 6;
  [[gnu::always_inline]] static inline void apply(const Vector* y, Vector* v) {
    const Vector p = plus(y[0], a2, y[2]), q = plus(y[1], a2, y[3]);
    const Vector r = plus(y[0], b2, y[2]), s = plus(y[1], b2, y[3]);
    v[0] = y[0];
    v[1] = plus(p, a, q), v[2] = minus(p, a, q);
    v[3] = plus(r, b, s), v[4] = minus(r, b, s);
    v[5] = y[3];
  }
};
constexpr float at_zero = 1 / (a2 * b2), at_a = 1 / (2 * a2 * (a2 - b2)), at_b = 1 / (2 * b2 * (b2 - a2));
struct Kernel {
  static constexpr int n = 3, m = 6;
  [[gnu::always_inline]] static inline void apply(const Vector* g, Vector* u) {
    const Vector p = plus(g[0], a2, g[2]) * all(at_a), q = g[1] * all(a * at_a);
    const Vector r = plus(g[0], b2, g[2]) * all(at_b), s = g[1] * all(b * at_b);
    u[0] = g[0] * all(at_zero);
    u[1] = p + q, u[2] = p - q;
    u[3] = r + s, u[4] = r - s;
    u[5] = g[2];
  }
};
struct KernelGradient {
  static constexpr int n = 6, m = 3;
  [[gnu::always_inline]] static inline void apply(const Vector* u, Vector* g) {
    const Vector s = (u[1] + u[2]) * all(at_a), t = (u[3] + u[4]) * all(at_b);
    g[0] = plus(s + t, at_zero, u[0]);
    g[1] = plus((u[1] - u[2]) * all(a * at_a), b * at_b, u[3] - u[4]);
    g[2] = plus(plus(u[5], a2, s), b2, t);
  }
};

// Both axes: take(i, j) gives n x n values, put(i, j, value) takes m x m.
template <class Axis, class Take, class Put>
[[gnu::always_inline]] inline void transform(const Take& take, const Put& put) {
  Vector half[Axis::m][Axis::n];
#pragma GCC unroll 6
  for (int j = 0; j < Axis::n; ++j) {
    Vector in[Axis::n], out[Axis::m];
#pragma GCC unroll 6
    for (int i = 0; i < Axis::n; ++i) in[i] = take(i, j);
    Axis::apply(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < Axis::m; ++i) half[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < Axis::m; ++i) {
    Vector out[Axis::m];
    Axis::apply(half[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < Axis::m; ++j) put(i, j, out[j]);
  }
}

// The cache lines of 4 x 4 pixels: hardware does not see the pattern of tiles. They may lie outside of the image.
[[gnu::always_inline]] inline void prefetch(const float* first, std::size_t width) {
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 4; j += 2)
      _mm_prefetch(reinterpret_cast<const char*>(first + (i * width + j) * lanes), _MM_HINT_T0);
}

// Pixels outside are read at the nearest place inside and masked.
template <class Axis, bool edge>
void spread_tile(const Place& p, const float* image, const Steps& steps, float* out) {
  constexpr int n = Axis::n;
  std::size_t row[n], column[n];
  Vector row_mask[n], column_mask[n];
  const auto look = [](long first, std::size_t size, std::size_t step, std::size_t* offset, Vector* mask) {
    for (int i = 0; i < n; ++i) {
      const long at = first + i, last = static_cast<long>(size) - 1;
      const bool inside = at >= 0 && at <= last;
      offset[i] = static_cast<std::size_t>(inside ? at : at < 0 ? 0 : last) * step;
      if constexpr (edge) mask[i] = _mm256_castsi256_ps(_mm256_set1_epi32(inside ? -1 : 0));
    }
  };
  look(p.y, p.height, p.width * lanes, row, row_mask);
  look(p.x, p.width, lanes, column, column_mask);
  for (std::size_t k = 0; k < p.blocks; ++k, image += p.width * p.height * lanes) {
    float* to = out + k / 2 * steps.pair + k % 2 * steps.block;
    const float* from = image + row[0] + column[0];
    prefetch(from + p.ahead, p.width);
    transform<Axis>(
        [&](int i, int j) {
          if constexpr (!edge)
            return _mm256_loadu_ps(from + static_cast<std::size_t>(i) * p.width * lanes +
                                   static_cast<std::size_t>(j) * lanes);
          else
            return _mm256_and_ps(_mm256_and_ps(row_mask[i], column_mask[j]),
                                 _mm256_loadu_ps(image + row[i] + column[j]));
        },
        [&](int i, int j, Vector v) {
          _mm256_storeu_ps(to + static_cast<std::size_t>(i * Axis::m + j) * steps.position, v);
        });
  }
}

template <class Axis>
void spread(const Place& p, const float* image, const Steps& steps, float* out) {
  const auto n = Axis::n;
  const bool inside =
      p.x >= 0 && p.y >= 0 && p.x + n <= static_cast<long>(p.width) && p.y + n <= static_cast<long>(p.height);
  (inside ? spread_tile<Axis, false> : spread_tile<Axis, true>)(p, image, steps, out);
}

void spread_weights(const Weights& w, const float* weights, std::size_t padded_depth, std::size_t step, float* out) {
  for (std::size_t half = 0; half < columns; half += lanes)
    for (std::size_t d = 0; d < padded_depth; ++d) {
      alignas(32) float values[9][lanes] = {};
      if (d < w.depth)
        for (std::size_t i = 0; i < lanes && half + i < w.columns; ++i) {
          const float* from = weights + d * w.along + (half + i) * w.across;
          for (std::size_t k = 0; k < 9; ++k) values[w.turned ? 8 - k : k][i] = from[k];
        }
      float* to = out + d * columns + half;
      transform<Kernel>(
          [&](int i, int j) { return _mm256_load_ps(values[i * 3 + j]); },
          [&](int i, int j, Vector v) { _mm256_storeu_ps(to + static_cast<std::size_t>(i * 6 + j) * step, v); });
    }
}

void gather_weights(const Weights& w, const float* m, std::size_t step, float* dw, bool add) {
  for (std::size_t half = 0; half < columns && half < w.columns; half += lanes)
    for (std::size_t d = 0; d < w.depth; ++d) {
      alignas(32) float values[9][lanes];
      const float* from = m + d * columns + half;
      transform<KernelGradient>(
          [&](int i, int j) { return _mm256_loadu_ps(from + static_cast<std::size_t>(i * 6 + j) * step); },
          [&](int i, int j, Vector v) { _mm256_store_ps(values[i * 3 + j], v); });
      for (std::size_t i = 0; i < lanes && half + i < w.columns; ++i) {
        float* to = dw + d * w.along + (half + i) * w.across;
        for (std::size_t k = 0; k < 9; ++k) to[k] = add ? to[k] + values[k][i] : values[k][i];
      }
    }
}

void gather_pixels(const Place& p, const WinogradKernels::Result& r, const float* m, float* image) {
  const auto height = static_cast<long>(p.height) - p.y, width = static_cast<long>(p.width) - p.x;
  float* to = image + (static_cast<std::size_t>(p.y) * p.width + static_cast<std::size_t>(p.x)) * lanes;
  const Vector low = r.relu ? _mm256_setzero_ps() : all(-__builtin_inff());
  for (std::size_t k = 0; k < p.blocks; ++k, to += p.width * p.height * lanes, m += lanes) {
    const Vector bias = _mm256_loadu_ps(r.bias + k * lanes);
    prefetch(to + p.ahead, p.width);
    transform<Results>([&](int i, int j) { return _mm256_loadu_ps(m + static_cast<std::size_t>(i * 6 + j) * r.step); },
                       [&](int i, int j, Vector v) {
                         if (i >= height || j >= width) return;
                         float* at = to + (static_cast<std::size_t>(i) * p.width + static_cast<std::size_t>(j)) * lanes;
                         v = _mm256_max_ps(low, v + bias);  // in this order, NaN stays
                         _mm256_storeu_ps(at, r.add ? v + _mm256_loadu_ps(at) : v);
                       });
  }
}

template <std::size_t R>
[[gnu::always_inline]] inline void product(const float* v, std::size_t step, std::size_t blocks, const float* u,
                                           float* c) {
  Vector sum[R][2];
#pragma GCC unroll 6
  for (std::size_t i = 0; i < R; ++i) sum[i][0] = sum[i][1] = _mm256_setzero_ps();
  for (std::size_t k = 0; k < blocks; ++k, v += step, u += lanes * columns)
#pragma GCC unroll 8
    for (std::size_t p = 0; p < lanes; ++p) {
      const Vector u0 = _mm256_loadu_ps(u + p * columns), u1 = _mm256_loadu_ps(u + p * columns + lanes);
#pragma GCC unroll 6
      for (std::size_t i = 0; i < R; ++i) {
        const Vector x = _mm256_broadcast_ss(v + i * lanes + p);
        sum[i][0] = _mm256_fmadd_ps(x, u0, sum[i][0]);
        sum[i][1] = _mm256_fmadd_ps(x, u1, sum[i][1]);
      }
    }
#pragma GCC unroll 6
  for (std::size_t i = 0; i < R; ++i) {
    _mm256_storeu_ps(c + i * columns, sum[i][0]);
    _mm256_storeu_ps(c + i * columns + lanes, sum[i][1]);
  }
}

// The last tiles, up to R.
template <std::size_t R>
void last_product(const float* v, std::size_t step, std::size_t tiles, std::size_t blocks, const float* u, float* c) {
  if (tiles == R) return product<R>(v, step, blocks, u, c);
  if constexpr (R > 1) last_product<R - 1>(v, step, tiles, blocks, u, c);
}

void multiply(const float* v, std::size_t step, std::size_t tiles, std::size_t blocks, const float* u, float* c) {
  for (; tiles >= rows; tiles -= rows, v += rows * lanes, c += rows * columns) product<rows>(v, step, blocks, u, c);
  if (tiles > 0) last_product<rows - 1>(v, step, tiles, blocks, u, c);
}

void multiply_gradient(const float* v, const float* w, std::size_t tiles, float* c, bool add) {
  constexpr std::size_t some = 4;
  for (std::size_t half = 0; half < lanes; half += some, c += some * columns) {
    Vector sum[some][2];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < some; ++i)
#pragma GCC unroll 2
      for (std::size_t j = 0; j < 2; ++j)
        sum[i][j] = add ? _mm256_loadu_ps(c + i * columns + j * lanes) : _mm256_setzero_ps();
    for (std::size_t t = 0; t < tiles; ++t) {
      const Vector w0 = _mm256_loadu_ps(w + t * columns), w1 = _mm256_loadu_ps(w + t * columns + lanes);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < some; ++i) {
        const Vector x = _mm256_broadcast_ss(v + t * lanes + half + i);
        sum[i][0] = _mm256_fmadd_ps(x, w0, sum[i][0]);
        sum[i][1] = _mm256_fmadd_ps(x, w1, sum[i][1]);
      }
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < some; ++i) {
      _mm256_storeu_ps(c + i * columns, sum[i][0]);
      _mm256_storeu_ps(c + i * columns + lanes, sum[i][1]);
    }
  }
}

}  // namespace

const WinogradKernels* winograd_kernels() {
  static constexpr WinogradKernels kernels{spread<Pixels>,    spread<Gradient>, spread_weights, multiply,
                                           multiply_gradient, gather_pixels,    gather_weights};
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernels : nullptr;
}

}  // namespace tutti::cpu

#else

namespace tutti::cpu {
const WinogradKernels* winograd_kernels() { return nullptr; }
}  // namespace tutti::cpu

#endif

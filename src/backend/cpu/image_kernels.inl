// SPDX-License-Identifier: Apache-2.0
// image_kernels.inl -- the bodies behind the table of image_kernels.h; included by each kernels_<instruction set>.cpp
// after kernels.inl.
#include "backend/cpu/image_kernels.h"

namespace tutti::cpu {
namespace {

// Calls f(offset, count) for 16 floats at a time; count is smaller in the last call only.
template <class F>
inline void by_lanes(std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) f(i, lanes);
  if (i < n) f(i, n - i);
}
inline v16 take(const float* x, std::size_t count) { return count == lanes ? load(x) : load_part(x, count); }
inline void put(float* y, v16 v, std::size_t count) { count == lanes ? store(y, v) : store_part(y, v, count); }
// Lanes beyond the end count for nothing.
inline v16 only(v16 v, std::size_t count) {
  if (count < lanes)
    for (std::size_t l = count; l < lanes; ++l) v[l] = 0;
  return v;
}
inline void add_to(Lanes& sum, v16 v) { store(sum.v, load(sum.v) + v); }

void image_moments(const float* x, std::size_t n, const Lanes& about, Lanes& sum, Lanes& square) {
  const v16 center = load(about.v);
  // Four chains of sums: an addition need not wait for the one before.
  v16 s[4] = {}, q[4] = {};
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    for (std::size_t k = 0; k < 4; ++k) {
      const v16 d = load(x + i + k * lanes) - center;
      s[k] += d, q[k] += d * d;
    }
  by_lanes(n - i, [&](std::size_t at, std::size_t count) {
    const v16 d = only(take(x + i + at, count) - center, count);
    s[0] += d, q[0] += d * d;
  });
  add_to(sum, (s[0] + s[1]) + (s[2] + s[3]));
  add_to(square, (q[0] + q[1]) + (q[2] + q[3]));
}

template <bool relu, bool more>
inline void normalized(const float* x, const float* added, const Affine& a, float* y, std::size_t n) {
  const v16 center = load(a.center.v), scale = load(a.scale.v), shift = load(a.shift.v);
  by_lanes(n, [&](std::size_t i, std::size_t count) {
    v16 v = (take(x + i, count) - center) * scale + shift;
    if constexpr (more) v += take(added + i, count);
    if constexpr (relu) v = v < 0.0f ? v16{} : v;
    put(y + i, v, count);
  });
}
void image_normalize(const float* x, const float* added, const Affine& a, bool relu, float* y, std::size_t n) {
  if (added) return relu ? normalized<true, true>(x, added, a, y, n) : normalized<false, true>(x, added, a, y, n);
  return relu ? normalized<true, false>(x, added, a, y, n) : normalized<false, false>(x, added, a, y, n);
}

template <bool mask, bool keep>
inline void sums_back(const float* x, const float* y, const float* dy, float* masked, const Lanes& about, Lanes& sum,
                      Lanes& product, std::size_t n) {
  const v16 center = load(about.v);
  v16 s[2] = {}, p[2] = {};
  const auto step = [&](std::size_t i, std::size_t count, std::size_t k) {
    v16 d = take(dy + i, count);
    if constexpr (mask) d = take(y + i, count) > 0.0f ? d : v16{};
    if constexpr (keep) put(masked + i, d, count);
    s[k] += d, p[k] += d * (take(x + i, count) - center);
  };
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) step(i, lanes, 0), step(i + lanes, lanes, 1);
  by_lanes(n - i, [&](std::size_t at, std::size_t count) { step(i + at, count, 0); });
  add_to(sum, s[0] + s[1]);
  add_to(product, p[0] + p[1]);
}
void image_gradient_sums(const float* x, const float* y, const float* dy, float* masked, const Lanes& center,
                         Lanes& sum, Lanes& product, std::size_t n) {
  if (y && masked) return sums_back<true, true>(x, y, dy, masked, center, sum, product, n);
  if (y) return sums_back<true, false>(x, y, dy, masked, center, sum, product, n);
  if (masked && masked != dy) return sums_back<false, true>(x, y, dy, masked, center, sum, product, n);
  return sums_back<false, false>(x, y, dy, masked, center, sum, product, n);
}

template <bool add>
inline void normalized_back(const float* x, const float* dy, const Lanes& about, const Lanes& by, const Lanes& sloped,
                            const Lanes& shifted, float* dx, std::size_t n) {
  const v16 center = load(about.v), scale = load(by.v), slope = load(sloped.v), shift = load(shifted.v);
  by_lanes(n, [&](std::size_t i, std::size_t count) {
    v16 g = (take(dy + i, count) * scale - shift) - (take(x + i, count) - center) * slope;
    if constexpr (add) g = take(dx + i, count) + g;
    put(dx + i, g, count);
  });
}
void image_normalize_gradient(const float* x, const float* dy, const Lanes& center, const Lanes& scale,
                              const Lanes& slope, const Lanes& shift, float* dx, std::size_t n, bool add) {
  add ? normalized_back<true>(x, dy, center, scale, slope, shift, dx, n)
      : normalized_back<false>(x, dy, center, scale, slope, shift, dx, n);
}

template <bool mask>
inline void masked(const float* y, float* dy, Lanes& sum, std::size_t n) {
  v16 s[2] = {};
  const auto step = [&](std::size_t i, std::size_t count, std::size_t k) {
    v16 d = take(dy + i, count);
    if constexpr (mask) d = take(y + i, count) > 0.0f ? d : v16{}, put(dy + i, d, count);
    s[k] += d;
  };
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) step(i, lanes, 0), step(i + lanes, lanes, 1);
  by_lanes(n - i, [&](std::size_t at, std::size_t count) { step(i + at, count, 0); });
  add_to(sum, s[0] + s[1]);
}
void image_masked_sum(const float* y, float* dy, Lanes& sum, std::size_t n) {
  y ? masked<true>(y, dy, sum, n) : masked<false>(y, dy, sum, n);
}

// d^-beta
inline v16 power(v16 d, float beta) { return exponential(logarithm(d) * -beta); }

constexpr std::size_t response_rows = max_response_channels + 2 * max_response_radius;

// Rows of 16 lanes: `row(c)` gives what is summed, `out(c, sum)` gets the sum over the channels around c.
template <class Row, class Out>
inline void over_channels(const Response& r, Row row, Out out) {
  alignas(64) float rows[response_rows * lanes];
  const std::size_t radius = r.radius, all = r.channels + 2 * radius;
  for (std::size_t c = 0; c < radius; ++c) store(rows + c * lanes, v16{}), store(rows + (all - 1 - c) * lanes, v16{});
  for (std::size_t c = 0; c < r.channels; ++c) store(rows + (c + radius) * lanes, row(c));
  for (std::size_t c = 0; c < r.channels; ++c) {
    v16 sum = load(rows + c * lanes);
    for (std::size_t k = 1; k <= 2 * radius; ++k) sum += load(rows + (c + k) * lanes);
    out(c, sum);
  }
}

void image_respond_plain(const Response& r, const float* x, float* y, float* work, std::size_t pixels,
                         std::size_t step) {
  by_lanes(pixels, [&](std::size_t i, std::size_t count) {
    over_channels(
        r,
        [&](std::size_t c) {
          const v16 v = take(x + c * step + i, count);
          return v * v;
        },
        [&](std::size_t c, v16 sum) {
          const std::size_t at = c * step + i;
          const v16 d = r.bias + r.alpha * sum;
          put(work + at, d, count);
          put(y + at, take(x + at, count) * power(d, r.beta), count);
        });
  });
}

void image_respond_gradient_plain(const Response& r, const float* x, const float* y, const float* dy, const float* work,
                                  float* dx, std::size_t pixels, std::size_t step, bool add) {
  const float slope = 2 * r.alpha * r.beta;
  by_lanes(pixels, [&](std::size_t i, std::size_t count) {
    over_channels(
        r,
        [&](std::size_t c) {
          const std::size_t at = c * step + i;
          return only(take(dy + at, count) * take(y + at, count) / take(work + at, count), count);
        },
        [&](std::size_t c, v16 sum) {
          const std::size_t at = c * step + i;
          v16 g = take(dy + at, count) * power(only(take(work + at, count), count), r.beta) -
                  slope * take(x + at, count) * sum;
          if (add) g = take(dx + at, count) + g;
          put(dx + at, g, count);
        });
  });
}

// One pixel: its channels are gathered into a line, summed around each, and distributed again.
template <class Row, class Out>
inline void over_line(const Response& r, std::size_t block, Row row, Out out) {
  alignas(64) float line[response_rows + 2 * lanes] = {};
  const std::size_t blocks = (r.channels + block - 1) / block;
  for (std::size_t b = 0; b < blocks; ++b) put(line + r.radius + b * block, row(b), block);
  for (std::size_t b = 0; b < blocks; ++b) {
    v16 sum = take(line + b * block, block);
    for (std::size_t k = 1; k <= 2 * r.radius; ++k) sum += take(line + b * block + k, block);
    out(b, sum);
  }
}

void image_respond_blocked(const Response& r, std::size_t block, const float* x, float* y, float* work,
                           std::size_t pixels, std::size_t step) {
  for (std::size_t p = 0; p < pixels; ++p)
    over_line(
        r, block,
        [&](std::size_t b) {
          const v16 v = take(x + b * step + p * block, block);
          return v * v;
        },
        [&](std::size_t b, v16 sum) {
          const std::size_t at = b * step + p * block;
          const v16 d = r.bias + r.alpha * sum;
          put(work + at, d, block);
          put(y + at, take(x + at, block) * power(d, r.beta), block);
        });
}

void image_respond_gradient_blocked(const Response& r, std::size_t block, const float* x, const float* y,
                                    const float* dy, const float* work, float* dx, std::size_t pixels, std::size_t step,
                                    bool add) {
  const float slope = 2 * r.alpha * r.beta;
  for (std::size_t p = 0; p < pixels; ++p)
    over_line(
        r, block,
        [&](std::size_t b) {
          const std::size_t at = b * step + p * block;
          return take(dy + at, block) * take(y + at, block) / take(work + at, block);
        },
        [&](std::size_t b, v16 sum) {
          const std::size_t at = b * step + p * block;
          v16 g = take(dy + at, block) * power(take(work + at, block), r.beta) - slope * take(x + at, block) * sum;
          if (add) g = take(dx + at, block) + g;
          put(dx + at, g, block);
        });
}

constexpr ImageKernels make_image_kernels(std::size_t block) {
  return {block,
          image_moments,
          image_normalize,
          image_gradient_sums,
          image_normalize_gradient,
          image_masked_sum,
          image_respond_plain,
          image_respond_gradient_plain,
          image_respond_blocked,
          image_respond_gradient_blocked};
}

}  // namespace
}  // namespace tutti::cpu

// SPDX-License-Identifier: Apache-2.0
// image_kernels.inl -- the bodies behind the table of kernels.h; included by kernels.cpp after the vectors.

namespace tutti::cpu {
namespace {

inline void add_to(Lanes& sum, v16 v) { store(sum.v, load(sum.v) + v); }

// Calls step(offset, count, chain) for 16 floats at a time. With several chains of sums, an addition need not wait for
// the one before.
template <std::size_t chains, class F>
inline void by_chains(std::size_t n, F step) {
  std::size_t i = 0;
  for (; i + chains * lanes <= n; i += chains * lanes)
    for (std::size_t k = 0; k < chains; ++k) step(i + k * lanes, All(), k);
  by_lanes(n - i, [&](std::size_t at, auto count) { step(i + at, count, 0); });
}

void image_moments(const float* x, std::size_t n, const Lanes& about, Lanes& sum, Lanes& square) {
  const v16 center = load(about.v);
  v16 s[4] = {}, q[4] = {};
  by_chains<4>(n, [&](std::size_t i, auto count, std::size_t k) {
    const v16 d = only(take(x + i, count) - center, count);
    s[k] += d, q[k] += d * d;
  });
  add_to(sum, (s[0] + s[1]) + (s[2] + s[3]));
  add_to(square, (q[0] + q[1]) + (q[2] + q[3]));
}

// Calls use<a, b>(), where both are known at run time only.
template <class Use>
inline void with_known(bool a, bool b, Use use) {
  if (a) return b ? use.template operator()<true, true>() : use.template operator()<true, false>();
  b ? use.template operator()<false, true>() : use.template operator()<false, false>();
}

void image_normalize(const float* x, const float* added, const Affine& a, bool relu, float* y, std::size_t n) {
  with_known(relu, added != nullptr, [=, &a]<bool positive, bool more>() {
    const v16 center = load(a.center.v), scale = load(a.scale.v), shift = load(a.shift.v);
    by_lanes(n, [&](std::size_t i, auto count) {
      v16 v = (take(x + i, count) - center) * scale + shift;
      if constexpr (more) v += take(added + i, count);
      if constexpr (positive) v = v < 0.0f ? v16{} : v;
      put(y + i, v, count);
    });
  });
}

void image_gradient_sums(const float* x, const float* y, const float* dy, float* masked, const Lanes& about, Lanes& sum,
                         Lanes& product, std::size_t n) {
  const bool kept = masked && (y || masked != dy);
  with_known(y != nullptr, kept, [=, &about, &sum, &product]<bool mask, bool keep>() {
    const v16 center = load(about.v);
    v16 s[2] = {}, p[2] = {};
    by_chains<2>(n, [&](std::size_t i, auto count, std::size_t k) {
      v16 d = take(dy + i, count);
      if constexpr (mask) d = take(y + i, count) > 0.0f ? d : v16{};
      if constexpr (keep) put(masked + i, d, count);
      s[k] += d, p[k] += d * (take(x + i, count) - center);
    });
    add_to(sum, s[0] + s[1]);
    add_to(product, p[0] + p[1]);
  });
}

void image_normalize_gradient(const float* x, const float* dy, const Lanes& about, const Lanes& by, const Lanes& sloped,
                              const Lanes& shifted, float* dx, std::size_t n, bool add) {
  const v16 center = load(about.v), scale = load(by.v), slope = load(sloped.v), shift = load(shifted.v);
  with_known(add, false, [=]<bool more, bool>() {
    by_lanes(n, [&](std::size_t i, auto count) {
      v16 g = (take(dy + i, count) * scale - shift) - (take(x + i, count) - center) * slope;
      if constexpr (more) g = take(dx + i, count) + g;
      put(dx + i, g, count);
    });
  });
}

void image_masked_sum(const float* y, float* dy, Lanes& sum, std::size_t n) {
  with_known(y != nullptr, false, [=, &sum]<bool mask, bool>() {
    v16 s[2] = {};
    by_chains<2>(n, [&](std::size_t i, auto count, std::size_t k) {
      v16 d = take(dy + i, count);
      if constexpr (mask) d = take(y + i, count) > 0.0f ? d : v16{}, put(dy + i, d, count);
      s[k] += d;
    });
    add_to(sum, s[0] + s[1]);
  });
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

// One pixel: its channels are gathered into a line, summed around each, and distributed again.
template <class Row, class Out>
inline void over_line(const Response& r, Row row, Out out) {
  alignas(64) float line[response_rows + 2 * lanes] = {};
  const std::size_t block = r.block, blocks = (r.channels + block - 1) / block;
  for (std::size_t b = 0; b < blocks; ++b) put(line + r.radius + b * block, row(b), block);
  for (std::size_t b = 0; b < blocks; ++b) {
    v16 sum = take(line + b * block, block);
    for (std::size_t k = 1; k <= 2 * r.radius; ++k) sum += take(line + b * block + k, block);
    out(b, sum);
  }
}

// use.row(at, count) and use.out(at, count, sum) for all values.
template <class Use>
inline void over_image(const Response& r, std::size_t pixels, std::size_t step, const Use& use) {
  if (r.block == 0)
    return by_lanes(pixels, [&](std::size_t i, std::size_t count) {
      over_channels(
          r, [&](std::size_t c) { return use.row(c * step + i, count); },
          [&](std::size_t c, v16 sum) { use.out(c * step + i, count, sum); });
    });
  for (std::size_t p = 0; p < pixels * r.block; p += r.block)
    over_line(
        r, [&](std::size_t b) { return use.row(b * step + p, r.block); },
        [&](std::size_t b, v16 sum) { use.out(b * step + p, r.block, sum); });
}

void image_respond(const Response& r, const float* x, float* y, float* work, std::size_t pixels, std::size_t step) {
  struct Use {
    const Response& r;
    const float* x;
    float *y, *work;
    v16 row(std::size_t at, std::size_t count) const {
      const v16 v = take(x + at, count);
      return v * v;
    }
    void out(std::size_t at, std::size_t count, v16 sum) const {
      const v16 d = r.bias + r.alpha * sum;
      put(work + at, d, count);
      put(y + at, take(x + at, count) * power(d, r.beta), count);
    }
  };
  over_image(r, pixels, step, Use{r, x, y, work});
}

void image_respond_gradient(const Response& r, const float* x, const float* y, const float* dy, const float* work,
                            float* dx, std::size_t pixels, std::size_t step, bool add) {
  struct Use {
    const Response& r;
    const float *x, *y, *dy, *work;
    float *dx, slope;
    bool add;
    v16 row(std::size_t at, std::size_t count) const {
      return only(take(dy + at, count) * take(y + at, count) / take(work + at, count), count);
    }
    void out(std::size_t at, std::size_t count, v16 sum) const {
      v16 g =
          take(dy + at, count) * power(only(take(work + at, count), count), r.beta) - slope * take(x + at, count) * sum;
      if (add) g = take(dx + at, count) + g;
      put(dx + at, g, count);
    }
  };
  over_image(r, pixels, step, Use{r, x, y, dy, work, dx, 2 * r.alpha * r.beta, add});
}

}  // namespace
}  // namespace tutti::cpu

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
      if constexpr (positive) v = select(v < 0.0f, v16(), v);
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
      if constexpr (mask) d = select(take(y + i, count) > 0.0f, d, v16());
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
      if constexpr (mask) d = select(take(y + i, count) > 0.0f, d, v16()), put(dy + i, d, count);
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

// The channels of a blocked image that lie together.
constexpr std::size_t block_lanes = compiled_for == InstructionSet::avx512 ? 16 : 8;
typedef float block_vector __attribute__((vector_size(block_lanes * 4)));
typedef float block_in_memory __attribute__((vector_size(block_lanes * 4), aligned(4), may_alias));
typedef std::int32_t block_numbers __attribute__((vector_size(block_lanes * 4)));
typedef std::uint8_t block_bytes __attribute__((vector_size(block_lanes)));
typedef std::uint8_t bytes_in_memory __attribute__((vector_size(block_lanes), aligned(1), may_alias));

inline block_vector load_block(const float* x) { return *reinterpret_cast<const block_in_memory*>(x); }
inline void store_block(float* y, block_vector v) { *reinterpret_cast<block_in_memory*>(y) = v; }

// The pixels [begin, end) that a window covers along an axis, and the number of the first one within the window.
struct Covered {
  std::size_t begin, end, number;
  Covered(const ImageWindow& w, std::size_t axis, std::size_t out) {
    const std::size_t first = out * w.stride[axis], last = first + w.kernel[axis], pad = w.pad[axis];
    begin = first > pad ? first - pad : 0;
    end = last > w.in[axis] + pad ? w.in[axis] : last > pad ? last - pad : 0;
    number = begin + pad - first;
  }
};

// Calls use(result pixel, image pixel, number within the window) for every pixel of every window, and start(result
// pixel) and end(result pixel) around each.
template <class Start, class Use, class End>
inline void over_windows(const ImageWindow& w, const Start& start, const Use& use, const End& end) {
  std::size_t out = 0;
  for (std::size_t oz = 0; oz < w.out[2]; ++oz)
    for (std::size_t oy = 0; oy < w.out[1]; ++oy) {
      const Covered cz(w, 2, oz), cy(w, 1, oy);
      for (std::size_t ox = 0; ox < w.out[0]; ++ox, ++out) {
        const Covered cx(w, 0, ox);
        start(out);
        for (std::size_t z = cz.begin; z < cz.end; ++z)
          for (std::size_t y = cy.begin; y < cy.end; ++y) {
            const std::size_t row = (z * w.in[1] + y) * w.in[0];
            std::size_t number =
                ((z - cz.begin + cz.number) * w.kernel[1] + y - cy.begin + cy.number) * w.kernel[0] + cx.number;
            for (std::size_t x = cx.begin; x < cx.end; ++x) use(row + x, number++);
          }
        end(out);
      }
    }
}

// Of equal maxima the first one wins; what is not a number wins.
void image_max_pool(const ImageWindow& w, const float* x, float* y, std::uint8_t* winner) {
  block_vector best{};
  block_numbers number{};
  over_windows(
      w, [&](std::size_t) { best = block_vector{} - __builtin_inff(), number = block_numbers{}; },
      [&](std::size_t pixel, std::size_t k) {
        const block_vector v = load_block(x + pixel * block_lanes);
        const block_numbers better = (v > best) | (v != v);
        best = better ? v : best;
        number = better ? block_numbers{} + static_cast<std::int32_t>(k) : number;
      },
      [&](std::size_t out) {
        store_block(y + out * block_lanes, best);
        *reinterpret_cast<bytes_in_memory*>(winner + out * block_lanes) = __builtin_convertvector(number, block_bytes);
      });
}

void image_max_pool_gradient(const ImageWindow& w, const float* dy, const std::uint8_t* winner, float* dx) {
  block_vector d{};
  block_numbers number{};
  over_windows(
      w,
      [&](std::size_t out) {
        d = load_block(dy + out * block_lanes);
        const block_bytes bytes = *reinterpret_cast<const bytes_in_memory*>(winner + out * block_lanes);
        number = __builtin_convertvector(bytes, block_numbers);
      },
      [&](std::size_t pixel, std::size_t k) {
        float* to = dx + pixel * block_lanes;
        store_block(to, load_block(to) + (number == static_cast<std::int32_t>(k) ? d : block_vector{}));
      },
      [](std::size_t) {});
}

// `taps` neighbours of a row of the kernel, their sums in registers.
template <std::size_t taps>
inline void tap_sums(const ImageWindow& w, const float* x, std::size_t row, const float* dy, float* dw) {
  block_vector sum[taps];
  for (std::size_t k = 0; k < taps; ++k) sum[k] = load_block(dw + k * block_lanes);
  for (std::size_t oy = 0; oy < w.out[1]; ++oy)
    for (std::size_t ox = 0; ox < w.out[0]; ++ox) {
      const block_vector d = load_block(dy + (oy * w.out[0] + ox) * block_lanes);
      const float* from = x + oy * w.stride[1] * row + ox * w.stride[0];
      for (std::size_t k = 0; k < taps; ++k) sum[k] += d * from[k];
    }
  for (std::size_t k = 0; k < taps; ++k) store_block(dw + k * block_lanes, sum[k]);
}

void image_channel_gradient(const ImageWindow& w, const float* x, std::size_t row, const float* dy, float* dw) {
  for (std::size_t ky = 0; ky < w.kernel[1]; ++ky)
    for (std::size_t kx = 0; kx < w.kernel[0];) {
      const float* from = x + ky * row + kx;
      float* to = dw + (ky * w.kernel[0] + kx) * block_lanes;
      const std::size_t left = w.kernel[0] - kx, taps = left == 5 || left == 3 ? left : left >= 4 ? 4 : left;
      if (taps == 5) tap_sums<5>(w, from, row, dy, to);
      if (taps == 4) tap_sums<4>(w, from, row, dy, to);
      if (taps == 3) tap_sums<3>(w, from, row, dy, to);
      if (taps == 2) tap_sums<2>(w, from, row, dy, to);
      if (taps == 1) tap_sums<1>(w, from, row, dy, to);
      kx += taps;
    }
}

}  // namespace
}  // namespace tutti::cpu

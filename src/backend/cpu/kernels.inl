// SPDX-License-Identifier: Apache-2.0
// kernels.inl -- the bodies behind the table of kernels.h; included once by each kernels_<instruction set>.cpp.
#include "backend/cpu/kernels.h"
#include "backend/cpu/vector_math.inl"

namespace tutti::cpu {
namespace {

// y[i] = f(x[i]), in blocks of 16 lanes; the rest goes through the same f.
template <class F>
inline void each(const float* x, float* y, std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, f(load(x + i)));
  if (i < n) store_part(y + i, f(load_part(x + i, n - i)), n - i);
}
template <class F>
inline void each(const float* a, const float* b, float* y, std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, f(load(a + i), load(b + i)));
  if (i < n) store_part(y + i, f(load_part(a + i, n - i), load_part(b + i, n - i)), n - i);
}
template <class F>
inline void each(const float* a, const float* b, const float* c, float* y, std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, f(load(a + i), load(b + i), load(c + i)));
  if (i < n) {
    const std::size_t r = n - i;
    store_part(y + i, f(load_part(a + i, r), load_part(b + i, r), load_part(c + i, r)), r);
  }
}

void map(UnaryOp op, const float* x, float* y, std::size_t n) {
  switch (op) {
    case UnaryOp::copy:
      return each(x, y, n, [](v16 v) { return v; });
    case UnaryOp::negate:
      return each(x, y, n, [](v16 v) { return -v; });
    case UnaryOp::reciprocal:
      return each(x, y, n, [](v16 v) { return v == 0.0f ? v16{} : 1.0f / v; });
    case UnaryOp::sigmoid:
      return each(x, y, n, [](v16 v) { return sigmoid(v); });
    case UnaryOp::tanh:
      return each(x, y, n, [](v16 v) { return tangent_h(v); });
    case UnaryOp::relu:
      return each(x, y, n, [](v16 v) { return v < 0.0f ? v16{} : v; });
    case UnaryOp::exp:
      return each(x, y, n, [](v16 v) { return exponential(v); });
    case UnaryOp::log:
      return each(x, y, n, [](v16 v) { return safe_log(v); });
    case UnaryOp::sqrt:
      return each(x, y, n,
                  [](v16 v) { return lane_by_lane(v < 0.0f ? v16{} : v, [](float s) { return __builtin_sqrtf(s); }); });
    case UnaryOp::abs:
      return each(x, y, n, [](v16 v) { return magnitude(v); });
    case UnaryOp::floor:
      return each(x, y, n, [](v16 v) { return lane_by_lane(v, [](float s) { return __builtin_floorf(s); }); });
    case UnaryOp::ceil:
      return each(x, y, n, [](v16 v) { return lane_by_lane(v, [](float s) { return __builtin_ceilf(s); }); });
    case UnaryOp::round:
      return each(x, y, n, [](v16 v) { return lane_by_lane(v, [](float s) { return __builtin_roundf(s); }); });
    case UnaryOp::sin:
      return each(x, y, n, [](v16 v) { return lane_by_lane(v, [](float s) { return __builtin_sinf(s); }); });
    case UnaryOp::cosine:
      return each(x, y, n, [](v16 v) { return lane_by_lane(v, [](float s) { return __builtin_cosf(s); }); });
  }
}

// Derivative of op at x with result y, times d.
template <UnaryOp op>
inline v16 derivative(v16 x, v16 y, v16 d) {
  if constexpr (op == UnaryOp::copy) return d;
  if constexpr (op == UnaryOp::negate) return -d;
  if constexpr (op == UnaryOp::reciprocal) return -(d * y * y);
  if constexpr (op == UnaryOp::sigmoid) return d * y * (1.0f - y);
  if constexpr (op == UnaryOp::tanh) return d * (1.0f - y * y);
  if constexpr (op == UnaryOp::relu) return y > 0.0f ? d : v16{};
  if constexpr (op == UnaryOp::exp) return d * y;
  if constexpr (op == UnaryOp::log) return quotient(d, x);
  if constexpr (op == UnaryOp::sqrt) return quotient(d, y + y);
  if constexpr (op == UnaryOp::abs) return x > 0.0f ? d : x < 0.0f ? -d : v16{};
  if constexpr (op == UnaryOp::sin) return d * lane_by_lane(x, [](float s) { return __builtin_cosf(s); });
  if constexpr (op == UnaryOp::cosine) return -(d * lane_by_lane(x, [](float s) { return __builtin_sinf(s); }));
  return v16{};
}

template <UnaryOp op>
inline void gradient_of(const float* x, const float* y, const float* dy, float* dx, std::size_t n, bool add) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const v16 g = derivative<op>(load(x + i), load(y + i), load(dy + i));
    store(dx + i, add ? load(dx + i) + g : g);
  }
  if (i < n) {
    const std::size_t r = n - i;
    const v16 g = derivative<op>(load_part(x + i, r), load_part(y + i, r), load_part(dy + i, r));
    store_part(dx + i, add ? load_part(dx + i, r) + g : g, r);
  }
}

void map_gradient(UnaryOp op, const float* x, const float* y, const float* dy, float* dx, std::size_t n, bool add) {
  switch (op) {
    case UnaryOp::copy:
      return gradient_of<UnaryOp::copy>(dy, dy, dy, dx, n, add);
    case UnaryOp::negate:
      return gradient_of<UnaryOp::negate>(dy, dy, dy, dx, n, add);
    case UnaryOp::reciprocal:
      return gradient_of<UnaryOp::reciprocal>(y, y, dy, dx, n, add);
    case UnaryOp::sigmoid:
      return gradient_of<UnaryOp::sigmoid>(y, y, dy, dx, n, add);
    case UnaryOp::tanh:
      return gradient_of<UnaryOp::tanh>(y, y, dy, dx, n, add);
    case UnaryOp::relu:
      return gradient_of<UnaryOp::relu>(y, y, dy, dx, n, add);
    case UnaryOp::exp:
      return gradient_of<UnaryOp::exp>(y, y, dy, dx, n, add);
    case UnaryOp::log:
      return gradient_of<UnaryOp::log>(x, x, dy, dx, n, add);
    case UnaryOp::sqrt:
      return gradient_of<UnaryOp::sqrt>(y, y, dy, dx, n, add);
    case UnaryOp::abs:
      return gradient_of<UnaryOp::abs>(x, x, dy, dx, n, add);
    case UnaryOp::sin:
      return gradient_of<UnaryOp::sin>(x, x, dy, dx, n, add);
    case UnaryOp::cosine:
      return gradient_of<UnaryOp::cosine>(x, x, dy, dx, n, add);
    // Steps: nothing flows back.
    case UnaryOp::floor:
      return gradient_of<UnaryOp::floor>(dy, dy, dy, dx, n, add);
    case UnaryOp::ceil:
      return gradient_of<UnaryOp::ceil>(dy, dy, dy, dx, n, add);
    case UnaryOp::round:
      return gradient_of<UnaryOp::round>(dy, dy, dy, dx, n, add);
  }
}

inline v16 operand(const Row& row, std::size_t k, std::size_t i) {
  return row.step[k] ? load(row.x[k] + i) : splat(*row.x[k]);
}
inline v16 operand_part(const Row& row, std::size_t k, std::size_t i, std::size_t r) {
  return row.step[k] ? load_part(row.x[k] + i, r) : splat(*row.x[k]);
}

template <class F>
inline void two(const Row& row, float* y, std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, f(operand(row, 0, i), operand(row, 1, i)));
  if (i < n) store_part(y + i, f(operand_part(row, 0, i, n - i), operand_part(row, 1, i, n - i)), n - i);
}
template <class F>
inline void three(const Row& row, float* y, std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, f(operand(row, 0, i), operand(row, 1, i), operand(row, 2, i)));
  const std::size_t r = n - i;
  if (r) store_part(y + i, f(operand_part(row, 0, i, r), operand_part(row, 1, i, r), operand_part(row, 2, i, r)), r);
}

inline v16 truth(i16 mask) { return mask ? splat(1.0f) : v16{}; }

void combine(PointOp op, const Row& row, float* y, std::size_t n) {
  switch (op) {
    case PointOp::plus:
      return two(row, y, n, [](v16 a, v16 b) { return a + b; });
    case PointOp::minus:
      return two(row, y, n, [](v16 a, v16 b) { return a - b; });
    case PointOp::times:
      return two(row, y, n, [](v16 a, v16 b) { return a * b; });
    case PointOp::log_plus:
      return two(row, y, n, [](v16 a, v16 b) { return log_plus(a, b); });
    case PointOp::less:
      return two(row, y, n, [](v16 a, v16 b) { return truth(a < b); });
    case PointOp::equal:
      return two(row, y, n, [](v16 a, v16 b) { return truth(a == b); });
    case PointOp::greater:
      return two(row, y, n, [](v16 a, v16 b) { return truth(a > b); });
    case PointOp::greater_equal:
      return two(row, y, n, [](v16 a, v16 b) { return truth(a >= b); });
    case PointOp::not_equal:
      return two(row, y, n, [](v16 a, v16 b) { return truth(a != b); });
    case PointOp::less_equal:
      return two(row, y, n, [](v16 a, v16 b) { return truth(a <= b); });
    case PointOp::choose:
      return three(row, y, n, [](v16 c, v16 a, v16 b) { return c != 0.0f ? a : b; });
    case PointOp::clip:
      return three(row, y, n, [](v16 low, v16 high, v16 x) { return x < low ? low : x > high ? high : x; });
    case PointOp::normalize:
      return three(row, y, n, [](v16 x, v16 mean, v16 scale) { return (x - mean) * scale; });
    case PointOp::denormalize:
      return three(row, y, n, [](v16 x, v16 mean, v16 scale) { return x / scale + mean; });
  }
}

template <class F>
inline void chained(const Row& row, std::size_t operands, const float* dy, float* dx, std::size_t n, F f) {
  std::size_t i = 0;
  const auto step = [&](std::size_t r, v16 d) {
    const v16 a = r == lanes ? operand(row, 0, i) : operand_part(row, 0, i, r);
    const v16 b = r == lanes ? operand(row, 1, i) : operand_part(row, 1, i, r);
    const v16 c = operands < 3 ? v16{} : r == lanes ? operand(row, 2, i) : operand_part(row, 2, i, r);
    return f(a, b, c, d);
  };
  for (; i + lanes <= n; i += lanes) store(dx + i, step(lanes, load(dy + i)));
  if (i < n) store_part(dx + i, step(n - i, load_part(dy + i, n - i)), n - i);
}

void combine_gradient(PointOp op, std::size_t k, const Row& row, const float* dy, float* dx, std::size_t n) {
  switch (op) {
    case PointOp::plus:
      return each(dy, dx, n, [](v16 d) { return d; });
    case PointOp::minus:
      return each(dy, dx, n, [k](v16 d) { return k == 0 ? d : -d; });
    case PointOp::times:
      return chained(row, 2, dy, dx, n, [k](v16 a, v16 b, v16, v16 d) { return d * (k == 0 ? b : a); });
    case PointOp::log_plus:
      return chained(row, 2, dy, dx, n, [k](v16 a, v16 b, v16, v16 d) { return d * sigmoid(k == 0 ? a - b : b - a); });
    case PointOp::less:
    case PointOp::equal:
    case PointOp::greater:
    case PointOp::greater_equal:
    case PointOp::not_equal:
    case PointOp::less_equal:
      return each(dy, dx, n, [](v16) { return v16{}; });
    case PointOp::choose:
      return chained(row, 3, dy, dx, n, [k](v16 c, v16, v16, v16 d) {
        const v16 first = c != 0.0f ? d : v16{};
        return k == 0 ? v16{} : k == 1 ? first : d - first;
      });
    case PointOp::clip:
      return chained(row, 3, dy, dx, n, [k](v16 low, v16 high, v16 x, v16 d) {
        const v16 inside = x < low ? v16{} : x > high ? v16{} : d;
        return k == 2 ? inside : v16{};
      });
    case PointOp::normalize:
      return chained(row, 3, dy, dx, n, [k](v16 x, v16 mean, v16 scale, v16 d) {
        return k == 0 ? d * scale : k == 1 ? -(d * scale) : d * (x - mean);
      });
    case PointOp::denormalize:
      return chained(row, 3, dy, dx, n, [k](v16 x, v16, v16 scale, v16 d) {
        return k == 0 ? d / scale : k == 1 ? d : -(d * x / (scale * scale));
      });
  }
}

template <UnaryOp op>
inline v16 activated(v16 v) {
  if constexpr (op == UnaryOp::relu) return v < 0.0f ? v16{} : v;
  if constexpr (op == UnaryOp::sigmoid) return sigmoid(v);
  if constexpr (op == UnaryOp::tanh) return tangent_h(v);
  return v;
}

void bias_activation(UnaryOp op, const float* bias, float* y, std::size_t n) {
  if (op == UnaryOp::relu) return each(bias, y, y, n, [](v16 b, v16 v) { return activated<UnaryOp::relu>(v + b); });
  if (op == UnaryOp::sigmoid)
    return each(bias, y, y, n, [](v16 b, v16 v) { return activated<UnaryOp::sigmoid>(v + b); });
  if (op == UnaryOp::tanh) return each(bias, y, y, n, [](v16 b, v16 v) { return activated<UnaryOp::tanh>(v + b); });
  each(bias, y, y, n, [](v16 b, v16 v) { return v + b; });
}

template <UnaryOp op>
inline void rows_back(std::size_t rows, std::size_t stride, const float* y, float* dy, float* dbias, std::size_t n,
                      bool add) {
  for (std::size_t r = 0; r < rows; ++r, y += stride, dy += stride) {
    const bool fresh = r == 0 && !add;
    const auto step = [&](v16 value, v16 d, v16 sum) {
      struct Both {
        v16 gradient, sum;
      };
      const v16 g = derivative<op>(value, value, d);
      return Both{g, fresh ? g : sum + g};
    };
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      const auto both = step(load(y + i), load(dy + i), dbias ? load(dbias + i) : v16{});
      store(dy + i, both.gradient);
      if (dbias) store(dbias + i, both.sum);
    }
    if (i < n) {
      const std::size_t m = n - i;
      const auto both = step(load_part(y + i, m), load_part(dy + i, m), dbias ? load_part(dbias + i, m) : v16{});
      store_part(dy + i, both.gradient, m);
      if (dbias) store_part(dbias + i, both.sum, m);
    }
  }
}

void bias_activation_gradient(UnaryOp op, std::size_t rows, std::size_t stride, const float* y, float* dy, float* dbias,
                              std::size_t n, bool add) {
  if (op == UnaryOp::relu) return rows_back<UnaryOp::relu>(rows, stride, y, dy, dbias, n, add);
  if (op == UnaryOp::sigmoid) return rows_back<UnaryOp::sigmoid>(rows, stride, y, dy, dbias, n, add);
  if (op == UnaryOp::tanh) return rows_back<UnaryOp::tanh>(rows, stride, y, dy, dbias, n, add);
  rows_back<UnaryOp::copy>(rows, stride, y, dy, dbias, n, add);
}

void add(const float* x, float* y, std::size_t n) {
  each(x, y, y, n, [](v16 a, v16 b) { return b + a; });
}
void add_scaled(float a, const float* x, float* y, std::size_t n) {
  each(x, y, y, n, [a](v16 v, v16 w) { return w + a * v; });
}

float sum(const float* x, std::size_t n) {
  v16 total{};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) total += load(x + i);
  if (i < n) total += load_part(x + i, n - i);
  return add_lanes(total);
}

float dot(const float* x, const float* y, std::size_t n) {
  v16 total{};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) total += load(x + i) * load(y + i);
  if (i < n) total += load_part(x + i, n - i) * load_part(y + i, n - i);
  return add_lanes(total);
}

float maximum(const float* x, std::size_t n) {
  v16 best = splat(x[0]);
  const auto larger = [](v16 a, v16 b) { return b > a ? b : b != b ? b : a; };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) best = larger(best, load(x + i));
  for (; i < n; ++i) best = larger(best, splat(x[i]));
  return max_lanes(best);
}

// Sum of exp(x - shift); with y the exponentials are kept.
inline float exponential_sum(const float* x, float shift, float* y, std::size_t n) {
  v16 total{};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const v16 e = exponential(load(x + i) - shift);
    if (y) store(y + i, e);
    total += e;
  }
  if (i < n) {
    const std::size_t r = n - i;
    v16 e = exponential(load_part(x + i, r) - shift);
    if (y) store_part(y + i, e, r);
    for (std::size_t l = r; l < lanes; ++l) e[l] = 0;
    total += e;
  }
  return add_lanes(total);
}

void softmax(const float* x, float* y, std::size_t n) {
  const float total = exponential_sum(x, maximum(x, n), y, n);
  const float scale = 1.0f / total;
  each(y, y, n, [scale](v16 v) { return v * scale; });
}

float log_sum(const float* x, std::size_t n) {
  const float shift = maximum(x, n);
  return shift + logarithm(splat(exponential_sum(x, shift, nullptr, n)))[0];
}

template <class F>
inline void set_or_add(const float* a, const float* b, float* y, std::size_t n, bool add, F f) {
  if (add)
    each(a, b, y, y, n, [f](v16 u, v16 v, v16 w) { return w + f(u, v); });
  else
    each(a, b, y, n, f);
}

void softmax_gradient(const float* y, const float* dy, float dot, float* dx, std::size_t n, bool add) {
  set_or_add(y, dy, dx, n, add, [dot](v16 v, v16 d) { return v * (d - dot); });
}

void cross_entropy_gradient(const float* p, const float* label, float mass, float scale, float* dx, std::size_t n,
                            bool add) {
  set_or_add(p, label, dx, n, add, [mass, scale](v16 v, v16 l) { return scale * (v * mass - l); });
}

// A counter through two rounds of mixing (the finaliser of SplitMix64): element i of a seed has its number whoever
// asks.
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

void dropout(const DropoutMask& mask, std::uint64_t first, const float* x, float* y, std::size_t n, bool add) {
  const std::uint64_t key = mixed(*mask.seed + 0x9e3779b97f4a7c15ull);
  const float keep = 1.0f / (1.0f - mask.rate);
  const auto drop = [=](std::uint64_t number, std::size_t i) {
    const std::uint64_t r = mixed(key + number * 0x9e3779b97f4a7c15ull);
    const float u = static_cast<float>(static_cast<std::int32_t>(r >> 40)) * 0x1p-24f;
    const float value = u <= mask.rate ? 0.0f : x[i] * keep;
    y[i] = add ? y[i] + value : value;
  };
  if (mask.block == 0) {
    for (std::size_t i = 0; i < n; ++i) drop(first + i, i);
    return;
  }
  for (std::size_t i = 0; i < n; i += mask.block, ++first)
    for (std::size_t l = 0; l < mask.block; ++l) drop(first + l * mask.pixels, i + l);
}

}  // namespace
}  // namespace tutti::cpu

#include "backend/cpu/recurrent.inl"

namespace tutti::cpu {
namespace {

constexpr Kernels make_kernels(const char* name, const ImageKernels& (*images)()) {
  return {name,
          images,
          map,
          map_gradient,
          combine,
          combine_gradient,
          bias_activation,
          bias_activation_gradient,
          add,
          add_scaled,
          sum,
          maximum,
          softmax,
          log_sum,
          dot,
          softmax_gradient,
          cross_entropy_gradient,
          dropout,
          lstm_step,
          lstm_step_gradient,
          gru_step,
          gru_step_gradient,
          gru_reset,
          gru_reset_gradient};
}

}  // namespace
}  // namespace tutti::cpu

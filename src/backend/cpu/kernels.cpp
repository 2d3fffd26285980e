// SPDX-License-Identifier: Apache-2.0
// The functions of the table in kernels.h, compiled once per instruction set.
#include "backend/cpu/kernels.h"

#include <utility>

#include "backend/cpu/vector_math.inl"
// after the vectors
#include "backend/cpu/image_kernels.inl"
#include "backend/cpu/recurrent.inl"

namespace tutti::cpu {
namespace {

// y[i] = f(x[i]...), in blocks of 16 lanes; the rest goes through the same f.
template <class F, class... X>
inline void each(float* y, std::size_t n, F f, const X*... x) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, f(load(x + i)...));
  if (i < n) store_part(y + i, f(load_part(x + i, n - i)...), n - i);
}
template <class F>
inline void set_or_add(const float* a, const float* b, float* y, std::size_t n, bool add, F f) {
  if (add)
    each(
        y, n, [f](v16 u, v16 v, v16 w) { return w + f(u, v); }, a, b, y);
  else
    each(y, n, f, a, b);
}

// Calls f<op>(), where op is known at run time only.
template <class Op, std::size_t... I, class F>
inline void with(Op op, std::index_sequence<I...>, F f) {
  static_cast<void>(((op == static_cast<Op>(I) && (f.template operator()<static_cast<Op>(I)>(), true)) || ...));
}
using UnaryOps = std::make_index_sequence<static_cast<std::size_t>(UnaryOp::cosine) + 1>;
using PointOps = std::make_index_sequence<static_cast<std::size_t>(PointOp::denormalize) + 1>;

// An operator without its line here and below returns nothing, which does not compile.
template <UnaryOp op>
[[gnu::always_inline]] inline auto value(v16 v) {
  if constexpr (op == UnaryOp::copy) return v;
  if constexpr (op == UnaryOp::negate) return -v;
  if constexpr (op == UnaryOp::reciprocal) return select(v == 0.0f, v16(), 1.0f / v);
  if constexpr (op == UnaryOp::sigmoid) return sigmoid(v);
  if constexpr (op == UnaryOp::tanh) return tangent_h(v);
  if constexpr (op == UnaryOp::relu) return select(v < 0.0f, v16(), v);
  if constexpr (op == UnaryOp::exp) return exponential(v);
  if constexpr (op == UnaryOp::log) return safe_log(v);
  if constexpr (op == UnaryOp::sqrt)
    return lane_by_lane(select(v < 0.0f, v16(), v), [](float s) { return __builtin_sqrtf(s); });
  if constexpr (op == UnaryOp::abs) return magnitude(v);
  if constexpr (op == UnaryOp::floor) return lane_by_lane(v, [](float s) { return __builtin_floorf(s); });
  if constexpr (op == UnaryOp::ceil) return lane_by_lane(v, [](float s) { return __builtin_ceilf(s); });
  if constexpr (op == UnaryOp::round) return lane_by_lane(v, [](float s) { return __builtin_floorf(s + 0.5f); });
  if constexpr (op == UnaryOp::sin) return lane_by_lane(v, [](float s) { return __builtin_sinf(s); });
  if constexpr (op == UnaryOp::cosine) return lane_by_lane(v, [](float s) { return __builtin_cosf(s); });
}

void map(UnaryOp op, const float* x, float* y, std::size_t n) {
  with(op, UnaryOps(), [=]<UnaryOp known>() {
    each(
        y, n, [](v16 v) { return value<known>(v); }, x);
  });
}

// What the derivative is computed from.
enum class From { nothing, input, result };
constexpr From derivative_from(UnaryOp op) {
  if (op == UnaryOp::log || op == UnaryOp::abs || op == UnaryOp::sin || op == UnaryOp::cosine) return From::input;
  const bool steps = op == UnaryOp::floor || op == UnaryOp::ceil || op == UnaryOp::round;
  return steps || op == UnaryOp::copy || op == UnaryOp::negate ? From::nothing : From::result;
}
// Derivative of op at v, its input or result, times d.
template <UnaryOp op>
inline auto derivative(v16 v, v16 d) {
  if constexpr (op == UnaryOp::copy) return d;
  if constexpr (op == UnaryOp::negate) return -d;
  if constexpr (op == UnaryOp::reciprocal) return -(d * v * v);
  if constexpr (op == UnaryOp::sigmoid) return d * v * (1.0f - v);
  if constexpr (op == UnaryOp::tanh) return d * (1.0f - v * v);
  if constexpr (op == UnaryOp::relu) return select(v > 0.0f, d, v16());
  if constexpr (op == UnaryOp::exp) return d * v;
  if constexpr (op == UnaryOp::log) return quotient(d, v);
  if constexpr (op == UnaryOp::sqrt) return quotient(d, v + v);
  if constexpr (op == UnaryOp::abs) return select(v > 0.0f, d, select(v < 0.0f, -d, v16()));
  if constexpr (op == UnaryOp::sin) return d * value<UnaryOp::cosine>(v);
  if constexpr (op == UnaryOp::cosine) return -(d * value<UnaryOp::sin>(v));
  // Steps: nothing flows back.
  if constexpr (op == UnaryOp::floor || op == UnaryOp::ceil || op == UnaryOp::round) return v16{};
}

void map_gradient(UnaryOp op, const float* x, const float* y, const float* dy, float* dx, std::size_t n, bool add) {
  with(op, UnaryOps(), [=]<UnaryOp known>() {
    constexpr From from = derivative_from(known);
    set_or_add(from == From::input    ? x
               : from == From::result ? y
                                      : dy,
               dy, dx, n, add, [](v16 v, v16 d) { return derivative<known>(v, d); });
  });
}

// Where the loops read: a repeated operand from a block of its copies.
struct Operands {
  Operands(const Row& row, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) {
      x[k] = row.x[k], step[k] = row.step[k] ? 1 : 0;
      if (row.step[k]) continue;
      store(copies[k], splat(*row.x[k]));
      x[k] = copies[k];
    }
  }
  const float* at(std::size_t k, std::size_t i) const { return x[k] + i * step[k]; }

 private:
  alignas(64) float copies[3][lanes];
  const float* x[3];
  std::size_t step[3];
};

inline v16 truth(i16 mask) { return select(mask, 1.0f, v16()); }

template <PointOp op>
inline auto combined(v16 a, v16 b, v16 c) {
  if constexpr (op == PointOp::plus) return a + b;
  if constexpr (op == PointOp::minus) return a - b;
  if constexpr (op == PointOp::times) return a * b;
  if constexpr (op == PointOp::log_plus) return log_plus(a, b);
  if constexpr (op == PointOp::less) return truth(a < b);
  if constexpr (op == PointOp::equal) return truth(a == b);
  if constexpr (op == PointOp::greater) return truth(a > b);
  if constexpr (op == PointOp::greater_equal) return truth(a >= b);
  if constexpr (op == PointOp::not_equal) return truth(a != b);
  if constexpr (op == PointOp::less_equal) return truth(a <= b);
  if constexpr (op == PointOp::choose) return select(a != 0.0f, b, c);
  if constexpr (op == PointOp::clip) return select(c < a, a, select(c > b, b, c));
  if constexpr (op == PointOp::normalize) return (a - b) * c;
  if constexpr (op == PointOp::denormalize) return a / c + b;
}

void combine(PointOp op, const Row& row, float* y, std::size_t n) {
  with(op, PointOps(), [&]<PointOp known>() {
    constexpr bool third = known >= PointOp::choose;
    const Operands from(row, third ? 3 : 2);
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes)
      store(y + i, combined<known>(load(from.at(0, i)), load(from.at(1, i)), third ? load(from.at(2, i)) : v16{}));
    if (const std::size_t r = n - i)
      store_part(y + i,
                 combined<known>(load_part(from.at(0, i), r), load_part(from.at(1, i), r),
                                 third ? load_part(from.at(2, i), r) : v16{}),
                 r);
  });
}

// The operands that the gradient reads, from the first one on.
constexpr std::size_t read_by_gradient(PointOp op) {
  return op >= PointOp::choose ? 3 : op == PointOp::times || op == PointOp::log_plus ? 2 : 0;
}
// d times the derivative with respect to operand k.
template <PointOp op, std::size_t k>
inline auto combined_derivative(v16 a, v16 b, v16 c, v16 d) {
  if constexpr (op == PointOp::plus) return d;
  if constexpr (op == PointOp::minus) return k == 0 ? d : -d;
  if constexpr (op == PointOp::times) return d * (k == 0 ? b : a);
  if constexpr (op == PointOp::log_plus) return d * sigmoid(k == 0 ? a - b : b - a);
  if constexpr (op >= PointOp::less && op <= PointOp::less_equal) return v16{};
  if constexpr (op == PointOp::choose) {
    const v16 first = select(a != 0.0f, d, v16());
    return k == 0 ? v16{} : k == 1 ? first : d - first;
  }
  if constexpr (op == PointOp::clip) {
    const v16 inside = select(c < a, v16(), select(c > b, v16(), d));
    return k == 2 ? inside : v16{};
  }
  if constexpr (op == PointOp::normalize) return k == 0 ? d * c : k == 1 ? -(d * c) : d * (a - b);
  if constexpr (op == PointOp::denormalize) return k == 0 ? d / c : k == 1 ? d : -(d * a / (c * c));
}

void combine_gradient(PointOp op, std::size_t k, const Row& row, const float* dy, float* dx, std::size_t n) {
  with(op, PointOps(), [&]<PointOp known>() {
    constexpr std::size_t reads = read_by_gradient(known);
    const Operands from(row, reads);
    with(k, std::make_index_sequence<3>(), [&]<std::size_t of>() {
      by_lanes(n, [&](std::size_t i, auto count) {
        const v16 a = reads > 0 ? take(from.at(0, i), count) : v16{},
                  b = reads > 1 ? take(from.at(1, i), count) : v16{},
                  c = reads > 2 ? take(from.at(2, i), count) : v16{};
        put(dx + i, combined_derivative<known, of>(a, b, c, take(dy + i, count)), count);
      });
    });
  });
}

// Those that are fused with a bias.
template <class F>
inline void with_activation(UnaryOp op, F f) {
  if (op == UnaryOp::relu) return f.template operator()<UnaryOp::relu>();
  if (op == UnaryOp::sigmoid) return f.template operator()<UnaryOp::sigmoid>();
  if (op == UnaryOp::tanh) return f.template operator()<UnaryOp::tanh>();
  f.template operator()<UnaryOp::copy>();
}

void bias_activation(UnaryOp op, const float* bias, float* y, std::size_t n) {
  with_activation(op, [=]<UnaryOp known>() {
    each(
        y, n, [](v16 b, v16 v) { return value<known>(v + b); }, bias, y);
  });
}

void bias_activation_gradient(UnaryOp op, std::size_t rows, std::size_t stride, const float* y, float* dy, float* dbias,
                              std::size_t n, bool add) {
  with_activation(op, [=]<UnaryOp known>() {
    for (std::size_t r = 0; r < rows; ++r) {
      const float* of = y + r * stride;
      float* d = dy + r * stride;
      const bool fresh = r == 0 && !add;
      by_lanes(n, [&](std::size_t i, auto count) {
        const v16 g = derivative<known>(take(of + i, count), take(d + i, count));
        put(d + i, g, count);
        if (dbias) put(dbias + i, fresh ? g : take(dbias + i, count) + g, count);
      });
    }
  });
}

void add(const float* x, float* y, std::size_t n) {
  each(
      y, n, [](v16 a, v16 b) { return b + a; }, x, y);
}
void add_scaled(float a, const float* x, float* y, std::size_t n) {
  each(
      y, n, [a](v16 v, v16 w) { return w + a * v; }, x, y);
}

float sum(const float* x, std::size_t n) {
  v16 total{};
  by_lanes(n, [&](std::size_t i, auto count) { total += take(x + i, count); });
  return add_lanes(total);
}

float dot(const float* x, const float* y, std::size_t n) {
  v16 total{};
  by_lanes(n, [&](std::size_t i, auto count) { total += take(x + i, count) * take(y + i, count); });
  return add_lanes(total);
}

float maximum(const float* x, std::size_t n) {
  if (n < lanes) {
    float best = x[0];
    for (std::size_t i = 1; i < n; ++i)
      if (x[i] > best || x[i] != x[i]) best = x[i];
    return best;
  }
  v16 best = splat(x[0]);
  const auto larger = [](v16 a, v16 b) { return select(b > a, b, select(b != b, b, a)); };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) best = larger(best, load(x + i));
  for (; i < n; ++i) best = larger(best, splat(x[i]));
  return max_lanes(best);
}

// Sum of exp(x - shift); with y the exponentials are kept.
inline float exponential_sum(const float* x, float shift, float* y, std::size_t n) {
  v16 total{};
  by_lanes(n, [&](std::size_t i, auto count) {
    const v16 e = exponential(take(x + i, count) - shift);
    if (y) put(y + i, e, count);
    total += only(e, count);
  });
  return add_lanes(total);
}

// Largest elements and sums of exponentials of lines.
struct LineSums {
  static constexpr std::size_t most = 64;
  float shift[most], total[most];
};

// y = exp(x - shift). Lines shorter than a vector are computed as one row; the sums are those of exponential_sum.
inline void exponentials(const float* x, float* y, std::size_t n, std::size_t lines, LineSums& of) {
  for (std::size_t l = 0; l < lines; ++l) {
    of.shift[l] = maximum(x + l * n, n);
    if (n >= lanes)
      of.total[l] = exponential_sum(x + l * n, of.shift[l], y + l * n, n);
    else
      for (std::size_t i = l * n; i < (l + 1) * n; ++i) y[i] = x[i] - of.shift[l];
  }
  if (n >= lanes) return;
  each(
      y, lines * n, [](v16 v) { return exponential(v); }, y);
  for (std::size_t l = 0; l < lines; ++l) of.total[l] = add_lanes(load_part(y + l * n, n));
}

void softmax(const float* x, float* y, std::size_t n, std::size_t lines, float* log_sums) {
  LineSums sums;
  for (std::size_t first = 0; first < lines; first += LineSums::most) {
    const std::size_t count = lines - first < LineSums::most ? lines - first : LineSums::most;
    float* const of = y + first * n;
    exponentials(x + first * n, of, n, count, sums);
    for (std::size_t l = 0; l < count; ++l) {
      const float scale = 1.0f / sums.total[l];
      if (n < lanes)
        for (std::size_t i = l * n; i < (l + 1) * n; ++i) of[i] *= scale;
      else
        each(
            of + l * n, n, [scale](v16 v) { return v * scale; }, of + l * n);
    }
    if (log_sums)
      each(
          log_sums + first, count, [](v16 shift, v16 total) { return shift + logarithm(total); }, sums.shift,
          sums.total);
  }
}

float log_sum(const float* x, std::size_t n) {
  const float shift = maximum(x, n);
  return shift + first_lane(logarithm(splat(exponential_sum(x, shift, nullptr, n))));
}

void softmax_gradient(const float* y, const float* dy, float dot, float* dx, std::size_t n, bool add) {
  set_or_add(y, dy, dx, n, add, [dot](v16 v, v16 d) { return v * (d - dot); });
}

void cross_entropy_gradient(const float* p, const float* label, float scale, float* dx, std::size_t n,
                            std::size_t lines, bool add) {
  for (std::size_t l = 0; l < lines; ++l, p += n, label += n, dx += n) {
    const float mass = sum(label, n);
    if (n >= lanes) {
      set_or_add(p, label, dx, n, add, [mass, scale](v16 v, v16 of) { return scale * (v * mass - of); });
      continue;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const float g = scale * (p[i] * mass - label[i]);
      dx[i] = add ? dx[i] + g : g;
    }
  }
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

template <>
const Kernels& kernels<compiled_for>() {
  static constexpr Kernels table = {
      compiled_name,
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
      gru_reset_gradient,
      {block_lanes, image_moments, image_normalize, image_gradient_sums, image_normalize_gradient, image_masked_sum,
       image_respond, image_respond_gradient, image_max_pool, image_max_pool_gradient, image_channel_gradient}};
  return table;
}

}  // namespace tutti::cpu

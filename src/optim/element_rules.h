// SPDX-License-Identifier: Apache-2.0
// element_rules.h -- optimizer formulas for one element, shared by CPU and GPU so that both compute the same operations
// in the same order, without fused multiply-add. Functions are constexpr so that GPU kernels can use them, and always
// inlined: the linker keeps one copy of an ordinary inline function, and one compiled for AVX-512 must not serve older
// processors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::optim {

#ifdef __CUDA_ARCH__
__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }
#else
// A template, as clang refuses a constexpr function that can never be constant, and has no constant square root.
template <class T>
[[gnu::always_inline]] constexpr T root(T x) {
  if constexpr (sizeof(T) == sizeof(float))
    return __builtin_sqrtf(x);
  else
    return __builtin_sqrt(x);
}
#endif

namespace noise {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
[[gnu::always_inline]] constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

[[gnu::always_inline]] constexpr double symmetric(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-52 - 1.0;
}

// ln x of a normal number = 2 artanh((x-1)/(x+1)) after halving the exponent away. Not std::log: its last bit differs
// between libraries.
[[gnu::always_inline]] constexpr double logarithm(double x) {
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  int exponent = static_cast<int>(bits >> 52 & 0x7ffu) - 1022;
  double m = __builtin_bit_cast(double, (bits & 0x000fffffffffffffu) | 0x3fe0000000000000u);  // in [1/2, 1)
  if (m < 0.70710678118654752) m *= 2, --exponent;
  const double z = (m - 1) / (m + 1), z2 = z * z;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * z2 + 1.0 / k;
  return 2 * z * series + exponent * 0.69314718055994531;
}

}  // namespace noise

// Numbers that are a pure function of (step, index): every rank adds the same noise to its replica, whatever its
// processor, its mathematical library and the order in which chunks arrive. Integers, and operations that every
// processor rounds alike.
[[gnu::always_inline]] constexpr double gaussian(std::uint64_t step, std::uint64_t index) {
  std::uint64_t state = noise::mix(noise::mix(step) ^ index);
  for (;;) {
    const double a = noise::symmetric(state = noise::mix(state)), b = noise::symmetric(state = noise::mix(state));
    const double q = a * a + b * b;
    if (q > 0 && q < 1) return a * root(-2 * noise::logarithm(q) / q);
  }
}

// The order in which elements are processed, whatever is skipped.
enum class Turn { squares, norm, clip, penalty, scaling, rule, noise, shrinkage };

// Rules read the gradient through a functor, so that earlier stages can change it.
template <class Rule>
concept ReadsGradient = requires(const Rule& rule) {
  rule(std::size_t{}, 0.0f);
};

// Such a rule with the gradient as stored.
template <class Rule, Turn When>
struct Plainly {
  static constexpr Turn turn = When;
  Rule rule;
  [[gnu::always_inline]] constexpr auto operator()(std::size_t i) const { return rule(i, rule.g[i]); }
};

// What is computed before the elements.
template <class Rule>
[[gnu::always_inline]] constexpr auto begun(const Rule& rule) {
  if constexpr (requires { rule.begun(); })
    return rule.begun();
  else
    return rule;
}

// w -= rate g
struct Descend {
  float* w;
  const float* g;
  float rate;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i, float x) const { w[i] -= rate * x; }
};

// w -= rate / mean g, where *sum is `count` times the mean
struct DescendByMean {
  static constexpr Turn turn = Turn::rule;
  float* w;
  const float* g;
  float rate;
  const double* sum;
  double count;
  [[gnu::always_inline]] constexpr Plainly<Descend, turn> begun() const {
    return {{w, g, rate / static_cast<float>(*sum / count)}};
  }
};

// s = mu s + gain g; w -= rate s. Dense gradients have the learning rate in the gain; sparse ones keep it out of s.
struct Momentum {
  float* w;
  const float* g;
  float *s, mu, gain, rate;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i, float x) const {
    const float next = mu * s[i] + gain * x;
    s[i] = next;
    w[i] -= rate * next;
  }
};

// s = mu s + gain g; w -= rate (mu s + gain g)
struct Nesterov {
  float* w;
  const float* g;
  float *s, mu, gain, rate;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i, float x) const {
    const float push = gain * x;
    const float next = mu * s[i] + push;
    s[i] = next;
    w[i] -= rate * (mu * next + push);
  }
};

struct Squares {
  static constexpr Turn turn = Turn::squares;
  const float* g;
  [[gnu::always_inline]] constexpr double operator()(std::size_t i) const { return static_cast<double>(g[i]) * g[i]; }
};

// g *= limit / norm if the norm, the root of *squares, is above the limit.
struct LimitNorm {
  static constexpr Turn turn = Turn::norm;
  float* g;
  const double* squares;
  double limit;
  struct Scale {
    float *g, factor;
    [[gnu::always_inline]] constexpr void operator()(std::size_t i) const {
      if (factor != 1.0f) g[i] *= factor;
    }
  };
  [[gnu::always_inline]] constexpr Scale begun() const {
    const double norm = root(*squares);
    return {g, norm > limit ? static_cast<float>(limit / norm) : 1.0f};
  }
};

// Comparisons are written so that a NaN gradient stays NaN and is detected.
struct Truncate {
  static constexpr Turn turn = Turn::clip;
  float *g, limit;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i) const {
    const float x = g[i];
    const float low = x < -limit ? -limit : x;
    g[i] = low > limit ? limit : low;
  }
};

struct AddScaled {
  static constexpr Turn turn = Turn::penalty;
  float* g;
  const float* w;
  float factor;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i) const { g[i] += factor * w[i]; }
};

struct Shrink {
  static constexpr Turn turn = Turn::shrinkage;
  float *w, threshold;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i) const {
    const float x = w[i];
    const float down = x - threshold, up = x + threshold;
    const float inner = x < -threshold ? up : (x != x ? x : 0.0f);
    w[i] = x > threshold ? down : inner;
  }
};

struct Noise {
  static constexpr Turn turn = Turn::noise;
  float* w;
  double deviation;
  std::uint64_t step, first;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i) const {
    w[i] += static_cast<float>(deviation * gaussian(step, first + i));
  }
};

// a += rate (w - a)
struct MoveTowards {
  static constexpr Turn turn = Turn::rule;
  float* a;
  const float* w;
  float rate;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i) const { a[i] += rate * (w[i] - a[i]); }
};

// Rules that scale gradients return the multiplier.
struct Adagrad {
  float *g, *a;
  [[gnu::always_inline]] constexpr float operator()(std::size_t i, float x) const {
    const float squares = a[i] + x * x;
    const float denominator = root(squares + 1e-16f);
    a[i] = squares;
    g[i] = x / denominator;
    return 1.0f / denominator;
  }
};

struct RmsConstants {
  float gamma, increase, decrease, largest, smallest;
};
// A step of 0 marks an element that was never updated.
struct RmsProp {
  float *g, *a, *step, *sign;
  RmsConstants c;
  [[gnu::always_inline]] constexpr float operator()(std::size_t i, float x) const {
    const float square = x * x;
    const bool first = step[i] == 0.0f;
    const float last = first ? square : a[i];
    const float before = first ? 0.02f : step[i];
    const float mean = c.gamma * last + (1.0f - c.gamma) * square;
    const float grown = before * c.increase, shrunk = before * c.decrease;
    const float up = grown > c.largest ? c.largest : grown;
    const float down = shrunk < c.smallest ? c.smallest : shrunk;
    const float now = x * sign[i] > 0.0f ? up : down;
    const float factor = now / root(mean + 1e-6f);
    a[i] = mean;
    step[i] = now;
    sign[i] = x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : 0.0f);
    g[i] = x * factor;
    return factor;
  }
};

struct FsAdagradConstants {
  float keep, target, momentum, rate;  // keep = exp(-N/T); target = fsAdagradTargetAvDenom * sqrt(count)
};
// `Smooth`: with a momentum above 0.
template <bool Smooth>
struct FsAdagrad {
  float* w;
  const float* g;
  float *a, *m;
  FsAdagradConstants c;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i, float x) const {
    const float squares = c.keep * a[i] + (1.0f - c.keep) * (x * x);
    a[i] = squares;
    const float ratio = c.target / root(squares != 0.0f ? squares : 1.0f);
    const float limited = ratio > 10.0f ? 10.0f : ratio;
    const float normalised = squares != 0.0f ? x * limited : x;
    if constexpr (Smooth) {
      const float next = c.momentum * m[i] + (1.0f - c.momentum) * normalised;
      m[i] = next;
      w[i] -= c.rate * next;
    } else {
      w[i] -= c.rate * normalised;
    }
  }
};

struct AdamConstants {
  float beta1, beta2, inverse_n, rate, root_correction, epsilon;
};
struct Adam {
  float* w;
  const float* g;
  float *m, *v;
  AdamConstants c;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i, float gradient) const {
    const float x = gradient * c.inverse_n;
    const float mean = c.beta1 * m[i] + (1.0f - c.beta1) * x;
    const float square = c.beta2 * v[i] + (1.0f - c.beta2) * (x * x);
    m[i] = mean;
    v[i] = square;
    w[i] -= c.rate * mean / (root(square) * c.root_correction + c.epsilon);
  }
};

// Adam with decoupled weight decay: first w *= keep.
struct AdamW {
  float* w;
  const float* g;
  float *m, *v;
  AdamConstants c;
  float keep;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i, float gradient) const {
    const float x = gradient * c.inverse_n;
    const float mean = c.beta1 * m[i] + (1.0f - c.beta1) * x;
    const float square = c.beta2 * v[i] + (1.0f - c.beta2) * (x * x);
    m[i] = mean;
    v[i] = square;
    const float kept = keep * w[i];
    w[i] = kept - c.rate * mean / (root(square) * c.root_correction + c.epsilon);
  }
};

// The direction of LAMB: g = the step of Adam (c.rate corrects the mean) + decay w. Returns its square.
struct LambDirection {
  const float* w;
  float *g, *m, *v;
  AdamConstants c;
  float decay;
  [[gnu::always_inline]] constexpr double operator()(std::size_t i, float gradient) const {
    const float x = gradient * c.inverse_n;
    const float mean = c.beta1 * m[i] + (1.0f - c.beta1) * x;
    const float square = c.beta2 * v[i] + (1.0f - c.beta2) * (x * x);
    m[i] = mean;
    v[i] = square;
    const float step = c.rate * mean / (root(square) * c.root_correction + c.epsilon);
    const float direction = step + decay * w[i];
    g[i] = direction;
    return static_cast<double>(direction) * direction;
  }
};
// w -= rate g |w|/|g| with the norms of the whole parameter, whose squares are given; w -= rate g if one of them is 0.
struct DescendByTrust {
  static constexpr Turn turn = Turn::rule;
  float* w;
  const float* g;
  float rate;
  const double *weights, *directions;
  [[gnu::always_inline]] constexpr Plainly<Descend, turn> begun() const {
    const double of_weights = root(*weights), of_directions = root(*directions);
    const bool adapts = of_weights > 0 && of_directions > 0;
    return {{w, g, adapts ? static_cast<float>(rate * (of_weights / of_directions)) : rate}};
  }
};

// g *= inverse_n. Returns the square.
struct Mean {
  float* g;
  float inverse_n;
  [[gnu::always_inline]] constexpr double operator()(std::size_t i, float gradient) const {
    const float x = gradient * inverse_n;
    g[i] = x;
    return static_cast<double>(x) * x;
  }
};
// LARS on mean gradients: s = mu s + gain trust (g + decay w); w -= s, where trust = coefficient |w|/(|g| + decay |w|)
// with the norms of the whole parameter, or 1 if one of them is 0.
struct Lars {
  static constexpr Turn turn = Turn::rule;
  float* w;
  const float* g;
  float *s, mu, gain, coefficient, decay;
  const double *weights, *gradients;
  struct Step {
    float* w;
    const float* g;
    float *s, mu, gain, decay;
    [[gnu::always_inline]] constexpr void operator()(std::size_t i, float x) const {
      const float next = mu * s[i] + gain * (x + decay * w[i]);
      s[i] = next;
      w[i] -= next;
    }
  };
  [[gnu::always_inline]] constexpr Plainly<Step, turn> begun() const {
    const double of_weights = root(*weights), of_gradients = root(*gradients);
    const bool adapts = of_weights > 0 && of_gradients > 0;
    const double trust = adapts ? coefficient * of_weights / (of_gradients + decay * of_weights) : 1.0;
    return {{w, g, s, mu, static_cast<float>(gain * trust), decay}};
  }
};

// Adam whose v stands still, where 0 stops everything. Not on devices. g = share m + fresh g
struct Contribute {
  static constexpr bool host_only = true;
  float* g;
  const float *m, *v;
  float share, fresh;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i) const {
    const float part = share * m[i] + fresh * g[i];
    g[i] = v[i] != 0.0f ? part : 0.0f;
  }
};
// m = beta1 m + g; w -= rate m / (sqrt(v) root_correction + epsilon)
struct FrozenAdam {
  static constexpr bool host_only = true;
  float* w;
  const float* g;
  float* m;
  const float* v;
  AdamConstants c;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i, float x) const {
    const float square = v[i], sum = c.beta1 * m[i] + x;
    const float mean = square != 0.0f ? sum : 0.0f;
    m[i] = mean;
    w[i] -= c.rate * mean / (root(square) * c.root_correction + c.epsilon);
  }
};

struct TextbookConstants {
  float decay, inverse_n, rate, epsilon;
};
struct Textbook {
  float* w;
  const float* g;
  float* a;
  TextbookConstants c;
  [[gnu::always_inline]] constexpr void operator()(std::size_t i, float gradient) const {
    const float x = gradient * c.inverse_n;
    const float square = c.decay * a[i] + (1.0f - c.decay) * (x * x);
    a[i] = square;
    w[i] -= c.rate * x / (root(square) + c.epsilon);
  }
};

}  // namespace tutti::optim

// SPDX-License-Identifier: Apache-2.0
// Every rule against a straightforward loop, bit for bit, whatever the sizes and the cut into chunks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cases.h"
#include "optim/kernels.h"
#include "support.h"

namespace tutti::optimizer_test {
namespace {

using testing::Case;
using testing::cases;
using testing::copy;
using testing::Floats;

// State of one element and the rules of docs/optimizers.md, one element at a time.
struct Reference {
  OptimizerOptions o;
  StepScalars s;
  double count = 0;
  std::int64_t steps = 0;
  std::vector<Floats> state;

  void begin(const StepScalars& scalars) {
    s = scalars;
    ++steps;
    const double n = static_cast<double>(s.columns), keep = std::exp(-n / o.variance_time_constant);
    count = keep * count + (1 - keep) * n;
  }

  static double square_of(const float* v, std::size_t size) {  // in the same lanes
    double lanes[16] = {}, all = 0;
    for (std::size_t i = 0; i < size; ++i) lanes[i % 16] += static_cast<double>(v[i]) * v[i];
    for (double l : lanes) all += l;
    return all;
  }

  static double mean_of(const Floats& v) {  // in the 16 lanes that are part of the result
    double lanes[16] = {}, all = 0;
    for (std::size_t i = 0; i < v.size(); ++i) lanes[i % 16] += v[i];
    for (double l : lanes) all += l;
    return all / static_cast<double>(v.size());
  }

  // `square`: of all gradients of the step.
  void update(const Slice& slice, std::size_t index, float* w, Floats g, double square) {
    if (state.size() <= index * 3 + 2) state.resize(index * 3 + 3);
    for (std::size_t k = 0; k < 3; ++k) state[index * 3 + k].resize(g.size());
    float* a = state[index * 3].data();
    float* b = state[index * 3 + 1].data();
    float* c = state[index * 3 + 2].data();
    const double n = static_cast<double>(s.columns), limit = o.clipping_per_sample * n;
    if (const double most = o.global_norm_per_sample * n; std::sqrt(square) > most)
      for (float& x : g) x *= static_cast<float>(most / std::sqrt(square));
    if (std::isfinite(limit) && o.clip_by_truncation)
      for (float& x : g) x = std::max(-static_cast<float>(limit), std::min(static_cast<float>(limit), x));
    if (std::isfinite(limit) && !o.clip_by_truncation) {
      const double norm = std::sqrt(square_of(g.data(), g.size()));
      if (norm > limit)
        for (float& x : g) x *= static_cast<float>(limit / norm);
    }
    const float decay = static_cast<float>(o.l2 * slice.regularization_multiplier * n);
    if (decay > 0)
      for (std::size_t i = 0; i < g.size(); ++i) g[i] += decay * w[i];

    float lr = static_cast<float>(s.learning_rate * slice.learning_rate_multiplier);
    const float mu = static_cast<float>(std::pow(s.momentum_per_sample, n));
    Floats multiplier(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (o.rule == UpdateRule::adagrad) {
        a[i] += g[i] * g[i];
        multiplier[i] = 1.0f / std::sqrt(a[i] + 1e-16f);
        g[i] = g[i] / std::sqrt(a[i] + 1e-16f);
      } else if (o.rule == UpdateRule::rms_prop) {
        if (b[i] == 0) a[i] = g[i] * g[i], b[i] = 0.02f, c[i] = 0;
        const float gamma = static_cast<float>(o.rms_gamma);
        a[i] = gamma * a[i] + (1.0f - gamma) * (g[i] * g[i]);
        if (g[i] * c[i] > 0)
          b[i] = std::min(b[i] * static_cast<float>(o.rms_increase), static_cast<float>(o.rms_max));
        else
          b[i] = std::max(b[i] * static_cast<float>(o.rms_decrease), static_cast<float>(o.rms_min));
        c[i] = g[i] > 0 ? 1.0f : (g[i] < 0 ? -1.0f : 0.0f);
        multiplier[i] = b[i] / std::sqrt(a[i] + 1e-6f);
        g[i] *= multiplier[i];
      }
    }
    if ((o.rule == UpdateRule::adagrad || o.rule == UpdateRule::rms_prop) && o.norm_with_average)
      lr /= static_cast<float>(mean_of(multiplier));
    const double weight_decay = o.weight_decay * slice.regularization_multiplier;
    const bool adapts = !slice.vector && slice.regularization_multiplier > 0;
    if (o.rule == UpdateRule::lamb && adapts)
      lamb(w, g, a, b, lr, weight_decay);
    else if (o.rule == UpdateRule::lars && adapts)
      lars(w, g, a, lr, mu, weight_decay);
    else
      for (std::size_t i = 0; i < g.size(); ++i) {
        if (o.rule == UpdateRule::adam_w) w[i] *= static_cast<float>(1 - static_cast<double>(lr) * n * weight_decay);
        move(w[i], g[i], a[i], b[i], lr, mu);
      }

    if (o.noise > 0)
      for (std::size_t i = 0; i < g.size(); ++i)
        w[i] += static_cast<float>(
            o.noise * optim::gaussian(static_cast<std::uint64_t>(steps), static_cast<std::uint64_t>(slice.offset + i)));
    const float shrink = static_cast<float>(s.learning_rate * slice.learning_rate_multiplier * o.l1 *
                                            slice.regularization_multiplier * n);
    if (shrink > 0)
      for (std::size_t i = 0; i < g.size(); ++i)
        w[i] = w[i] > shrink ? w[i] - shrink : (w[i] < -shrink ? w[i] + shrink : 0.0f);
  }

  // You et al. 2020, algorithm 2.
  void lamb(float* w, Floats& g, float* a, float* b, float lr, double weight_decay) const {
    const double n = static_cast<double>(s.columns), t = static_cast<double>(steps);
    const float b1 = static_cast<float>(o.beta1), b2 = static_cast<float>(o.beta2);
    const float first = static_cast<float>(n / (1 - std::pow(o.beta1, t)) / n),
                second = static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, t)));
    for (std::size_t i = 0; i < g.size(); ++i) {
      const float x = g[i] * static_cast<float>(1 / n);
      a[i] = b1 * a[i] + (1.0f - b1) * x;
      b[i] = b2 * b[i] + (1.0f - b2) * (x * x);
      g[i] = first * a[i] / (std::sqrt(b[i]) * second + static_cast<float>(o.epsilon));
      g[i] += static_cast<float>(weight_decay) * w[i];
    }
    const double of_w = std::sqrt(square_of(w, g.size())), of_g = std::sqrt(square_of(g.data(), g.size()));
    float rate = static_cast<float>(lr * n);
    if (of_w > 0 && of_g > 0) rate = static_cast<float>(rate * (of_w / of_g));
    for (std::size_t i = 0; i < g.size(); ++i) w[i] -= rate * g[i];
  }

  // You, Gitman, Ginsburg 2017, algorithm 1, with unit-gain momentum.
  void lars(float* w, Floats& g, float* a, float lr, float mu, double weight_decay) const {
    const double n = static_cast<double>(s.columns);
    const float decay = static_cast<float>(weight_decay);
    for (float& x : g) x *= static_cast<float>(1 / n);
    const double of_w = std::sqrt(square_of(w, g.size())), of_g = std::sqrt(square_of(g.data(), g.size()));
    double trust = 1;
    if (of_w > 0 && of_g > 0) trust = static_cast<float>(o.trust_coefficient) * of_w / (of_g + decay * of_w);
    const float gain = static_cast<float>(static_cast<float>((1.0f - mu) * (lr * n)) * trust);
    for (std::size_t i = 0; i < g.size(); ++i) {
      a[i] = mu * a[i] + gain * (g[i] + decay * w[i]);
      w[i] -= a[i];
    }
  }

  void move(float& w, float g, float& a, float& b, float lr, float mu) const {
    const double n = static_cast<double>(s.columns), t = static_cast<double>(steps);
    switch (o.rule) {
      case UpdateRule::adagrad:
      case UpdateRule::rms_prop:
        w -= lr * g;
        break;
      case UpdateRule::lars:  // of a vector
      case UpdateRule::sgd: {
        const float push = ((1.0f - mu) * lr) * g;
        a = mu * a + push;
        w -= o.nesterov ? mu * a + push : a;
        break;
      }
      case UpdateRule::fs_adagrad: {
        const float v = static_cast<float>(std::exp(-n / o.variance_time_constant));
        a = v * a + (1.0f - v) * (g * g);
        if (a != 0) g *= std::min(10.0f, static_cast<float>(o.target_average * std::sqrt(count)) / std::sqrt(a));
        if (mu > 0) g = b = mu * b + (1.0f - mu) * g;
        w -= lr * g;
        break;
      }
      case UpdateRule::one_bit_adam:  // in its warm-up
      case UpdateRule::lamb:          // of a vector
      case UpdateRule::adam_w:        // the weight has decayed
      case UpdateRule::adam: {
        const float b1 = static_cast<float>(o.beta1), b2 = static_cast<float>(o.beta2);
        g *= static_cast<float>(1 / n);
        a = b1 * a + (1.0f - b1) * g;
        b = b2 * b + (1.0f - b2) * (g * g);
        const float rate = static_cast<float>(lr * (n / (1 - std::pow(o.beta1, t))));
        w -= rate * a /
             (std::sqrt(b) * static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, t))) +
              static_cast<float>(o.epsilon));
        break;
      }
      case UpdateRule::rms_prop_textbook: {
        g *= static_cast<float>(1 / n);
        const float d = static_cast<float>(o.decay);
        a = d * a + (1.0f - d) * (g * g);
        w -= static_cast<float>(lr * n) * g / (std::sqrt(a) + static_cast<float>(o.epsilon));
        break;
      }
    }
  }
};

TEST(Optimizer, EveryRuleEqualsTheLoopOnWholeParametersOfOneBlock) {
  // Sums over several blocks of a parameter restart their lanes, so the reference covers sizes of one block.
  std::mt19937 engine(7);
  for (const Case& c : cases()) {
    for (int round = 0; round < 4; ++round) {
      Parameters p = testing::make_parameters({{1 + engine() % 40, 1 + engine() % 40}, {1 + engine() % 90, 1}, {1, 1}, {9, 1}});
      p.slices[3].vector = true;
      p.slices[0].learning_rate_multiplier = 0.5;
      p.slices[1].regularization_multiplier = 0;
      testing::fill(p.weights, p, engine, 1);
      testing::cut(p, engine);
      auto optimizer = make_optimizer(c.options);
      optimizer->bind(p);
      Reference reference{c.options, {}, 0, 0, {}};
      Floats weights = copy(p.weights);
      for (int k = 0; k < 5; ++k) {
        testing::fill(p.gradients, p, engine, 1);
        const StepScalars s{static_cast<float>(0.01), 0.99, 5 + k * 7};
        reference.begin(s);
        double square = 0;
        for (const Slice& slice : p.slices)
          square += Reference::square_of(p.gradients.data() + slice.offset, slice.size());
        for (std::size_t i = 0; i < p.slices.size(); ++i) {
          const Slice& slice = p.slices[i];
          const float* g = p.gradients.data() + slice.offset;
          reference.update(slice, i, weights.data() + slice.offset, Floats(g, g + slice.size()), square);
        }
        testing::step(*optimizer, p, s);
        ASSERT_EQ(copy(p.weights), weights) << c.name << ", round " << round << ", step " << k;
      }
    }
  }
}

TEST(Optimizer, ResultsDoNotDependOnTheCut) {
  for (const Case& c : cases()) {
    std::mt19937 engine(11);
    Parameters a = testing::make_parameters({{700, 23}, {33, 400}, {5000, 1}});
    testing::fill(a.weights, a, engine, 1);
    Parameters b = testing::make_parameters({{700, 23}, {33, 400}, {5000, 1}});
    std::copy_n(a.weights.data(), a.size(), b.weights.data());
    testing::cut(b, engine);
    auto one = make_optimizer(c.options), other = make_optimizer(c.options);
    one->bind(a), other->bind(b);
    for (int k = 0; k < 3; ++k) {
      testing::fill(a.gradients, a, engine, 1);
      std::copy_n(a.gradients.data(), a.size(), b.gradients.data());
      const StepScalars s{0.01, 0.999, 32};
      testing::step(*one, a, s), testing::step(*other, b, s);
      ASSERT_EQ(copy(a.weights), copy(b.weights)) << c.name;
    }
  }
}

TEST(Optimizer, SavedAndLoadedStateContinuesEqually) {
  for (const Case& c : cases()) {
    std::mt19937 engine(3);
    Parameters a = testing::make_parameters({{30, 20}, {7, 1}});
    testing::fill(a.weights, a, engine, 1);
    auto one = make_optimizer(c.options);
    one->bind(a);
    const StepScalars s{0.01, 0.99, 8};
    for (int k = 0; k < 3; ++k) {
      testing::fill(a.gradients, a, engine, 1);
      testing::step(*one, a, s);
    }
    testing::MemoryArchive archive;
    one->archive(archive);
    Parameters b = testing::make_parameters({{30, 20}, {7, 1}});
    std::copy_n(a.weights.data(), a.size(), b.weights.data());
    auto other = make_optimizer(c.options);
    other->bind(b);
    archive.reading = true;
    other->archive(archive);
    for (int k = 0; k < 3; ++k) {
      testing::fill(a.gradients, a, engine, 1);
      std::copy_n(a.gradients.data(), a.size(), b.gradients.data());
      testing::step(*one, a, s), testing::step(*other, b, s);
      ASSERT_EQ(copy(a.weights), copy(b.weights)) << c.name;
    }
  }
}

TEST(Optimizer, AStateOfAnotherRuleIsRefusedByName) {
  Parameters p = testing::make_parameters({{3, 2}});
  OptimizerOptions o;
  auto sgd = make_optimizer(o);
  sgd->bind(p);
  testing::MemoryArchive archive;
  sgd->archive(archive);
  archive.reading = true;
  o.rule = UpdateRule::adam;
  auto adam = make_optimizer(o);
  adam->bind(p);
  try {
    adam->archive(archive);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "the checkpoint was written with gradUpdateType = none, this run has adam");
  }
}

TEST(Optimizer, UnitGain) {  // a constant gradient moves the weight by lr * g per step in the long run
  Parameters p = testing::make_parameters({{1, 1}});
  auto optimizer = make_optimizer({});
  optimizer->bind(p);
  double last = 0, before = 0;
  for (int k = 0; k < 400; ++k) {
    p.gradients.data()[0] = 1;
    before = p.weights.data()[0];
    testing::step(*optimizer, p, {0.125, std::pow(0.9, 1.0 / 10), 10});
    last = p.weights.data()[0] - before;
  }
  EXPECT_NEAR(last, -0.125, 1e-4);
}

TEST(Optimizer, WithoutMomentumEqualsMomentumZero) {
  std::mt19937 engine(5);
  Parameters a = testing::make_parameters({{31, 17}}), b = testing::make_parameters({{31, 17}});
  testing::fill(a.weights, a, engine, 1);
  std::copy_n(a.weights.data(), a.size(), b.weights.data());
  OptimizerOptions none;
  none.momentum = false;
  auto one = make_optimizer({}), other = make_optimizer(none);
  one->bind(a), other->bind(b);
  for (int k = 0; k < 4; ++k) {
    testing::fill(a.gradients, a, engine, 1);
    std::copy_n(a.gradients.data(), a.size(), b.gradients.data());
    testing::step(*one, a, {0.01, 0, 9}), testing::step(*other, b, {0.01, 0, 9});
  }
  EXPECT_EQ(copy(a.weights), copy(b.weights));
}

TEST(Optimizer, SparseGradientsMoveListedColumnsOnly) {
  for (const bool nesterov : {false, true}) {
    std::mt19937 engine(9);
    Parameters p = testing::make_parameters({{5, 12}});
    p.slices[0].sparse_gradient = true;
    p.sparse_rows.resize(1);
    testing::fill(p.weights, p, engine, 1);
    OptimizerOptions o;
    o.nesterov = nesterov, o.l2 = 0.1;
    auto optimizer = make_optimizer(o);
    optimizer->bind(p);
    Floats w = copy(p.weights), s(w.size());
    const double per_sample = 0.99;
    for (int k = 0; k < 6; ++k) {
      std::fill(p.gradients.span().begin(), p.gradients.span().end(), 0.0f);
      std::vector<bool> touched(12);
      p.sparse_rows[0].clear();
      for (std::uint32_t c = 0; c < 12; ++c) {
        if (!(touched[c] = engine() % 3 == 0)) continue;
        p.sparse_rows[0].push_back(c);
        if (c != 5) p.gradients.data()[c * 5 + engine() % 5] = 1.5f;  // listed is touched, even if all zero
      }
      const float mu = static_cast<float>(std::pow(per_sample, 4.0)), rate = 0.01f;
      for (std::size_t i = 0; i < 60; ++i) {
        if (!touched[i / 5]) continue;
        const float g = p.gradients.data()[i] + static_cast<float>(0.1 * 4) * w[i], push = (1.0f - mu) * g;
        s[i] = mu * s[i] + push;
        w[i] -= rate * (nesterov ? mu * s[i] + push : s[i]);
      }
      testing::step(*optimizer, p, {rate, per_sample, 4});
      ASSERT_EQ(copy(p.weights), w);
    }
  }
}

// The sparse rows, columns or rows, behave like a parameter of their own.
TEST(Optimizer, EveryRuleOnSparseRowsEqualsItOnAPackedParameter) {
  const std::vector<std::uint32_t> touched = {0, 3, 4, 5, 9, 19};
  for (const Case& c : cases())
    for (const bool rows : {false, true}) {
      if (c.options.noise > 0) continue;  // a function of the place
      const std::size_t size = 7, lines = 20;
      Parameters p = testing::make_parameters({rows ? std::pair{lines, size} : std::pair{size, lines}});
      Parameters packed = testing::make_parameters({{size, touched.size()}});
      p.slices[0].sparse_gradient = true, p.slices[0].sparse_by_row = rows;
      p.sparse_rows = {touched};
      std::mt19937 engine(5);
      testing::fill(p.weights, p, engine, 1);
      const auto at = [&](std::uint32_t line, std::size_t d) { return rows ? d * lines + line : line * size + d; };
      const auto each = [&](const auto& body) {
        for (std::size_t l = 0; l < touched.size(); ++l)
          for (std::size_t d = 0; d < size; ++d) body(at(touched[l], d), l * size + d);
      };
      each([&](std::size_t from, std::size_t to) { packed.weights.data()[to] = p.weights.data()[from]; });
      Floats untouched = copy(p.weights);
      auto one = make_optimizer(c.options), other = make_optimizer(c.options);
      one->bind(p), other->bind(packed);
      for (int k = 0; k < 6; ++k) {
        testing::fill(packed.gradients, packed, engine, 1);
        clear_sparse_rows(p.slices[0], p.sparse_rows[0], p.gradients);
        each([&](std::size_t to, std::size_t from) { p.gradients.data()[to] = packed.gradients.data()[from]; });
        const StepScalars s{0.01, 0.99, 5 + k};
        testing::step(*one, p, s), testing::step(*other, packed, s);
      }
      each([&](std::size_t place, std::size_t from) {
        EXPECT_NEAR(p.weights.data()[place], packed.weights.data()[from], 2e-6) << c.name << (rows ? ", rows" : "");
        untouched[place] = p.weights.data()[place];
      });
      EXPECT_EQ(copy(p.weights), untouched) << c.name;
    }
}

TEST(Optimizer, EmptyStepsAndVanishingRatesChangeNothing) {
  std::mt19937 engine(1);
  for (const Case& c : cases()) {
    Parameters p = testing::make_parameters({{8, 8}});
    testing::fill(p.weights, p, engine, 1);
    testing::fill(p.gradients, p, engine, 1);
    const Floats before = copy(p.weights);
    auto optimizer = make_optimizer(c.options);
    optimizer->bind(p);
    testing::MemoryArchive fresh, after;
    optimizer->archive(fresh);
    testing::step(*optimizer, p, {0.1, 0.9, 0});
    testing::step(*optimizer, p, {1e-11, 0.9, 10});
    optimizer->archive(after);
    EXPECT_EQ(copy(p.weights), before);
    EXPECT_EQ(fresh.entries, after.entries);
    testing::step(*optimizer, p, {1.1e-11, 0.9, 10});
    testing::MemoryArchive moved;
    optimizer->archive(moved);
    EXPECT_NE(fresh.entries, moved.entries) << c.name;
  }
}

TEST(Optimizer, L1StopsAtZero) {
  Parameters p = testing::make_parameters({{1, 3}});
  const Floats start = {0.05f, -0.05f, 1.0f};
  std::copy(start.begin(), start.end(), p.weights.data());
  OptimizerOptions o;
  o.l1 = 1;
  auto optimizer = make_optimizer(o);
  optimizer->bind(p);
  testing::step(*optimizer, p, {0.1, 0, 1});
  EXPECT_EQ(p.weights.data()[0], 0.0f);
  EXPECT_EQ(p.weights.data()[1], 0.0f);
  EXPECT_EQ(p.weights.data()[2], 1.0f - 0.1f);
}

TEST(Optimizer, ResetMomentumForgetsTheSmoothedGradient) {
  Parameters p = testing::make_parameters({{1, 1}});
  auto optimizer = make_optimizer({});
  optimizer->bind(p);
  p.gradients.data()[0] = 1;
  testing::step(*optimizer, p, {0.1, 0.5, 1});
  optimizer->reset_momentum();
  const float before = p.weights.data()[0];
  p.gradients.data()[0] = 0;
  testing::step(*optimizer, p, {0.1, 0.5, 1});
  EXPECT_EQ(p.weights.data()[0], before);
}

TEST(Optimizer, NaNGradientsAreNotHiddenByClipping) {
  OptimizerOptions o;
  o.clipping_per_sample = 1;
  Parameters p = testing::make_parameters({{40, 1}});
  auto optimizer = make_optimizer(o);
  optimizer->bind(p);
  p.gradients.data()[3] = p.gradients.data()[39] = std::numeric_limits<float>::quiet_NaN();
  testing::step(*optimizer, p, {0.1, 0.5, 1});
  EXPECT_TRUE(std::isnan(p.weights.data()[3]) && std::isnan(p.weights.data()[39]));
}

TEST(Noise, IsStandardNormalAndAFunctionOfStepAndIndex) {
  double sum = 0, squares = 0, fourth = 0;
  const int n = 200'000;
  for (int i = 0; i < n; ++i) {
    const double x = optim::gaussian(static_cast<std::uint64_t>(i % 7), static_cast<std::uint64_t>(i));
    sum += x, squares += x * x, fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.015);
  EXPECT_NEAR(fourth / n, 3, 0.1);
  EXPECT_EQ(optim::gaussian(3, 5), optim::gaussian(3, 5));
  EXPECT_NE(optim::gaussian(3, 5), optim::gaussian(5, 3));
}

}  // namespace
}  // namespace tutti::optimizer_test

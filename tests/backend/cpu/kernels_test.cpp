// SPDX-License-Identifier: Apache-2.0
// The vector kernels: the same bits from every instruction set, and close to double arithmetic.
#include "backend/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace tutti::cpu::kernels_test {
namespace {

std::vector<const Kernels*> available() {
  std::vector<const Kernels*> all;
  for_each_set([&]<InstructionSet set>() { all.push_back(&kernels<set>()); });
  return all;
}

std::vector<float> random(std::size_t n, float low, float high, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> draw(low, high);
  std::vector<float> v(n);
  for (auto& x : v) x = draw(engine);
  return v;
}

// Bits, so that NaN equals NaN.
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr UnaryOp unary[] = {UnaryOp::copy,  UnaryOp::negate, UnaryOp::reciprocal, UnaryOp::sigmoid, UnaryOp::tanh,
                             UnaryOp::relu,  UnaryOp::exp,    UnaryOp::log,        UnaryOp::sqrt,    UnaryOp::abs,
                             UnaryOp::floor, UnaryOp::ceil,   UnaryOp::round,      UnaryOp::sin,     UnaryOp::cosine};
constexpr PointOp points[] = {PointOp::plus,      PointOp::minus,      PointOp::times,   PointOp::log_plus,
                              PointOp::less,      PointOp::equal,      PointOp::greater, PointOp::greater_equal,
                              PointOp::not_equal, PointOp::less_equal, PointOp::choose,  PointOp::clip,
                              PointOp::normalize, PointOp::denormalize};

TEST(Kernels, SameBitsFromEveryInstructionSet) {
  const auto kernels = available();
  for (const std::size_t n : {1u, 2u, 15u, 16u, 17u, 31u, 100u, 1000u}) {
    auto x = random(n, -9, 9, 1), y = random(n, -9, 9, 2), z = random(n, 0.1f, 9, 3);
    if (n > 20) x[3] = 0, x[4] = std::numeric_limits<float>::infinity(), x[5] = -1e30f, x[6] = 1e-40f;
    const auto& k0 = *kernels[0];
    for (std::size_t v = 1; v < kernels.size(); ++v) {
      const auto& k1 = *kernels[v];
      SCOPED_TRACE(std::string(k1.name) + " n=" + std::to_string(n));
      for (const auto op : unary) {
        std::vector<float> a(n), b(n);
        k0.map(op, x.data(), a.data(), n), k1.map(op, x.data(), b.data(), n);
        EXPECT_TRUE(same(a, b)) << static_cast<int>(op);
        auto ga = y, gb = y;
        k0.map_gradient(op, x.data(), a.data(), z.data(), ga.data(), n, true);
        k1.map_gradient(op, x.data(), a.data(), z.data(), gb.data(), n, true);
        EXPECT_TRUE(same(ga, gb)) << static_cast<int>(op);
        auto ba = y, bb = y, sa = z, sb = z;
        k0.bias_activation(op, x.data(), ba.data(), n), k1.bias_activation(op, x.data(), bb.data(), n);
        EXPECT_TRUE(same(ba, bb));
        k0.bias_activation_gradient(op, 1, n, x.data(), ba.data(), sa.data(), n, true);
        k1.bias_activation_gradient(op, 1, n, x.data(), bb.data(), sb.data(), n, true);
        EXPECT_TRUE(same(ba, bb) && same(sa, sb));
      }
      for (const auto op : points) {
        const Row row{{x.data(), y.data(), z.data()}, {1, 0, 1}};
        std::vector<float> a(n), b(n);
        k0.combine(op, row, a.data(), n), k1.combine(op, row, b.data(), n);
        EXPECT_TRUE(same(a, b)) << static_cast<int>(op);
        for (std::size_t k = 0; k < 3; ++k) {
          k0.combine_gradient(op, k, row, z.data(), a.data(), n),
              k1.combine_gradient(op, k, row, z.data(), b.data(), n);
          EXPECT_TRUE(same(a, b)) << static_cast<int>(op);
        }
      }
      EXPECT_EQ(k0.sum(z.data(), n), k1.sum(z.data(), n));
      EXPECT_EQ(k0.dot(y.data(), z.data(), n), k1.dot(y.data(), z.data(), n));
      EXPECT_EQ(k0.maximum(y.data(), n), k1.maximum(y.data(), n));
      EXPECT_EQ(k0.log_sum(y.data(), n), k1.log_sum(y.data(), n));
      std::vector<float> a(n), b(n);
      std::vector<float> la(n), lb(n);
      k0.softmax(y.data(), a.data(), 1, n, la.data()), k1.softmax(y.data(), b.data(), 1, n, lb.data());
      EXPECT_TRUE(same(a, b) && same(la, lb));
      k0.softmax(y.data(), a.data(), n, 1, la.data()), k1.softmax(y.data(), b.data(), n, 1, lb.data());
      EXPECT_TRUE(same(a, b));
      EXPECT_EQ(la[0], lb[0]);
      EXPECT_EQ(la[0], k0.log_sum(y.data(), n));
      k0.softmax_gradient(a.data(), z.data(), 0.3f, a.data(), n, false),
          k1.softmax_gradient(b.data(), z.data(), 0.3f, b.data(), n, false);
      EXPECT_TRUE(same(a, b));
      k0.cross_entropy_gradient(y.data(), z.data(), 2, a.data(), n, 1, true),
          k1.cross_entropy_gradient(y.data(), z.data(), 2, b.data(), n, 1, true);
      EXPECT_TRUE(same(a, b));
      const std::uint64_t seed = 5;
      const DropoutMask mask{.seed = &seed, .rate = 0.4f};
      k0.dropout(mask, 3, y.data(), a.data(), n, true), k1.dropout(mask, 3, y.data(), b.data(), n, true);
      EXPECT_TRUE(same(a, b));
      DropoutMask blocks = mask;
      blocks.block = 8, blocks.pixels = 5;
      k0.dropout(blocks, 3, y.data(), a.data(), n / 8 * 8, false),
          k1.dropout(blocks, 3, y.data(), b.data(), n / 8 * 8, false);
      EXPECT_TRUE(same(a, b));
    }
  }
}

class Drawn {
 public:
  std::vector<float> operator()(std::size_t n) {
    std::vector<float> v(n);
    for (auto& x : v) x = draw_(engine_);
    return v;
  }

 private:
  std::mt19937 engine_{4};
  std::uniform_real_distribution<float> draw_{-2, 2};
};

// One step of an LSTM forward and backward with `k`; every result in one vector.
std::vector<float> lstm(const Kernels& k, std::size_t rows, std::size_t cells, bool one_state) {
  Drawn random;
  const std::size_t n = rows * cells;
  const auto projected = random(4 * n), state = random(4 * n), before = random(n), dh = random(n), dc = random(n);
  std::vector<float> all(11 * n);
  float *gates = all.data(), *cell = gates + 4 * n, *h = cell + n, *dgates = h + n, *down = dgates + 4 * n;
  LstmRows f;
  f.rows = rows, f.cells = cells, f.projected = projected.data(), f.from_state = state.data();
  f.from_state_step = one_state ? 0 : 4 * cells, f.cell_before = before.data();
  f.cell_before_step = one_state ? 0 : cells, f.gates = gates, f.cell = cell, f.output = h;
  k.lstm_step(f, 0, rows);
  LstmRowsGradient b;
  b.rows = rows, b.cells = cells, b.gates = gates, b.cell_before = before.data();
  b.cell_before_step = f.cell_before_step, b.cell = cell, b.output_gradient = dh.data(), b.cell_gradient = dc.data();
  b.gates_gradient = dgates, b.cell_before_gradient = down;
  k.lstm_step_gradient(b, 0, rows);
  return all;
}

TEST(Kernels, LstmStepHasTheSameBits) {
  for (const auto* k : available())
    for (const std::size_t cells : {1UL, 5UL, 16UL, 20UL, 47UL, 64UL})
      for (const bool one_state : {false, true})
        EXPECT_TRUE(
            same(lstm(cpu::kernels<InstructionSet::portable>(), 3, cells, one_state), lstm(*k, 3, cells, one_state)))
            << k->name << " " << cells;
}

// The same for a GRU.
std::vector<float> gru(const Kernels& k, CellKind kind, std::size_t rows, std::size_t cells, bool one_state) {
  Drawn random;
  const std::size_t n = rows * cells;
  const auto projected = random(3 * n), state = random(3 * n), bias = random(3 * cells), before = random(n);
  const auto dh = random(n), carried = random(n), reset = random(n);
  std::vector<float> all(12 * n);
  float *gates = all.data(), *inner = gates + 3 * n, *h = inner + n, *dgates = h + n, *dstate = dgates + 3 * n;
  const bool first = kind == CellKind::gru_reset_before;
  GruRows f{.kind = kind, .rows = rows, .cells = cells, .projected = projected.data(), .from_state = state.data()};
  f.from_state_step = one_state ? 0 : 3 * cells, f.output_before = before.data();
  f.output_before_step = one_state ? 0 : cells, f.gates = gates, f.inner = inner, f.output = h;
  if (!first) f.state_bias = bias.data();
  if (first) k.gru_reset(f, 0, rows);
  k.gru_step(f, 0, rows);
  GruRowsGradient b{.kind = kind, .rows = rows, .cells = cells, .gates = gates, .inner = inner};
  b.output_before = before.data(), b.output_before_step = f.output_before_step;
  b.output_gradient = dh.data(), b.carried_gradient = carried.data(), b.reset_gradient = reset.data();
  b.gates_gradient = dgates, b.from_state_gradient = dstate, b.output_before_gradient = dstate + 3 * n;
  k.gru_step_gradient(b, 0, rows);
  if (first) k.gru_reset_gradient(b, 0, rows);
  return all;
}

TEST(Kernels, GruStepHasTheSameBits) {
  for (const auto* k : available())
    for (const CellKind kind : {CellKind::gru_reset_before, CellKind::gru_reset_after})
      for (const std::size_t cells : {1UL, 5UL, 16UL, 20UL, 47UL, 64UL})
        for (const bool one_state : {false, true})
          EXPECT_TRUE(same(gru(cpu::kernels<InstructionSet::portable>(), kind, 3, cells, one_state),
                           gru(*k, kind, 3, cells, one_state)))
              << k->name << " " << cells;
}

double exact(UnaryOp op, double x) {
  switch (op) {
    case UnaryOp::copy:
      return x;
    case UnaryOp::negate:
      return -x;
    case UnaryOp::reciprocal:
      return x == 0 ? 0 : 1 / x;
    case UnaryOp::sigmoid:
      return 1 / (1 + std::exp(-x));
    case UnaryOp::tanh:
      return std::tanh(x);
    case UnaryOp::relu:
      return x > 0 ? x : 0;
    case UnaryOp::exp:
      return std::exp(x);
    case UnaryOp::log:
      return x <= 0 ? static_cast<double>(-85.1f) : std::log(x);
    case UnaryOp::sqrt:
      return x < 0 ? 0 : std::sqrt(x);
    case UnaryOp::abs:
      return std::fabs(x);
    case UnaryOp::floor:
      return std::floor(x);
    case UnaryOp::ceil:
      return std::ceil(x);
    case UnaryOp::round:
      return std::round(x);
    case UnaryOp::sin:
      return std::sin(x);
    case UnaryOp::cosine:
      return std::cos(x);
  }
  return 0;
}

TEST(Kernels, CloseToDouble) {
  for (const float width : {1e-4f, 0.5f, 3.0f, 80.0f}) {
    const auto x = random(3000, -width, width, 9);
    std::vector<float> y(x.size());
    for (const auto op : unary) {
      best_kernels().map(op, x.data(), y.data(), x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double e = exact(op, x[i]);
        ASSERT_NEAR(y[i], e, 3e-7 * std::fabs(e) + 1e-37) << static_cast<int>(op) << " of " << x[i];
      }
    }
  }
}

TEST(Kernels, LinesTogetherAreLinesAlone) {
  for (const auto* k : available())
    for (const std::size_t n : {1u, 2u, 7u, 15u, 16u, 21u})
      for (const std::size_t lines : {1u, 25u, 64u, 130u}) {
        SCOPED_TRACE(std::string(k->name) + ", " + std::to_string(lines) + " of " + std::to_string(n));
        auto x = random(n * lines, -90, 90, 1), label = random(n * lines, 0, 2, 2);
        x[x.size() / 2] = std::numeric_limits<float>::quiet_NaN();
        std::vector<float> p(x.size()), g(x), log_sums(lines);
        k->softmax(x.data(), p.data(), n, lines, log_sums.data());
        k->cross_entropy_gradient(p.data(), label.data(), 0.7f, g.data(), n, lines, true);
        for (std::size_t l = 0; l < lines; ++l) {
          const std::vector<float> of(x.begin() + l * n, x.begin() + (l + 1) * n);
          const float log_sum = k->log_sum(of.data(), n), mass = k->sum(label.data() + l * n, n);
          EXPECT_TRUE(same({log_sum}, {log_sums[l]}));
          for (std::size_t i = 0; i < n; ++i) {
            const float e = std::exp(of[i] - log_sum), at = p[l * n + i];
            EXPECT_TRUE(std::isnan(e) ? std::isnan(at) : std::fabs(e - at) <= 2e-5f * e + 1e-30f) << e << ' ' << at;
            const float expected = of[i] + 0.7f * (at * mass - label[l * n + i]), is = g[l * n + i];
            EXPECT_TRUE(std::isnan(expected) ? std::isnan(is) : expected == is);
          }
        }
      }
}

TEST(Kernels, NotANumberStaysVisible) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto* k : available()) {
    for (const auto op : unary) {
      std::vector<float> x(17, nan), y(17, 0);
      k->map(op, x.data(), y.data(), x.size());
      for (const float v : y) EXPECT_TRUE(std::isnan(v)) << k->name << " " << static_cast<int>(op);
    }
    std::vector<float> x(20, 1.0f);
    x[11] = nan;
    EXPECT_TRUE(std::isnan(k->sum(x.data(), x.size())));
    EXPECT_TRUE(std::isnan(k->log_sum(x.data(), x.size())));
    const std::vector<float> ones(x.size(), 1.0f);
    for (const Row& row : {Row{{x.data(), ones.data()}, {1, 1}}, Row{{ones.data(), x.data()}, {1, 1}}}) {
      std::vector<float> y(x.size());
      k->combine(PointOp::log_plus, row, y.data(), y.size());
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i == 11) << k->name << ' ' << i;
    }
  }
}

TEST(Kernels, ExtremesOfTheExponential) {
  const std::vector<float> x = {
      -1000, -88, 0, 88, 1000, -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()};
  std::vector<float> y(x.size());
  best_kernels().map(UnaryOp::exp, x.data(), y.data(), x.size());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 1);
  EXPECT_NEAR(y[3] / std::exp(88.0), 1, 1e-6);
  EXPECT_TRUE(std::isinf(y[4]));
  EXPECT_EQ(y[5], 0);
  EXPECT_TRUE(std::isinf(y[6]));
  best_kernels().softmax(std::vector<float>{1000, 0, 0}.data(), y.data(), 3, 1, nullptr);
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 0);
}

TEST(Kernels, DropoutRate) {
  std::vector<float> x(100000, 1.0f), y(x.size());
  const std::uint64_t seed = 1;
  best_kernels().dropout({.seed = &seed, .rate = 0.25f}, 0, x.data(), y.data(), x.size(), false);
  std::size_t dropped = 0;
  for (const float v : y) {
    ASSERT_TRUE(v == 0 || v == 1 / 0.75f);
    dropped += v == 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped) / 1e5, 0.25, 0.01);
}

}  // namespace
}  // namespace tutti::cpu::kernels_test

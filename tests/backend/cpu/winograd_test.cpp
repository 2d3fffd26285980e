// SPDX-License-Identifier: Apache-2.0
// Winograd's algorithm against plain sums, over sizes, padding and channels; the same bits for any threads and columns.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/winograd.h"

namespace tutti::winograd_test {
namespace {

using Floats = std::vector<float>;

Floats random(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  Floats v(n);
  for (auto& x : v) x = draw(engine);
  return v;
}

// A minibatch of blocked images.
struct Images {
  std::size_t columns, channels, width, height;
  Floats v;
  Images(std::size_t columns, std::size_t channels, std::size_t width, std::size_t height, unsigned seed)
      : columns(columns), channels(channels), width(width), height(height), v(columns * floats()) {
    if (seed == 0) return;
    const Floats values = random(v.size(), seed);
    for (std::size_t i = 0; i < v.size(); ++i)
      if (channel(i) < channels) v[i] = values[i];
  }
  std::size_t floats() const { return (channels + 7) / 8 * 8 * width * height; }
  std::size_t channel(std::size_t i) const { return i % floats() / (8 * width * height) * 8 + i % 8; }
  // Null outside of the image.
  const float* at(std::size_t n, std::size_t c, std::size_t x, std::size_t y) const {
    return x < width && y < height ? &v[n * floats() + (c / 8 * width * height + y * width + x) * 8 + c % 8] : nullptr;
  }
};

struct Problem {
  ConvolutionShape s;
  Images x, y, dx, dy;
  Floats w, dw, bias;
  Problem(std::size_t columns, std::size_t in, std::size_t out, std::size_t width, std::size_t height, std::size_t pad,
          bool fused = false, std::size_t groups = 1)
      : x(columns, in, width, height, 1),
        y(columns, out, width + 2 * pad - 2, height + 2 * pad - 2, 2),
        dx(columns, in, width, height, 3),
        dy(columns, out, y.width, y.height, 4),
        w(random(in * out * 9 / groups, 5)),
        dw(random(w.size(), 6)),
        bias(random(out, 7)) {
    s.window = {2, {width, height, 1}, {y.width, y.height, 1}, {3, 3, 1}, {1, 1, 1}, {pad, pad, 0}};
    s.columns = columns, s.groups = groups, s.in_channels = in, s.out_channels = out, s.in = s.out = Format::blocked;
    s.bias = s.relu = fused;
  }
};

// Calls f(place in x or null, place in y, index of the weight).
template <class F>
void each_product(const Problem& p, const F& f) {
  const std::size_t pad = p.s.window.pad[0], in = p.x.channels / p.s.groups, out = p.y.channels / p.s.groups;
  for (std::size_t n = 0; n < p.x.columns; ++n)
    for (std::size_t o = 0; o < p.y.channels; ++o)
      for (std::size_t i = 0; i < in; ++i)
        for (std::size_t k = 0; k < 9; ++k)
          for (std::size_t b = 0; b < p.y.height; ++b)
            for (std::size_t a = 0; a < p.y.width; ++a)
              if (const float* from = p.x.at(n, o / out * in + i, a + k % 3 - pad, b + k / 3 - pad))
                f(from - p.x.v.data(), p.y.at(n, o, a, b) - p.y.v.data(), (o * in + i) * 9 + k);
}

void expect_near(const Floats& got, const std::vector<double>& expected) {
  double largest = 1;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 5e-6 * largest) << i;
}

class WinogradPasses : public testing::Test {
 protected:
  void SetUp() override {
    if (!cpu::winograd_kernels()) GTEST_SKIP() << "this processor has no AVX2 with FMA";
  }
  void run(Problem& p, bool add) {
    cpu::WinogradConvolution plan(p.s, dnnl, *cpu::winograd_kernels());  // whatever the shape
    plan.forward(p.x.v.data(), p.w.data(), p.s.bias ? p.bias.data() : nullptr, p.y.v.data(), add, false);
    plan.backward_data(p.dy.v.data(), p.w.data(), p.dx.v.data(), add, false);
    plan.backward_weights(p.x.v.data(), p.dy.v.data(), p.dw.data(), add);
  }
  void check(Problem p, bool add) {
    std::vector<double> y(p.y.v.size()), dx(p.dx.v.size()), dw(p.dw.size());
    each_product(p, [&](std::size_t from, std::size_t to, std::size_t k) {
      y[to] += double{p.x.v[from]} * p.w[k];
      dx[from] += double{p.dy.v[to]} * p.w[k];
      dw[k] += double{p.dy.v[to]} * p.x.v[from];
    });
    for (std::size_t i = 0; i < y.size(); ++i)
      if (p.s.bias && p.y.channel(i) < p.y.channels) y[i] = std::max(0.0, y[i] + p.bias[p.y.channel(i)]);
    const auto added = [&](std::vector<double>& v, const Floats& before) {
      for (std::size_t i = 0; add && i < v.size(); ++i) v[i] += before[i];
    };
    added(y, p.y.v), added(dx, p.dx.v), added(dw, p.dw);
    run(p, add);
    expect_near(p.y.v, y), expect_near(p.dx.v, dx), expect_near(p.dw, dw);
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_TRUE(p.y.channel(i) < p.y.channels || p.y.v[i] == 0) << "a channel that is not there";
  }
  cpu::OneDnn dnnl;
};

TEST_F(WinogradPasses, EqualPlainSums) {
  for (const auto& [width, height] : {std::pair<std::size_t, std::size_t>{3, 3}, {4, 7}, {8, 8}, {13, 6}})
    for (const std::size_t pad : {0u, 1u, 2u})
      for (const auto& [in, out] : {std::pair<std::size_t, std::size_t>{3, 5}, {8, 16}, {20, 33}})
        for (const bool fused : {false, true}) check({2, in, out, width, height, pad, fused}, fused != (pad == 1));
}

TEST_F(WinogradPasses, EqualPlainSumsOverManyTilesAndChannels) {
  check({37, 16, 24, 16, 15, 1}, false);
  check({5, 200, 100, 5, 5, 1, true}, false);
  check({3, 48, 72, 6, 6, 1, true, 3}, true);
}

TEST_F(WinogradPasses, ThreadsGiveTheSameBits) {
  const int before = omp_get_max_threads();
  for (const Problem& p : {Problem(19, 40, 24, 14, 14, 1), Problem(2, 24, 130, 6, 6, 1)}) {
    omp_set_num_threads(1);
    Problem one = p;
    run(one, true);
    for (const int threads : {2, 3, 5}) {
      omp_set_num_threads(threads);
      Problem some = p;
      run(some, true);
      EXPECT_EQ(some.y.v, one.y.v);
      EXPECT_EQ(some.dx.v, one.dx.v);
      EXPECT_EQ(some.dw, one.dw);
    }
  }
  omp_set_num_threads(before);
}

TEST_F(WinogradPasses, AColumnDoesNotDependOnTheColumnsBeside) {
  Problem all(17, 72, 40, 9, 9, 1);
  const Problem parts = all;
  run(all, false);
  for (std::size_t n = 0; n < 17; ++n) {
    Problem one(1, 72, 40, 9, 9, 1);
    const auto column = [&](const Images& from, Images& to) {
      std::copy_n(from.v.begin() + static_cast<long>(n * from.floats()), to.v.size(), to.v.begin());
    };
    column(parts.x, one.x), column(parts.dy, one.dy);
    run(one, false);
    EXPECT_TRUE(std::equal(one.y.v.begin(), one.y.v.end(), all.y.v.begin() + static_cast<long>(n * one.y.v.size())));
    EXPECT_TRUE(
        std::equal(one.dx.v.begin(), one.dx.v.end(), all.dx.v.begin() + static_cast<long>(n * one.dx.v.size())));
  }
}

}  // namespace
}  // namespace tutti::winograd_test

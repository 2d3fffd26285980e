// SPDX-License-Identifier: Apache-2.0
// Memory, elementwise operations, reductions and criteria, on a GPU against the CPU.
#include "agreement.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tutti/graph_capture.h"

namespace tutti::agreement_test {
namespace {

// Numbers at which formulas change.
Floats with_edges(std::size_t n, unsigned seed) {
  Floats v = random(n, seed, -6, 6);
  constexpr float inf = std::numeric_limits<float>::infinity();
  const float edges[] = {0.0f,   -0.0f, 1.0f,  -1.0f,  0.5f,   -0.5f, 2.5f, 1e-30f, -1e-30f,
                         1e-40f, 88.3f, 89.0f, -87.3f, -90.0f, 1e30f, inf,  -inf};
  for (std::size_t i = 0; i < std::size(edges) && i * 3 < n; ++i) v[i * 3] = edges[i];
  return v;
}

constexpr std::size_t sizes[] = {0, 1, 31, 256, 1025};

TEST_F(Agreement, MemoryKeepsWhatItGets) {
  compare(0, [](Operands& d) {
    for (const std::size_t n : sizes) {
      float* x = d.put(random(n, 1));
      d.take(x, n);
      d.backend.fill(2.5f, x, n);
      d.take(x, n);
    }
  });
  // More than the pinned memory holds at once.
  const std::size_t many = (std::size_t{9} << 20) + 3;
  Floats big(many);
  for (std::size_t i = 0; i < many; ++i) big[i] = static_cast<float>(i % 1000003);
  Operands d(*gpu);
  d.take(d.put(big), many);
  EXPECT_TRUE(d.results == big);
}

// Of every size, one after the other into the same place while earlier values wait to be read: none overtakes.
TEST_F(Agreement, UploadsKeepTheOrder) {
  const std::size_t most = (std::size_t{5} << 20) + 3;  // more than a block of pinned memory
  Operands operands(*gpu);
  Floats values(most, 0.0f);
  float* x = operands.put(values);
  std::vector<std::pair<float*, std::size_t>> copies;
  unsigned round = 0;
  for (const std::size_t n : {most, std::size_t{1}, std::size_t{20000}, most, std::size_t{16384}, std::size_t{16383}}) {
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % 1000 + 1000 * round);
    gpu->upload(values.data(), x, n);
    std::fill(values.begin(), values.end(), -1.0f);  // may be reused at once
    float* copy = operands.put({0.0f, 0.0f});
    gpu->gather_columns(std::vector<std::int32_t>{0, static_cast<std::int32_t>(n - 1)}, 1, x, copy);
    copies.emplace_back(copy, n), ++round;
  }
  for (std::size_t r = 0; r < copies.size(); ++r) {
    float ends[2];
    gpu->download(copies[r].first, ends, 2);
    EXPECT_EQ(ends[0], static_cast<float>(1000 * r));
    EXPECT_EQ(ends[1], static_cast<float>((copies[r].second - 1) % 1000 + 1000 * r));
  }
}

TEST_F(Agreement, CallsAreRecordedAndRepeated) {
  auto* const capture = dynamic_cast<GraphCapture*>(gpu.get());
  ASSERT_TRUE(capture);
  constexpr std::size_t n = 1000;
  const Floats start = random(n, 1), other = random(n, 2);
  Operands operands(*gpu);
  float *x = operands.put(start), *y = operands.put(other), *z = operands.put(start);
  const auto values = [&](const float* p) {
    Floats v(n);
    gpu->download(p, v.data(), n);
    return v;
  };
  const auto work = [&] {
    gpu->map(UnaryOp::tanh, x, z, n);
    gpu->gemm({.m = 10, .n = 100, .k = 10, .lda = 10, .ldb = 100, .ldc = 100, .accumulate = true}, y, z, x);
  };
  work();
  const Floats once = values(x);
  work();
  const Floats twice = values(x);
  gpu->upload(start.data(), x, n);

  auto captured = capture->capture(work);
  ASSERT_TRUE(captured);
  EXPECT_EQ(values(x), start) << "noted, not made";
  EXPECT_TRUE(captured->launch());
  EXPECT_EQ(values(x), once);
  EXPECT_TRUE(captured->launch());
  EXPECT_EQ(values(x), twice);

  // The same calls with other places, and other calls.
  float* const first = std::exchange(x, operands.put(start));
  captured = capture->capture(work);
  ASSERT_TRUE(captured && captured->launch());
  EXPECT_EQ(values(x), once);
  EXPECT_EQ(values(first), twice);
  captured = capture->capture([&] { gpu->fill(3, y, n); });
  ASSERT_TRUE(captured && captured->launch());
  EXPECT_EQ(values(y), Floats(n, 3.0f));

  // What waits, or brings values of the host.
  EXPECT_FALSE(capture->capture([&] { gpu->synchronize(); }));
  EXPECT_FALSE(capture->capture([&] { gpu->fill(1, x, n), gpu->upload(start.data(), y, n); }));
  EXPECT_FALSE(capture->capture([&] { gpu->gather_columns(std::vector<std::int32_t>{1, 0}, 1, x, y); }));
  EXPECT_EQ(capture->obstacle(), "") << "that is by design";
  EXPECT_EQ(values(x), once);
  EXPECT_EQ(values(y), Floats(n, 3.0f));

  // Of a product that was never made an algorithm must be chosen before a capture.
  const auto product = [&] {
    gpu->gemm_bias({.m = 6, .n = 8, .k = 4, .lda = 4, .ldb = 8, .ldc = 8}, UnaryOp::relu, y, z, y, x, nullptr);
  };
  EXPECT_FALSE(capture->capture(product));
  EXPECT_EQ(capture->obstacle(), "an algorithm must be chosen before a capture");
  product();
  EXPECT_TRUE(capture->capture(product)) << capture->obstacle();

  captured = capture->capture(work);
  EXPECT_TRUE(captured && captured->launch());
  gpu->release(gpu->allocate(1));
  EXPECT_FALSE(captured->launch()) << "it might use memory that is gone";
}

TEST_F(Agreement, ConvolutionsAreCaptured) {
  auto* const capture = dynamic_cast<GraphCapture*>(gpu.get());
  const ImageWindow window{2, {5, 6, 1}, {5, 6, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 0}};
  constexpr std::size_t image = 2 * 4 * 30, weights = 9 * 4 * 4;
  const std::unique_ptr<ConvolutionPlan> plan =
      gpu->images().plan_convolution({.window = window, .columns = 2, .in_channels = 4, .out_channels = 4});
  Operands operands(*gpu);
  float *x = operands.put(random(image, 1)), *w = operands.put(random(weights, 2)), *y = operands.put(Floats(image)),
        *dx = operands.put(Floats(image)), *dw = operands.put(Floats(weights));
  const auto work = [&] {
    plan->forward(x, w, nullptr, y, false);
    plan->backward_data(y, w, dx, true);
    plan->backward_weights(x, y, dw, true);
  };
  const auto results = [&] {
    Operands reader(*gpu);
    reader.take(y, image), reader.take(dx, image), reader.take(dw, weights);
    gpu->fill(0, dx, image), gpu->fill(0, dw, weights);
    return reader.results;
  };
  work();
  const Floats told = results();
  const auto captured = capture->capture(work);
  ASSERT_TRUE(captured) << capture->obstacle();
  EXPECT_TRUE(captured->launch());
  EXPECT_EQ(results(), told);
}

TEST_F(Agreement, SharedMemoryIsSeenByBoth) {
  FloatBuffer x(1000, gpu->shared_memory());
  for (const float v : x.span()) ASSERT_EQ(v, 0.0f);
  for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i);
  gpu->map(UnaryOp::negate, x.data(), x.data(), x.size());
  gpu->synchronize();
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x.data()[i], -static_cast<float>(i));
}

TEST_F(Agreement, MoreMemoryThanIsFreeIsNotTaken) {
  constexpr std::size_t many = std::size_t{1} << 45;
  EXPECT_THROW(gpu->allocate(many), Error);
  EXPECT_THROW(FloatBuffer(many, gpu->shared_memory()), Error);
  gpu->release(gpu->allocate(1));
}

constexpr UnaryOp unary[] = {UnaryOp::copy,  UnaryOp::negate, UnaryOp::reciprocal, UnaryOp::sigmoid, UnaryOp::tanh,
                             UnaryOp::relu,  UnaryOp::exp,    UnaryOp::log,        UnaryOp::sqrt,    UnaryOp::abs,
                             UnaryOp::floor, UnaryOp::ceil,   UnaryOp::round,      UnaryOp::sin,     UnaryOp::cosine};

// The sine of the device's library differs in the last bit.
double bound_of(UnaryOp op) { return op == UnaryOp::sin || op == UnaryOp::cosine ? 1e-6 : 0; }

TEST_F(Agreement, Maps) {
  for (const UnaryOp op : unary)
    compare(bound_of(op), [op](Operands& d) {
      const bool periodic = bound_of(op) > 0;
      for (const std::size_t n : sizes) {
        const Floats values = periodic ? random(n, 7, -6, 6) : with_edges(n, 7);
        float *x = d.put(values), *y = d.put(values), *dy = d.put(random(n, 8)), *dx = d.put(random(n, 9));
        d.backend.map(op, x, y, n);
        d.take(y, n);
        for (const bool add : {false, true}) {
          d.backend.map_gradient(op, x, y, dy, dx, n, add);
          d.take(dx, n);
        }
        d.backend.map(op, x, x, n);
        d.take(x, n);
      }
    });
}

constexpr PointOp point[] = {PointOp::plus,      PointOp::minus,      PointOp::times,   PointOp::log_plus,
                             PointOp::less,      PointOp::equal,      PointOp::greater, PointOp::greater_equal,
                             PointOp::not_equal, PointOp::less_equal, PointOp::choose,  PointOp::clip,
                             PointOp::normalize, PointOp::denormalize};
std::size_t operands_of(PointOp op) { return op >= PointOp::choose ? 3 : 2; }

// size and strides, operand by operand; a repeated operand has strides of 0.
struct Shapes {
  std::vector<std::size_t> size;
  std::vector<std::vector<std::size_t>> stride;  // of three operands and the result
};
const std::vector<Shapes>& layouts() {
  static const std::vector<Shapes> all = {
      {{1000}, {{1}, {1}, {1}, {1}}},
      {{1000}, {{1}, {0}, {1}, {1}}},  // one number
      {{1001}, {{0}, {1}, {0}, {1}}},
      {{33, 70}, {{1, 33}, {1, 0}, {0, 1}, {1, 33}}},                      // a row, a column
      {{7, 5, 60}, {{1, 7, 35}, {1, 0, 7}, {0, 1, 0}, {1, 7, 35}}},        // axes in between
      {{40, 3, 2}, {{1, 40, 120}, {0, 0, 0}, {3, 1, 120}, {1, 40, 120}}},  // one number; transposed
      {{0, 4}, {{1, 0}, {1, 0}, {1, 0}, {1, 0}}},
      {{1}, {{0}, {0}, {0}, {1}}},
  };
  return all;
}
Layout layout_of(const Shapes& s) {
  Layout l;
  l.rank = s.size.size();
  for (std::size_t a = 0; a < l.rank; ++a) {
    l.size[a] = s.size[a];
    for (std::size_t k = 0; k < 4; ++k) l.stride[k][a] = s.stride[k][a];
  }
  return l;
}
constexpr std::size_t workspace = 33 * 70;

TEST_F(Agreement, Combinations) {
  for (const PointOp op : point)
    for (const Shapes& shapes : layouts())
      compare(2e-5, [&](Operands& d) {
        const Layout l = layout_of(shapes);
        const Floats positive = random(workspace, 3, 0.1f, 2);
        const std::vector<const float*> in = {
            d.put(op == PointOp::clip ? random(workspace, 1, -2, -1) : random(workspace, 1)),
            d.put(op == PointOp::clip ? random(workspace, 2, 1, 2) : random(workspace, 2)), d.put(positive)};
        const std::span<const float* const> used(in.data(), operands_of(op));
        float *y = d.put(Floats(workspace)), *dy = d.put(random(workspace, 4)), *dx = d.put(random(workspace, 5));
        d.backend.combine(op, l, used, y);
        d.take(y, workspace);
        for (std::size_t k = 0; k < used.size(); ++k)
          for (const bool add : {true, false}) {
            d.backend.combine_gradient(op, k, l, used, dy, dx, add);
            d.take(dx, workspace);
          }
      });
}

TEST_F(Agreement, CombinationsOfEqualShapesHaveTheSameBits) {
  for (const PointOp op : point)
    compare(0, [&](Operands& d) {
      Layout l;
      l.rank = 1, l.size[0] = 777;
      for (auto& s : l.stride) s[0] = 1;
      const std::vector<const float*> in = {d.put(with_edges(777, 1)), d.put(with_edges(777, 2)),
                                            d.put(random(777, 3))};
      const std::span<const float* const> used(in.data(), operands_of(op));
      float *y = d.put(Floats(777)), *dy = d.put(random(777, 4));
      d.backend.combine(op, l, used, y);
      d.take(y, 777);
      for (std::size_t k = 0; k < used.size(); ++k) {
        d.backend.combine_gradient(op, k, l, used, dy, y, false);
        d.take(y, 777);
      }
    });
}

TEST_F(Agreement, BiasAndActivation) {
  for (const UnaryOp op : {UnaryOp::copy, UnaryOp::relu, UnaryOp::sigmoid, UnaryOp::tanh})
    for (const auto& [rows, n] :
         {std::pair<std::size_t, std::size_t>{1, 1}, {3, 40}, {127, 33}, {128, 64}, {129, 10}, {1000, 70}})
      compare(1e-4, [&, rows = rows, n = n](Operands& d) {
        float *y = d.put(random(rows * n, 1)), *bias = d.put(random(n, 2)), *dy = d.put(random(rows * n, 3));
        float* dbias = d.put(random(n, 4));
        d.backend.bias_activation(op, rows, n, bias, y);
        d.take(y, rows * n);
        d.backend.bias_activation_gradient(op, rows, n, y, dy, dbias, true);
        d.take(dy, rows * n), d.take(dbias, n);
        d.backend.bias_activation_gradient(op, rows, n, y, dy, dbias, false);
        d.take(dy, rows * n), d.take(dbias, n);
        d.backend.bias_activation_gradient(op, rows, n, y, dy, nullptr, false);
        d.take(dy, rows * n);
      });
}

// Samples whose numbers are far from those of their columns.
DropoutMask mask_in(Operands& d, std::size_t columns, std::size_t elements, float rate) {
  std::vector<std::int64_t> samples(columns);
  for (std::size_t c = 0; c < columns; ++c) samples[c] = 1234567890 + static_cast<std::int64_t>(c % 4 < 2 ? c : 7 * c);
  return {d.put_numbers(std::uint64_t{77}), d.put_all(samples), elements, rate};
}

TEST_F(Agreement, DropoutDropsTheSame) {
  compare(0, [](Operands& d) {
    for (const std::size_t n : sizes)
      for (const std::size_t columns : {1, 9})
        for (const bool add : {false, true}) {
          const std::size_t count = columns * n;
          float *x = d.put(random(count, 1)), *y = d.put(random(count, 2));
          d.backend.dropout(mask_in(d, columns, n, 0.3f), x, y, count, add);
          d.take(y, count);
          d.backend.dropout(mask_in(d, columns, n, 0.0f), x, x, count, false);
          d.take(x, count);
        }
  });
}

TEST_F(Agreement, DropoutOfChannelsSideBySideIsThatOfPlainImages) {
  constexpr std::size_t columns = 3, pixels = 10;
  for (const std::size_t channels : {1, 3, 8, 20}) {
    const std::size_t n = columns * channels * pixels;
    const auto last = [&](std::size_t i) {
      const std::size_t pixel = i / channels;
      return (pixel / pixels * channels + i % channels) * pixels + pixel % pixels;
    };
    const Floats plain = random(n, 1);
    Floats turned(n);
    for (std::size_t i = 0; i < n; ++i) turned[i] = plain[last(i)];
    const auto dropped = [&](Backend& backend, const Floats& image, std::size_t block) {
      return run(backend, [&](Operands& d) {
        float* x = d.put(image);
        DropoutMask mask = mask_in(d, columns, channels * pixels, 0.3f);
        mask.block = block, mask.channels = channels, mask.pixels = pixels;
        d.backend.dropout(mask, x, x, n, false);
        d.take(x, n);
      });
    };
    const Floats expected = dropped(*cpu, plain, 0), got = dropped(*gpu, turned, channels);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(got[i], expected[last(i)]) << channels << ": " << i;
  }
}

TEST_F(Agreement, ColumnsByNumbersOfTheDevice) {
  compare(0, [](Operands& d) {
    const Floats x = random(7 * 5, 1), y = random(6 * 5, 2);
    float *from = d.put(x), *to = d.put(y);
    d.backend.replace_columns(d.put_numbers(std::array<std::int32_t, 6>{3, -1, 0, 6, -1, 3})->data(), 6, 5, from, to);
    d.take(to, y.size());
    EXPECT_TRUE(std::equal(x.begin() + 15, x.begin() + 20, d.results.begin()));
    EXPECT_TRUE(std::equal(y.begin() + 5, y.begin() + 10, d.results.begin() + 5)) << "stays";
  });
}

TEST_F(Agreement, Copies) {
  struct Case {
    std::vector<std::size_t> size, from, to;
  };
  const std::vector<Case> cases = {{{100}, {1}, {1}},
                                   {{100}, {0}, {1}},
                                   {{40, 65}, {1, 40}, {65, 1}},
                                   {{33, 20}, {1, 50}, {1, 33}},
                                   {{5, 6, 7}, {42, 7, 1}, {1, 5, 30}},
                                   {{9, 0}, {1, 9}, {1, 9}}};
  const std::vector<Case> sums = {{{100, 40}, {1, 100}, {1, 0}},
                                  {{100, 40}, {1, 100}, {0, 1}},
                                  {{3000}, {1}, {0}},
                                  {{6, 5, 4}, {1, 6, 30}, {1, 0, 6}},
                                  {{2, 700}, {1, 2}, {0, 0}}};
  const auto layout = [](const Case& c) {
    Layout l;
    l.rank = c.size.size();
    for (std::size_t a = 0; a < l.rank; ++a)
      l.size[a] = c.size[a], l.stride[0][a] = c.from[a], l.stride[3][a] = c.to[a];
    return l;
  };
  for (const Case& c : cases)
    compare(0, [&](Operands& d) {
      for (const bool add : {false, true}) {
        float *x = d.put(random(4000, 1)), *y = d.put(random(4000, 2));
        d.backend.copy(layout(c), x, y, add);
        d.take(y, 4000);
      }
    });
  for (const Case& c : sums)
    compare(1e-5, [&](Operands& d) {
      float *x = d.put(random(4000, 1)), *y = d.put(random(4000, 2));
      d.backend.copy(layout(c), x, y, true);
      d.take(y, 4000);
    });
}

TEST_F(Agreement, ColumnsByNumber) {
  compare(0, [](Operands& d) {
    const std::vector<std::int32_t> list = {3, -1, 0, 3, 7, 3, 0, -1};
    for (const std::size_t width : {1, 5, 300}) {
      float *x = d.put(random(8 * width, 1)), *y = d.put(random(8 * width, 2));
      d.backend.gather_columns(list, width, x, y);
      d.take(y, 8 * width);
      d.backend.scatter_columns(list, width, y, x);
      d.take(x, 8 * width);
      d.backend.gather_columns({}, width, x, y);
      d.backend.scatter_columns({}, width, y, x);
      d.take(x, 8 * width);
    }
  });
}

// Lines for a thread, a warp and a block; one that hardly fills any of them.
const std::vector<Extent>& extents() {
  static const std::vector<Extent> all = {{1, 1, 1},    {70, 10, 1}, {3, 100, 40}, {5, 33, 2},
                                          {5, 2051, 1}, {300, 1, 1}, {0, 7, 1}};
  return all;
}

TEST_F(Agreement, Reductions) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::log_sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max})
    for (const Extent& e : extents())
      compare(1e-5, [&](Operands& d) {
        const std::size_t lines = e.outer * e.inner;
        float *x = d.put(random(e.count(), 1)), *y = d.put(random(lines, 2)), *dy = d.put(random(lines, 3)),
              *dx = d.put(random(e.count(), 4));
        d.backend.reduce(op, e, x, y);
        d.take(y, lines);
        // The gradients of minimum and maximum compare with the result itself.
        for (const bool add : {true, false}) {
          d.backend.reduce_gradient(op, e, x, y, dy, dx, add);
          d.take(dx, e.count());
        }
      });
}

TEST_F(Agreement, Softmaxes) {
  for (const SoftmaxOp op : {SoftmaxOp::softmax, SoftmaxOp::log_softmax, SoftmaxOp::hardmax})
    for (const Extent& e : extents())
      compare(1e-5, [&](Operands& d) {
        Floats values = random(e.count(), 1);
        if (op == SoftmaxOp::hardmax)
          for (auto& v : values) v = std::round(v);  // ties
        float *x = d.put(values), *y = d.put(random(e.count(), 2)), *dy = d.put(random(e.count(), 3)),
              *dx = d.put(random(e.count(), 4));
        d.backend.softmax(op, e, x, y);
        d.take(y, e.count());
        for (const bool add : {true, false}) {
          d.backend.softmax_gradient(op, e, y, dy, dx, add);
          d.take(dx, e.count());
        }
      });
}

TEST_F(Agreement, NumbersThatAreNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Extent e{3, 50, 1};
  Floats values = random(e.count(), 1), labels(e.count());
  values[20] = nan, values[50] = nan;
  for (std::size_t line = 0; line < 3; ++line) labels[line * 50 + 3] = 1;
  compare(1e-5, [&](Operands& d) {
    float *x = d.put(values), *y = d.put(Floats(e.count()));
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::log_sum, ReduceOp::min, ReduceOp::max}) {
      d.backend.reduce(op, e, x, y);
      d.take(y, 3);
    }
    d.backend.softmax(SoftmaxOp::hardmax, e, x, y);
    d.take(y, e.count());
  });
  const auto sums = gpu->make_sums(1);
  Operands d(*gpu);
  const std::vector<const float*> in = {d.put(labels), d.put(values)};
  gpu->loss({.op = LossOp::cross_entropy_with_softmax, .extent = e}, in, d.put(Floats(e.count())), sums.get(),
            d.put(Floats(1)));
  gpu->synchronize();
  EXPECT_TRUE(std::isnan(sums[0]));
  // One word of a large class, of which a thread has several.
  Floats weight(600, 1.0f);
  weight[10] = nan;
  const ClassLoss words{1, 1, 600, 1, d.put({0, 0, 0, 600}), d.put({1}), d.put(weight), d.put({1})};
  gpu->class_loss(words, d.put(Floats(4)), sums.get(), d.put(Floats(1)));
  gpu->synchronize();
  EXPECT_TRUE(std::isnan(sums[0]));
}

// A kernel may still write to pinned memory when its last owner goes.
TEST_F(Agreement, SumsAreGivenUpBehindWhatWritesThem) {
  const auto sums = gpu->make_sums(4);
  gpu->keep_sums(sums.get(), 4, 0, gpu->make_sums(4).get());
  gpu->synchronize();
}

constexpr LossOp losses[] = {LossOp::cross_entropy_with_softmax,
                             LossOp::classification_error,
                             LossOp::cross_entropy,
                             LossOp::square_error,
                             LossOp::logistic,
                             LossOp::weighted_logistic,
                             LossOp::sum,
                             LossOp::sum_abs};

TEST_F(Agreement, Criteria) {
  for (const LossOp op : losses)
    for (const Extent& e : extents())
      for (const std::size_t top : {1, 3})
        compare(1e-4, [&](Operands& d) {
          const std::size_t n = e.count(), sample = e.size * e.inner;
          const bool probabilities =
              op == LossOp::cross_entropy || op == LossOp::logistic || op == LossOp::weighted_logistic;
          Floats labels = random(n, 1);
          if (probabilities || op == LossOp::cross_entropy_with_softmax)
            for (auto& l : labels) l = l > 1 ? 1.0f : 0.0f;
          const std::vector<const float*> in = {d.put(labels),
                                                d.put(probabilities ? random(n, 2, 0.01f, 0.99f) : random(n, 2)),
                                                d.put(random(top == 1 ? e.outer : n, 3, 0.1f, 2))};
          const std::size_t operands = op == LossOp::weighted_logistic ? 3 : op >= LossOp::sum ? 1 : 2;
          const std::span<const float* const> used(in.data(), operands);
          Loss loss{.op = op, .extent = e, .top = top};
          loss.weight_size = top == 1 ? 1 : sample;
          const auto sums = d.backend.make_sums(2);
          float *work = d.put(Floats(n)), *y = d.put(Floats(1)), *dy = d.put({1.5f}), *dx = d.put(random(n, 5));
          d.backend.loss(loss, used, work, &sums[1], y);
          const auto event = d.backend.record_event();
          d.take(y, 1);
          d.backend.synchronize(event);
          d.results.push_back(static_cast<float>(sums[1]));
          for (std::size_t k = 0; k < used.size(); ++k) {
            d.backend.loss_gradient(loss, k, used, work, dy, dx, k == 1);
            d.take(dx, n);
          }
        });
}

TEST_F(Agreement, WordsInClasses) {
  struct Sizes {
    std::size_t columns, hidden, words, classes;
  };
  for (const Sizes s : {Sizes{0, 3, 4, 2}, Sizes{1, 1, 1, 1}, Sizes{7, 5, 9, 4}, Sizes{300, 40, 1500, 6}})
    compare(1e-4, [&](Operands& d) {
      Floats labels;
      for (std::size_t c = 0; c < s.columns; ++c) {
        const std::size_t word = c * 131 % s.words, size = (s.words + s.classes - 1) / s.classes;
        const std::size_t word_class = word / size, first = word_class * size;
        for (const std::size_t v : {word, word_class, first, std::min(first + size, s.words)})
          labels.push_back(static_cast<float>(v));
      }
      if (s.columns > 5) labels[4 * 5] = static_cast<float>(s.words);  // no such word: not a number, without a gradient
      const ClassLoss l{s.columns,
                        s.hidden,
                        s.words,
                        s.classes,
                        d.put(labels),
                        d.put(random(s.columns * s.hidden, 1)),
                        d.put(random(s.hidden * s.words, 2)),
                        d.put(random(s.columns * s.classes, 3))};
      Backend& backend = d.backend;
      const auto sums = d.backend.make_sums(1);
      float *work = d.put(Floats(labels.size())), *y = d.put(Floats(1)), *dy = d.put({1.5f});
      backend.class_loss(l, work, sums.get(), y);
      d.take(y, 1);
      for (const auto& [operand, size] : {std::pair{ClassLoss::Operand::state, s.columns * s.hidden},
                                          std::pair{ClassLoss::Operand::weight, s.words * s.hidden},
                                          std::pair{ClassLoss::Operand::scores, s.columns * s.classes}})
        for (const bool add : {false, true}) {
          float* dx = d.put(random(size, 5));
          backend.class_loss_gradient(l, operand, work, dy, dx, add);
          d.take(dx, size);
        }
    });
}

TEST_F(Agreement, PredictionsOfNothing) {
  const Extent e{1, 5, 1};
  compare(0, [&](Operands& d) {
    const std::vector<const float*> in = {d.put({1, 1, 1, 1, 0}), d.put({0.0f, -0.0f, 1e-35f, -1e-35f, -0.0f})};
    float* dx = d.put(Floats(5));
    d.backend.loss_gradient({.op = LossOp::cross_entropy, .extent = e}, 1, in, nullptr, d.put({1}), dx, false);
    d.take(dx, 5);
  });
}

TEST_F(Agreement, DevicesThatAreNotThere) {
  EXPECT_THROW(make_backend("cuda:99"), Error);
  EXPECT_THROW(make_backend("cuda:"), Error);
  EXPECT_THROW(make_backend("cuda:x"), Error);
  EXPECT_TRUE(supports("cuda:0", ComputeType::float16));
  EXPECT_FALSE(supports("cpu", ComputeType::float16));
}

}  // namespace
}  // namespace tutti::agreement_test

// SPDX-License-Identifier: Apache-2.0
// Products, recurrent cells and the operations on images, on a GPU against the CPU.
#include <algorithm>
#include <span>

#include "agreement.h"
#include "tutti/graph_capture.h"

namespace tutti::agreement_products_test {
namespace {

TEST_F(Agreement, Products) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true})
        for (const auto& [m, n, k] : {std::tuple<std::size_t, std::size_t, std::size_t>{1, 1, 1},
                                      {17, 5, 33},
                                      {64, 64, 64},
                                      {2, 100, 3},
                                      {0, 3, 4}})
          compare(1e-4, [&, m = m, n = n, k = k](Operands& d) {
            Gemm g{.transpose_a = ta, .transpose_b = tb, .m = m, .n = n, .k = k};
            g.lda = (ta ? m : k) + 2, g.ldb = (tb ? k : n) + 1, g.ldc = n + 3, g.accumulate = accumulate;
            const std::size_t most = 110 * 110;
            float *a = d.put(random(most, 1)), *b = d.put(random(most, 2)), *c = d.put(random(most, 3));
            d.backend.gemm(g, a, b, c);
            d.take(c, most);
          });
}

// Whole numbers, which products add up exactly in any order: so no ReLU turns because of rounding.
Floats whole(std::size_t n, unsigned seed, float behind_the_point = 0) {
  Floats v = random(n, seed, -3.5f, 3.5f);
  for (float& x : v) x = std::round(x) + behind_the_point;
  return v;
}

TEST_F(Agreement, ProductsWithBiasAndRelu) {
  for (const auto& [m, n, k] : {std::tuple<std::size_t, std::size_t, std::size_t>{1, 1, 1},
                                {17, 5, 33},
                                {64, 128, 64},
                                {3, 260, 7},
                                {700, 400, 400}})
    for (const UnaryOp op : {UnaryOp::copy, UnaryOp::relu})
      for (const bool masks : {false, true})
        compare(1e-6, [&, m = m, n = n, k = k](Operands& d) {
          const Gemm g{.m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n};
          float *a = d.put(whole(m * k + 4, 1)), *b = d.put(whole(k * n + 4, 2)), *bias = d.put(whole(n, 3, 0.5f));
          float *y = d.put(random(m * n + 4, 4)), *mask = d.put(Floats(m * Backend::mask_floats(n) + 4));
          d.backend.gemm_bias(g, op, a, b, bias, y, masks ? mask : nullptr);
          d.take(y, m * n);
          if (op == UnaryOp::copy) return;
          const Gemm back{.transpose_b = true, .m = m, .n = n, .k = k, .lda = k, .ldb = k, .ldc = n};
          float *dy = d.put(whole(m * k + 4, 5)), *dx = d.put(random(m * n + 4, 6)), *sums = d.put(random(n, 7));
          for (float* to : {sums, static_cast<float*>(nullptr)}) {
            d.backend.gemm_relu_gradient(back, dy, b, y, masks ? mask : nullptr, dx, to);
            d.take(dx, m * n), d.take(sums, n);
          }
        });
}

// Numbers that round when they are added up: who adds them in another order gives other bits.
TEST_F(Agreement, SumsBehindProductsComeOutTheSameEveryTime) {
  const std::size_t m = 1000, n = 192, k = 160;
  compare(5e-2, [&](Operands& d) {
    const Gemm g{.m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n};
    float *a = d.put(whole(m * k, 1)), *b = d.put(whole(k * n, 2)), *bias = d.put(whole(n, 3, 0.5f));
    float *y = d.put(Floats(m * n)), *mask = d.put(Floats(m * Backend::mask_floats(n)));
    d.backend.gemm_bias(g, UnaryOp::relu, a, b, bias, y, mask);
    const Gemm back{.transpose_b = true, .m = m, .n = n, .k = k, .lda = k, .ldb = k, .ldc = n};
    float *dy = d.put(random(m * k, 4)), *dx = d.put(Floats(m * n)), *sums = d.put(Floats(n));
    d.backend.gemm_relu_gradient(back, dy, b, y, mask, dx, sums);
    d.take(dx, m * n), d.take(sums, n);
    const Gemm weights{.transpose_a = true, .m = k, .n = n, .k = m, .lda = k, .ldb = n, .ldc = n};
    float* dw = d.put(Floats(k * n));
    d.backend.gemm(weights, a, dx, dw);
    d.take(dw, k * n);
  });
}

// A capture of a size for which the library writes no mask, repeated after another size for which it has.
TEST_F(Agreement, MasksBelongToASize) {
  const std::size_t n = 128, k = 16;
  compare(1e-6, [&](Operands& d) {
    float *a = d.put(whole(k, 1)), *others = d.put(whole(3 * k, 2)), *b = d.put(whole(k * n, 3));
    float *bias = d.put(whole(n, 4, 0.5f)), *y = d.put(Floats(3 * n)),
          *mask = d.put(Floats(3 * Backend::mask_floats(n)));
    const auto forward = [&](std::size_t m, const float* of) {
      d.backend.gemm_bias({.m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n}, UnaryOp::relu, of, b, bias, y, mask);
    };
    forward(1, a);
    auto* const capture = dynamic_cast<GraphCapture*>(&d.backend);
    const auto captured = capture ? capture->capture([&] { forward(1, a); }) : nullptr;
    forward(3, others);
    if (!captured || !captured->launch()) forward(1, a);
    float *dy = d.put(whole(k, 5)), *dx = d.put(Floats(n)), *sums = d.put(Floats(n));
    const Gemm back{.transpose_b = true, .m = 1, .n = n, .k = k, .lda = k, .ldb = k, .ldc = n};
    d.backend.gemm_relu_gradient(back, dy, b, y, mask, dx, sums);
    d.take(dx, n), d.take(sums, n);
  });
}

TEST_F(Agreement, ProductsRoundTheirOperands) {
  const std::size_t n = 64;
  const Gemm g{.m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n};
  const auto product = [&](Backend& backend) {
    return run(backend, [&](Operands& d) {
      float *a = d.put(random(n * n, 1)), *b = d.put(random(n * n, 2)), *c = d.put(Floats(n * n));
      d.backend.gemm(g, a, b, c);
      d.take(c, n * n);
    });
  };
  const Floats exact = product(*cpu);
  for (const auto& [type, bits] :
       {std::pair{ComputeType::tf32, 10}, {ComputeType::bfloat16, 7}, {ComputeType::float16, 10}}) {
    const auto backend = make_backend("cuda:0", type);
    EXPECT_EQ(backend->compute_type(), type);
    const Floats rounded = product(*backend);
    double worst = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, std::abs(double{exact[i]} - rounded[i]));
    EXPECT_LT(worst, 64 * 8 * std::ldexp(1, -bits - 1)) << backend->name();
    EXPECT_GT(worst, 0) << backend->name();
  }
}

// Chunks of weights begin anywhere.
TEST_F(Agreement, ProductsTakeOperandsThatTensorCoresDoNot) {
  const std::size_t n = 24;
  const Gemm g{.m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n};
  const Floats a = whole(n * n, 1), b = whole(n * n + 1, 2);
  const auto product = [&](Backend& backend) {
    return run(backend, [&](Operands& d) {
      float* c = d.put(Floats(n * n));
      d.backend.gemm(g, d.put(a), d.put(b) + 1, c);
      d.take(c, n * n);
    });
  };
  for (const ComputeType type : {ComputeType::tf32, ComputeType::bfloat16, ComputeType::float16})
    EXPECT_EQ(product(*make_backend("cuda:0", type)), product(*cpu));
}

// Sums of whole numbers are exact in any order; one that is not finite shows.
TEST_F(Agreement, ScaledNumbersAndTheirSize) {
  for (const std::size_t n : {0, 1, 6, 4096, 100004})
    for (const std::size_t first : {0, 1})
      for (const bool finite : {true, false})
        compare(0, [&](Operands& d) {
          Floats values = whole(n + first, 1);
          if (!finite && n > 0) values[first + n / 2] = -HUGE_VALF;
          float* x = d.put(values);
          const auto sums = d.backend.make_sums(1);
          d.backend.scale(0.25f, x + first, n, sums.get());
          d.backend.synchronize();
          EXPECT_EQ(std::isfinite(sums[0]), finite || n == 0);
          d.results.push_back(static_cast<float>(sums[0]));
          d.backend.scale(2, x + first, n, nullptr);
          d.take(x, n + first);
        });
}

TEST_F(Agreement, SparseInputs) {
  const std::vector<std::int32_t> indices = {9, 9, 2, 0, 4, 2, 4, 4, 1, 7};
  const Floats values = random(indices.size(), 1);
  const std::vector<std::int64_t> begin = {0, 2, 5, 5, 9, 10};  // the third column is empty
  for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
    const SparseView x{5 - first, values.data(), indices.data(), begin.data() + first};
    for (const bool transposed : {false, true})
      compare(0, [&](Operands& d) {
        const std::size_t out = 37, dim = 10;
        const SparseWeight s{out, transposed ? 1 : out, transposed ? dim : 1};
        float *w = d.put(random(out * dim, 2)), *y = d.put(random(out * 5, 3)), *dense = d.put(random(dim * 5, 4));
        d.backend.sparse_times(x, s, w, y);
        d.take(y, out * 5);
        d.backend.sparse_times_gradient(x, s, y, w);
        d.take(w, out * dim);
        d.backend.densify(x, dim, dense);
        d.take(dense, dim * 5);
      });
  }
}

TEST_F(Agreement, ClearedLines) {
  const std::vector<std::uint32_t> lines = {0, 3, 4, 12};
  for (const bool rows : {false, true})
    for (const std::size_t listed : {0, 1, 4})
      compare(0, [&](Operands& d) {
        Slice s;
        s.offset = 16, s.rows = rows ? 13 : 300, s.columns = rows ? 300 : 13;
        s.sparse_gradient = true, s.sparse_by_row = rows;
        const Floats values = random(s.offset + s.size() + 1, 1);
        FloatBuffer gradients(values.size(), d.backend.shared_memory());
        std::copy(values.begin(), values.end(), gradients.data());
        d.backend.clear_sparse_rows(s, std::span(lines).first(listed), gradients);
        d.backend.synchronize();
        const auto left = gradients.span();
        d.results.assign(left.begin(), left.end());
        EXPECT_EQ(std::count(left.begin(), left.end(), 0.0f), static_cast<long>(listed * 300));
      });
}

TEST_F(Agreement, LstmSteps) {
  for (const bool stands : {false, true})
    for (const std::size_t cells : {1, 16, 37})
      compare(0, [&](Operands& d) {
        const std::size_t rows = 7, n = rows * cells;
        LstmRows r{.rows = rows, .cells = cells};
        r.projected = d.put(random(4 * n, 1)), r.from_state = d.put(random(4 * n, 2));
        r.from_state_step = stands ? 0 : 4 * cells, r.cell_before_step = stands ? 0 : cells;
        r.cell_before = d.put(random(n, 3));
        r.gates = d.put(Floats(4 * n)), r.cell = d.put(Floats(n)), r.output = d.put(Floats(n));
        d.backend.lstm_step(r);
        d.take(r.gates, 4 * n), d.take(r.cell, n), d.take(r.output, n);
        LstmRowsGradient g{.rows = rows, .cells = cells, .gates = r.gates, .cell_before = r.cell_before};
        g.cell_before_step = r.cell_before_step, g.cell = r.cell;
        g.output_gradient = d.put(random(n, 4)), g.cell_gradient = d.put(random(n, 5));
        g.gates_gradient = d.put(Floats(4 * n)), g.cell_before_gradient = d.put(Floats(n));
        d.backend.lstm_step_gradient(g);
        d.take(g.gates_gradient, 4 * n), d.take(g.cell_before_gradient, n);
      });
}

TEST_F(Agreement, GruSteps) {
  for (const CellKind kind : {CellKind::gru_reset_before, CellKind::gru_reset_after})
    for (const bool stands : {false, true})
      for (const bool biased : {false, true})
        for (const std::size_t cells : {1, 16, 37})
          compare(0, [&](Operands& d) {
            const std::size_t rows = 7, n = rows * cells;
            const bool before = kind == CellKind::gru_reset_before;
            GruRows r{.kind = kind, .rows = rows, .cells = cells};
            r.projected = d.put(random(3 * n, 1)), r.from_state = d.put(random(3 * n, 2));
            r.from_state_step = stands ? 0 : 3 * cells, r.output_before_step = stands ? 0 : cells;
            r.output_before = d.put(random(n, 3));
            if (biased && !before) r.state_bias = d.put(random(3 * cells, 4));
            r.gates = d.put(Floats(3 * n)), r.inner = d.put(Floats(n)), r.output = d.put(Floats(n));
            if (before) d.backend.gru_reset(r);
            d.backend.gru_step(r);
            d.take(r.gates, 3 * n), d.take(r.inner, n), d.take(r.output, n);
            GruRowsGradient g{.kind = kind, .rows = rows, .cells = cells, .gates = r.gates, .inner = r.inner};
            g.output_before = r.output_before, g.output_before_step = r.output_before_step;
            g.output_gradient = d.put(random(n, 5)), g.carried_gradient = d.put(random(n, 6));
            g.gates_gradient = d.put(Floats(3 * n)), g.output_before_gradient = d.put(Floats(n));
            if (before) g.reset_gradient = d.put(random(n, 7));
            if (!before) g.from_state_gradient = d.put(Floats(3 * n));
            d.backend.gru_step_gradient(g);
            if (before) d.backend.gru_reset_gradient(g);
            d.take(g.gates_gradient, 3 * n), d.take(g.output_before_gradient, n);
            if (!before) d.take(g.from_state_gradient, 3 * n);
          });
}

// Two windows: with padding on both sides, and on one side only.
std::vector<ImageWindow> windows() {
  return {{2, {9, 8, 1}, {9, 8, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 0}},
          {2, {8, 8, 1}, {4, 4, 1}, {3, 3, 1}, {2, 2, 1}, {0, 0, 0}}};
}

// Where it may be taken the transform of Winograd, whose error is that of the largest numbers, counts for the rest.
TEST_F(Agreement, Convolutions) {
  for (const ImageWindow& w : windows())
    for (const auto& [groups, fused, winograd] : {std::tuple<std::size_t, bool, bool>{1, false, false},
                                                  {1, true, false},
                                                  {2, false, false},
                                                  {2, true, false},
                                                  {1, false, true},
                                                  {1, true, true}})
      compare(winograd ? 2e-3 : 1e-4, [&, groups = groups, fused = fused, winograd = winograd](Operands& d) {
        ConvolutionShape s;
        s.window = w, s.columns = 5, s.in_channels = 16, s.out_channels = 8, s.groups = groups;
        s.bias = s.relu = fused, s.winograd = winograd;
        const std::size_t large = 5 * 16 * ImageWindow::product(w.in), small = 5 * 8 * ImageWindow::product(w.out),
                          weights = 9 * 16 / groups * 8;
        float *x = d.put(random(large, 1)), *k = d.put(random(weights, 2)), *bias = d.put(random(8, 3)),
              *y = d.put(random(small, 4)), *dy = d.put(random(small, 5));
        const auto plan = d.backend.images().plan_convolution(s);
        for (const bool add : {false, true}) {
          if (fused && add) continue;
          plan->forward(x, k, fused ? bias : nullptr, y, add);
          d.take(y, small);
          if (fused) continue;
          float *dx = d.put(random(large, 6)), *dk = d.put(random(weights, 7));
          plan->backward_data(dy, k, dx, add);
          plan->backward_weights(x, dy, dk, add);
          d.take(dx, large), d.take(dk, weights);
        }
      });
}

TEST_F(Agreement, PoolingsAndNormalizations) {
  for (const ImageWindow& w : windows())
    for (const PoolingOp op : {PoolingOp::max, PoolingOp::average})
      compare(1e-5, [&](Operands& d) {
        PoolingShape s;
        s.op = op, s.window = w, s.columns = 3, s.channels = 5;
        const std::size_t large = 15 * ImageWindow::product(w.in), small = 15 * ImageWindow::product(w.out);
        float *x = d.put(random(large, 1)), *y = d.put(Floats(small)), *dy = d.put(random(small, 2)),
              *dx = d.put(random(large, 3)), *work = d.put(Floats(small + 16));
        const auto plan = d.backend.images().plan_pooling(s);
        plan->forward(x, y, work);
        plan->backward(dy, work, dx, true);
        d.take(y, small), d.take(dx, large);
      });
  for (const ImageExtent extent : {ImageExtent{6, 5, 49}, ImageExtent{33, 8, 64}, ImageExtent{7, 12, 1}})
    for (const bool training : {false, true})
      compare(1e-4, [&](Operands& d) {
        const std::size_t c = extent.channels, n = extent.columns * c * extent.pixels;
        BatchNormalization op;
        op.extent = extent, op.relu = op.add = true;
        if (training) op.weights = d.put_numbers(NormalizationWeights{0, 0.5});
        float *x = d.put(random(n, 1)), *more = d.put(random(n, 2)), *y = d.put(Floats(n)), *dy = d.put(random(n, 3)),
              *dx = d.put(random(n, 4)), *dmore = d.put(random(n, 5)), *of_channels = d.put(random(6 * c, 6, 0.5f, 2)),
              *work = d.put(Floats(4 * (c + 16)));
        const NormalizationParameters of{of_channels, of_channels + c, of_channels + 2 * c, of_channels + 3 * c};
        d.backend.images().normalize(op, of, x, more, y, work);
        d.take(y, n);
        d.backend.images().normalize_gradient(
            op, of, x, y, dy, work, {dx, dmore, of_channels + 4 * c, of_channels + 5 * c, true, false, true, false});
        d.take(dx, n), d.take(dmore, n), d.take(of_channels, 6 * c);
        ResponseNormalization response;
        response.extent = extent, response.radius = 2, response.alpha = 0.25;
        float *r = d.put(Floats(n)), *kept = d.put(Floats(n)), *bias = d.put(random(c, 7));
        d.backend.images().respond(response, x, r, kept);
        d.backend.images().respond_gradient(response, x, r, dx, kept, dmore, true);
        d.backend.images().bias_relu_gradient(extent, y, dx, bias, true);
        d.take(r, n), d.take(dmore, n), d.take(dx, n), d.take(bias, c);
      });
}

}  // namespace
}  // namespace tutti::agreement_products_test

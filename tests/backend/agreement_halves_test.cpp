// SPDX-License-Identifier: Apache-2.0
// Images of 16 bits against the same ones in float32: kernels compute in float32 and round once, so that from values
// which are exact in 16 bits comes what float32 gives, rounded. Convolutions are the library's and only come near.
#include <algorithm>
#include <functional>
#include <numeric>

#include "agreement.h"

namespace tutti::agreement_halves_test {
namespace {

// Values, as floats or in 16 bits, in the memory of a backend.
class Halves : public testing::TestWithParam<ComputeType> {
 protected:
  void SetUp() override {
    if (skipped_without_gpu()) return;
    gpu = make_backend("cuda:0", GetParam());
    half = gpu->images().element();
    ASSERT_NE(half, Element::float32);
  }

  class Values {
   public:
    Values(Backend& b, Element e) : backend(b), element(e), desk_(b) {}
    float* put(const Floats& values) {
      float* const floats = desk_.put(values);
      if (element == Element::float32) return floats;
      float* const halves = desk_.put(Floats(floats_of(element, values.size())));
      backend.images().reorder(extent(values.size()), extent(values.size(), element), floats, halves, false);
      return halves;
    }
    // Numbers of channels, and what kernels keep for themselves, are floats in each case.
    float* put_floats(const Floats& values) { return desk_.put(values); }
    template <class T>
    const T* put_numbers(const T& numbers) {
      return desk_.put_numbers(numbers);
    }
    template <class T>
    const T* put_all(const std::vector<T>& numbers) {
      return desk_.put_all(numbers);
    }
    Floats take(const float* p, std::size_t n) {
      float* const floats = desk_.put(Floats(n));
      backend.images().reorder(extent(n, element), extent(n), p, floats, false);
      return taken(floats, n);
    }
    Floats taken(const float* floats, std::size_t n) {
      Floats values(n);
      backend.download(floats, values.data(), n);
      return values;
    }
    Backend& backend;
    const Element element;

   private:
    static ImageExtent extent(std::size_t n, Element e = Element::float32) { return {1, n, 1, Format::blocked, e}; }
    Operands desk_;
  };

  Floats rounded(const Floats& v) {
    Values halves(*gpu, half);
    return halves.take(halves.put(v), v.size());
  }
  // Exact in 16 bits, with zeros and equal values.
  Floats coarse(std::size_t n, unsigned seed) {
    Floats v = random(n, seed);
    for (float& x : v) x = std::round(x * 16) / 16;
    return v;
  }
  // Sums of whose products are exact in 16 bits, too, as long as there are few.
  static Floats whole(std::size_t n, unsigned seed) {
    Floats v = random(n, seed);
    for (float& x : v) x = std::round(x);
    return v;
  }
  // What `work` leaves, image by image; numbers of channels behind them.
  struct Result {
    std::vector<Floats> images, channels;
  };
  void expect_rounded(const std::function<Result(Values&)>& work) {
    Values floats(*gpu, Element::float32), halves(*gpu, half);
    const Result expected = work(floats), got = work(halves);
    ASSERT_FALSE(expected.images.empty() && expected.channels.empty());
    bool rounds = false;
    for (std::size_t i = 0; i < expected.images.size(); ++i) {
      EXPECT_EQ(got.images[i], rounded(expected.images[i])) << "image " << i;
      rounds = rounds || got.images[i] != expected.images[i];
    }
    for (std::size_t i = 0; i < expected.channels.size(); ++i)
      EXPECT_EQ(got.channels[i], expected.channels[i]) << "numbers of channels " << i;
    rounds_ = rounds_ || rounds;
  }
  bool rounds_ = false;  // something has been rounded, so 16 bits were there
  std::unique_ptr<Backend> gpu;
  Element half = Element::float32;
};

constexpr std::size_t sizes[] = {1, 31, 256, 1032};

TEST_P(Halves, RoundToTheNearestEven) {
  const float step = GetParam() == ComputeType::bfloat16 ? 0.0078125f : 0.0009765625f;  // behind 1
  EXPECT_EQ(rounded({1 + step / 2, 1 + 3 * step / 2, 1 + step * 0.49f, -1 - step * 0.51f, 0.0f, 3 * step}),
            (Floats{1, 1 + 2 * step, 1, -1 - step, 0, 3 * step}));
}

TEST_P(Halves, AreTurnedOver) {
  const std::size_t columns = 3, channels = 8, pixels = 35, n = columns * channels * pixels;
  const Floats x = coarse(n, 1), before = coarse(n, 2);
  for (const bool add : {false, true})
    expect_rounded([&](Values& v) {
      const ImageExtent last{columns, channels, pixels, Format::blocked, v.element}, plain{columns, channels, pixels};
      float *to_last = v.put(before), *to_plain = v.put_floats(before);
      gpu->images().reorder(plain, last, v.put_floats(random(n, 3)), to_last, add);
      gpu->images().reorder(last, plain, v.put(x), to_plain, add);
      return Result{{v.take(to_last, n)}, {v.taken(to_plain, n)}};
    });
  EXPECT_TRUE(rounds_);
}

TEST_P(Halves, Maps) {
  for (const UnaryOp op : {UnaryOp::copy, UnaryOp::relu, UnaryOp::tanh, UnaryOp::sqrt, UnaryOp::abs, UnaryOp::floor})
    for (const std::size_t n : sizes)
      expect_rounded([&](Values& v) {
        float *x = v.put(coarse(n, 7)), *result = v.put(coarse(n, 8)), *dy = v.put(coarse(n, 9)),
              *dx = v.put(coarse(n, 1));
        Result r;
        for (const bool add : {false, true}) {
          gpu->map_gradient(op, x, result, dy, dx, n, add, v.element);
          r.images.push_back(v.take(dx, n));
          dx = v.put(coarse(n, 1));
        }
        gpu->map(op, x, x, n, v.element);
        r.images.push_back(v.take(x, n));
        return r;
      });
  EXPECT_TRUE(rounds_);
}

TEST_P(Halves, Combinations) {
  for (const PointOp op : {PointOp::plus, PointOp::minus, PointOp::times})
    for (const std::size_t n : sizes)
      expect_rounded([&](Values& v) {
        Layout l;
        l.rank = 1, l.size[0] = n, l.element = v.element;
        for (auto& s : l.stride) s[0] = 1;
        const std::vector<const float*> in = {v.put(coarse(n, 1)), v.put(rounded(random(n, 2)))};
        float* y = v.put(Floats(n));
        gpu->combine(op, l, in, y);
        Result r{{v.take(y, n)}, {}};
        for (std::size_t k = 0; k < 2; ++k)
          for (const bool add : {false, true}) {
            float* dx = v.put(coarse(n, 4));
            gpu->combine_gradient(op, k, l, in, v.put(coarse(n, 3)), dx, add);
            r.images.push_back(v.take(dx, n));
          }
        return r;
      });
  EXPECT_TRUE(rounds_);
}

TEST_P(Halves, DropoutAndStacks) {
  constexpr std::size_t columns = 2;
  const std::vector<std::int64_t> samples{1234567890123, 5};
  const auto drops_the_same = [&](std::size_t elements, bool add, std::size_t channels, std::size_t pixels) {
    const std::size_t n = columns * elements;
    expect_rounded([&](Values& v) {
      float* y = v.put(coarse(n, 2));
      gpu->dropout({v.put_numbers(std::uint64_t{77}), v.put_all(samples), elements, 0.3f, channels, channels, pixels},
                   v.put(coarse(n, 1)), y, n, add, v.element);
      return Result{{v.take(y, n)}, {}};
    });
  };
  for (const bool add : {false, true}) {
    for (const std::size_t n : sizes) drops_the_same(n, add, 0, 0);
    for (const std::size_t channels : {3, 8, 24}) drops_the_same(channels * 5, add, channels, 5);
  }
  EXPECT_TRUE(rounds_);
  // Lines of `part` channels into lines of `whole`.
  for (const auto& [part, whole] : {std::pair<std::size_t, std::size_t>{8, 24}, {3, 7}, {16, 20}})
    for (const bool add : {false, true})
      expect_rounded([&, part = part, whole = whole](Values& v) {
        Layout l;
        l.rank = 2, l.size = {part, 9}, l.element = v.element;
        l.stride[0] = {1, part}, l.stride[3] = {1, whole};
        float* y = v.put(coarse(whole * 9, 2));
        gpu->copy(l, v.put(coarse(part * 9, 1)), y, add);
        return Result{{v.take(y, whole * 9)}, {}};
      });
}

// Of numbers that products add up exactly in any order.
TEST_P(Halves, Products) {
  for (const auto& [m, n, k] :
       {std::tuple<std::size_t, std::size_t, std::size_t>{1, 1, 1}, {17, 5, 33}, {3, 8, 0}, {0, 3, 4}})
    for (const unsigned which : {1u, 2u, 3u, 4u, 5u, 6u, 7u})  // of A, B and C: those of 16 bits
      for (const unsigned how : {0u, 1u, 6u})
        expect_rounded([&, m = m, n = n, k = k](Values& v) {
          Gemm g{.transpose_a = how % 2 == 1, .transpose_b = how / 2 % 2 == 1, .m = m, .n = n, .k = k};
          g.lda = (g.transpose_a ? m : k) + 2, g.ldb = (g.transpose_b ? k : n) + 1, g.ldc = n + 3;
          g.accumulate = how / 4 == 1;
          const bool half_a = which % 2 == 1, half_b = which / 2 % 2 == 1, half_c = which / 4 == 1;
          if (half_a) g.a_element = v.element;
          if (half_b) g.b_element = v.element;
          if (half_c) g.c_element = v.element;
          const std::size_t most = 20 * 36;
          const Floats a = coarse(most, 1), b = coarse(most, 2), before = coarse(most, 3);
          float* const on_b = half_b ? v.put(b) : v.put_floats(b);
          Result r;
          // The second time B is known.
          for (const bool again : {false, true}) {
            float* const c = half_c ? v.put(before) : v.put_floats(before);
            g.same_b = again;
            gpu->gemm(g, half_a ? v.put(a) : v.put_floats(a), on_b, c);
            (half_c ? r.images : r.channels).push_back(half_c ? v.take(c, most) : v.taken(c, most));
          }
          return r;
        });
}

// A weight with three axes can be two matrices.
TEST_P(Halves, ProductsWithTheSameNumbersInTwoShapes) {
  Values v(*gpu, half);
  const float *const w = v.put_floats(coarse(15, 1)), *const x = v.put(whole(20, 2));
  const auto product = [&](std::size_t n, bool again) {
    const std::size_t k = 15 / n;
    float* const y = v.put_floats(Floats(4 * n));
    gpu->gemm({.m = 4, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n, .a_element = half, .same_b = again}, x, w, y);
    return v.taken(y, 4 * n);
  };
  const Floats of_three = product(3, false), of_five = product(5, false);
  EXPECT_EQ(product(3, true), of_three);
  EXPECT_EQ(product(5, true), of_five);
}

TEST_P(Halves, ProductsWithBiasAndRelu) {
  for (const auto& [m, n, k] :
       {std::tuple<std::size_t, std::size_t, std::size_t>{1, 8, 1}, {17, 24, 33}, {64, 136, 16}})
    for (const UnaryOp op : {UnaryOp::copy, UnaryOp::relu, UnaryOp::tanh})
      for (const bool masks : {false, true})
        expect_rounded([&, m = m, n = n, k = k](Values& v) {
          const Gemm g{
              .m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n, .a_element = v.element, .c_element = v.element};
          float *a = v.put(whole(m * k, 1)), *b = v.put_floats(whole(k * n, 2)), *y = v.put(Floats(m * n)),
                *mask = v.put_floats(Floats(m * Backend::mask_floats(n))), *sums = v.put_floats(Floats(n));
          gpu->gemm_bias(g, op, a, b, v.put_floats(coarse(n, 3)), y, masks ? mask : nullptr);
          Result r{{v.take(y, m * n)}, {}};
          if (op != UnaryOp::relu) return r;
          const Gemm back{.transpose_b = true,
                          .m = m,
                          .n = n,
                          .k = k,
                          .lda = k,
                          .ldb = k,
                          .ldc = n,
                          .a_element = v.element,
                          .c_element = v.element};
          float *dy = v.put(whole(m * k, 5)), *dx = v.put(Floats(m * n));
          gpu->gemm_relu_gradient(back, dy, v.put_floats(whole(k * n, 6)), y, masks ? mask : nullptr, dx, sums);
          r.images.push_back(v.take(dx, m * n)), r.channels.push_back(v.taken(sums, n));
          return r;
        });
  EXPECT_TRUE(rounds_);
}

TEST_P(Halves, BiasAndActivation) {
  for (const UnaryOp op : {UnaryOp::copy, UnaryOp::relu, UnaryOp::sigmoid})
    for (const auto& [rows, n] : {std::pair<std::size_t, std::size_t>{3, 5}, {130, 24}})
      for (const bool add : {false, true})
        expect_rounded([&, rows = rows, n = n](Values& v) {
          float *y = v.put(coarse(rows * n, 1)), *before = v.put(rounded(random(rows * n, 2))),
                *dy = v.put(coarse(rows * n, 3)), *dbias = v.put_floats(coarse(n, 4));
          gpu->bias_activation(op, rows, n, v.put_floats(random(n, 5)), y, v.element);
          gpu->bias_activation_gradient(op, rows, n, before, dy, dbias, add, v.element);
          Result r{{v.take(y, rows * n), v.take(dy, rows * n)}, {v.taken(dbias, n)}};
          float* const alone = v.put(coarse(rows * n, 6));
          gpu->bias_activation_gradient(op, rows, n, before, alone, nullptr, false, v.element);
          r.images.push_back(v.take(alone, rows * n));
          return r;
        });
  EXPECT_TRUE(rounds_);
}

ImageWindow window(ImageWindow::Sizes in, ImageWindow::Sizes kernel, std::size_t stride, std::size_t pad) {
  ImageWindow w{2, in, {1, 1, 1}, kernel, {stride, stride, 1}, {pad, pad, 0}};
  for (std::size_t a = 0; a < 2; ++a) w.out[a] = (in[a] + 2 * pad - kernel[a]) / stride + 1;
  return w;
}

TEST_P(Halves, Poolings) {
  const ImageWindow windows[] = {window({7, 6, 1}, {3, 3, 1}, 2, 1), window({4, 4, 1}, {4, 4, 1}, 1, 0),
                                 window({17, 17, 1}, {16, 17, 1}, 1, 0)};
  for (const ImageWindow& w : windows)
    for (const PoolingOp op : {PoolingOp::max, PoolingOp::average})
      for (const std::size_t channels : {3, 8})
        for (const bool add : {false, true})
          expect_rounded([&](Values& v) {
            const PoolingShape s{op, w, 2, channels, Format::blocked, v.element};
            const std::size_t small = 2 * channels * ImageWindow::product(w.out),
                              large = 2 * channels * ImageWindow::product(w.in);
            float *y = v.put(Floats(small)), *dx = v.put(coarse(large, 3)), *work = v.put_floats(Floats(small));
            const auto plan = gpu->images().plan_pooling(s);
            plan->forward(v.put(coarse(large, 1)), y, work);
            plan->backward(v.put(coarse(small, 2)), work, dx, add);
            return Result{{v.take(y, small), v.take(dx, large)}, {}};
          });
  EXPECT_TRUE(rounds_);
}

TEST_P(Halves, BatchNormalizations) {
  for (const auto& [columns, channels, pixels] :
       {std::tuple<std::size_t, std::size_t, std::size_t>{4, 3, 10}, {5, 8, 9}, {20, 24, 30}, {3, 264, 7}})
    for (const bool training : {false, true})
      for (const auto& [relu, fused] : {std::pair{false, false}, {true, false}, {true, true}})
        for (const bool add : {false, true})
          expect_rounded([&, columns = columns, channels = channels, pixels = pixels, relu = relu,
                          fused = fused](Values& v) {
            const std::size_t n = columns * channels * pixels;
            BatchNormalization op;
            op.extent = {columns, channels, pixels, Format::blocked, v.element};
            if (training) op.weights = v.put_numbers(NormalizationWeights{0.25, 0.125});
            op.relu = relu, op.add = fused;
            Floats positive = random(channels, 8, 0.5f, 2);
            float *mean = v.put_floats(random(channels, 7)), *variance = v.put_floats(positive),
                  *work = v.put_floats(Floats(4 * channels));
            const NormalizationParameters of{v.put_floats(random(channels, 3)), v.put_floats(random(channels, 4)), mean,
                                             variance};
            float *x = v.put(coarse(n, 1)), *y = v.put(Floats(n)), *dy = v.put(coarse(n, 6)), *dx = v.put(coarse(n, 9));
            float *dadded = v.put(coarse(n, 10)), *dscale = v.put_floats(random(channels, 11)),
                  *dbias = v.put_floats(random(channels, 12));
            gpu->images().normalize(op, of, x, fused ? v.put(coarse(n, 2)) : nullptr, y, work);
            const NormalizationGradients to{dx, fused ? dadded : nullptr, dscale, dbias, add, add, add, add};
            gpu->images().normalize_gradient(op, of, x, v.put(coarse(n, 5)), dy, work, to);
            return Result{{v.take(y, n), v.take(dx, n), v.take(dadded, n)},
                          {v.taken(mean, channels), v.taken(variance, channels), v.taken(dscale, channels),
                           v.taken(dbias, channels)}};
          });
  EXPECT_TRUE(rounds_);
}

// Of results so small that many of them round to nothing.
TEST_P(Halves, NormalizedValuesPassGradientsWhereTheyArePositive) {
  const std::size_t columns = 5, channels = 8, pixels = 9, n = columns * channels * pixels;
  Values v(*gpu, half);
  BatchNormalization op;
  op.extent = {columns, channels, pixels, Format::blocked, half};
  op.weights = v.put_numbers(NormalizationWeights{0, 1});
  op.relu = true;
  const float tiny = GetParam() == ComputeType::bfloat16 ? 5e-41f : 3e-8f;
  const NormalizationParameters of{v.put_floats(Floats(channels, tiny)), v.put_floats(Floats(channels)),
                                   v.put_floats(Floats(channels)), v.put_floats(Floats(channels))};
  float *x = v.put(coarse(n, 1)), *y = v.put(Floats(n)), *dbias = v.put_floats(Floats(channels)),
        *work = v.put_floats(Floats(4 * channels));
  gpu->images().normalize(op, of, x, nullptr, y, work);
  NormalizationGradients to;
  to.bias = dbias;
  gpu->images().normalize_gradient(op, of, x, y, v.put(Floats(n, 1)), work, to);
  Floats positive(channels);
  const Floats results = v.take(y, n);
  for (std::size_t i = 0; i < n; ++i) positive[i % channels] += results[i] > 0 ? 1.0f : 0.0f;
  EXPECT_EQ(v.taken(dbias, channels), positive);
  const float all = std::accumulate(positive.begin(), positive.end(), 0.0f);
  EXPECT_GT(all, 0);
  EXPECT_LT(all, static_cast<float>(n) / 3);
}

TEST_P(Halves, BiasAndResponses) {
  for (const std::size_t channels : {3, 8, 40})
    for (const bool add : {false, true})
      expect_rounded([&](Values& v) {
        const std::size_t n = 2 * channels * 15;
        const ImageExtent extent{2, channels, 15, Format::blocked, v.element};
        float *y = v.put(coarse(n, 1)), *dy = v.put(coarse(n, 2)), *dbias = v.put_floats(coarse(channels, 3));
        gpu->images().bias_relu_gradient(extent, y, dy, dbias, add);
        ResponseNormalization op{extent, 2, 2, 0.3, 0.75};
        float *r = v.put(Floats(n)), *work = v.put_floats(Floats(n)), *dx = v.put(coarse(n, 4));
        gpu->images().respond(op, v.put(coarse(n, 5)), r, work);
        gpu->images().respond_gradient(op, v.put(coarse(n, 5)), y, v.put(coarse(n, 6)), work, dx, add);
        return Result{{v.take(dy, n), v.take(r, n), v.take(dx, n)}, {v.taken(dbias, channels)}};
      });
  EXPECT_TRUE(rounds_);
}

// Both sides in 16 bits, or one of them; against float32 on the CPU. Operands are exact, so what is left is the
// rounding of the result, of the bias, and of what the result is added to.
TEST_P(Halves, Convolutions) {
  const auto cpu = make_backend("cpu");
  const float near = GetParam() == ComputeType::bfloat16 ? 0.008f : 0.001f;
  struct Case {
    std::size_t window, from, to, groups;
    bool fused, plain;
  };
  const ImageWindow windows[] = {window({6, 5, 1}, {3, 3, 1}, 1, 1), window({5, 5, 1}, {1, 1, 1}, 1, 0),
                                 window({7, 7, 1}, {3, 3, 1}, 2, 0)};
  for (const Case& c : {Case{0, 8, 16, 1, false, false}, Case{0, 3, 8, 1, true, true}, Case{1, 16, 8, 1, true, false},
                        Case{2, 8, 8, 2, false, false}, Case{2, 12, 9, 1, false, false}}) {
    ConvolutionShape s;
    s.window = windows[c.window], s.columns = 2, s.in_channels = c.from, s.out_channels = c.to, s.groups = c.groups;
    s.bias = s.relu = c.fused, s.winograd = false;  // which rounds what it has transformed, too
    const std::size_t large = 2 * c.from * ImageWindow::product(s.window.in),
                      small = 2 * c.to * ImageWindow::product(s.window.out),
                      weights = ImageWindow::product(s.window.kernel) * c.from / c.groups * c.to;
    const Floats x = coarse(large, 1), w = coarse(weights, 2), dy = coarse(small, 3), bias = coarse(c.to, 4);
    const Floats y_before = coarse(small, 5), x_before = coarse(large, 6), w_before = coarse(weights, 7);
    const auto work = [&](Backend& b, Element element, bool add) {
      Values v(b, element), floats(b, Element::float32);
      ConvolutionShape shape = s;
      if (element != Element::float32) shape.out = Format::blocked, shape.out_element = element;
      if (element != Element::float32 && !c.plain) shape.in = Format::blocked, shape.in_element = element;
      const ImageExtent in{2, c.from, large / (2 * c.from), shape.in, shape.in_element},
          out{2, c.to, small / (2 * c.to), shape.out, shape.out_element};
      // Plain images in, plain images out.
      const auto put = [&](const ImageExtent& e, const Floats& values) {
        float* const plain = floats.put(values);
        if (e.format == Format::plain) return plain;
        float* const image = floats.put(values);
        b.images().reorder({2, e.channels, e.pixels}, e, plain, image, false);
        return image;
      };
      const auto take = [&](const ImageExtent& e, const float* image, std::size_t n) {
        if (e.format == Format::plain) return floats.taken(image, n);
        float* const plain = floats.put(Floats(n));
        b.images().reorder(e, {2, e.channels, e.pixels}, image, plain, false);
        return floats.taken(plain, n);
      };
      const auto plan = b.images().plan_convolution(shape);
      float *on_w = floats.put(w), *y = put(out, y_before), *dx = put(in, x_before), *dw = floats.put(w_before);
      plan->forward(put(in, x), on_w, c.fused ? floats.put(bias) : nullptr, y, add && !c.fused);
      plan->backward_data(put(out, dy), on_w, dx, add);
      plan->backward_weights(put(in, x), put(out, dy), dw, add);
      return std::vector<Floats>{take(out, y, small), take(in, dx, large), floats.taken(dw, weights)};
    };
    for (const bool add : {false, true}) {
      SCOPED_TRACE(testing::Message() << "from " << c.from << " to " << c.to << (add ? ", added" : ""));
      const auto expected = work(*cpu, Element::float32, add), got = work(*gpu, half, add);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        float largest = 1;
        for (const float value : expected[i]) largest = std::max(largest, std::fabs(value));
        for (std::size_t e = 0; e < expected[i].size(); ++e)
          ASSERT_NEAR(got[i][e], expected[i][e], near * largest) << "result " << i << ", element " << e;
      }
    }
  }
}

// What is made of the weights for one call serves those that have the same; other weights are never mixed up with them.
TEST_P(Halves, WeightsOfConvolutions) {
  ConvolutionShape s;
  s.window = window({5, 4, 1}, {3, 3, 1}, 1, 1), s.columns = 2, s.in_channels = s.out_channels = 8;
  s.in = s.out = Format::blocked, s.in_element = s.out_element = half;
  const std::size_t n = 2 * 8 * 20, weights = 9 * 8 * 8;
  Values v(*gpu, half);
  const auto plan = gpu->images().plan_convolution(s), other_plan = gpu->images().plan_convolution(s);
  float *x = v.put(coarse(n, 1)), *y = v.put(Floats(n)), *dx = v.put(Floats(n)), *w = v.put_floats(coarse(weights, 2));
  std::uint64_t calls = 0;  // of the last gradient
  const auto gradient = [&](ConvolutionPlan& p, bool same_weights) {
    const auto before = counted_calls();
    p.backward_data(x, w, dx, false, same_weights);
    if (before) calls = counted_calls()->single - before->single;
    return v.take(dx, n);
  };
  gradient(*plan, false);  // measures
  const Floats once = gradient(*plan, false);
  const std::uint64_t calls_of_others = calls;
  EXPECT_EQ(gradient(*plan, true), once);
  if (counted_calls()) {
    EXPECT_LT(calls, calls_of_others);
  }
  const Floats more = coarse(weights, 3);
  gpu->upload(more.data(), w, weights);
  const Floats other = gradient(*other_plan, false);
  EXPECT_NE(other, once);
  plan->forward(x, w, nullptr, y, false, false);
  EXPECT_EQ(gradient(*plan, true), other);
}

// One that is worth measuring, by a backend that finds what another one has kept.
TEST_P(Halves, ProductsAreMeasuredOnce) {
  const Gemm g{.m = 700,
               .n = 400,
               .k = 400,
               .lda = 400,
               .ldb = 400,
               .ldc = 400,
               .a_element = half,
               .b_element = half,
               .c_element = half};
  std::uint64_t calls = 0;
  for (int run = 0; run < 2; ++run) {
    const auto fresh = make_backend("cuda:0", GetParam());
    Values v(*fresh, half);
    float *a = v.put(coarse(g.m * g.k, 1)), *b = v.put(coarse(g.k * g.n, 2)), *c = v.put(Floats(g.m * g.n));
    const auto before = counted_calls();
    fresh->gemm(g, a, b, c);
    if (before) calls = counted_calls()->single - before->single;
  }
  EXPECT_LE(calls, 3u) << "the product, and the memory that it works in";
}

INSTANTIATE_TEST_SUITE_P(Types, Halves, testing::Values(ComputeType::bfloat16, ComputeType::float16),
                         [](const auto& i) { return i.param == ComputeType::bfloat16 ? "Bfloat16" : "Float16"; });

}  // namespace
}  // namespace tutti::agreement_halves_test

// SPDX-License-Identifier: Apache-2.0
// The image operations for GPUs against those of the CPU, over the emulators of the runtime and of cuDNN: every
// operation in both directions, with and without adding, on windows of all kinds.
#include "backend/cuda/images.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <stdexcept>

#include "backend/cuda/divisor.h"
#include "tutti/backend.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using Values = std::vector<float>;

Values random_values(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Values v(n);
  for (float& x : v) x = normal(engine);
  return v;
}

// Zeros and equal values, so that masks and ties are met.
Values coarse_values(std::size_t n, unsigned seed) {
  Values v = random_values(n, seed);
  for (float& x : v) x = std::round(x * 2);
  return v;
}

TEST(Divisor, DividesAllNumbersBelowTwoToThe31) {
  constexpr unsigned most = 0x7fffffffu;
  std::mt19937 engine(1);
  const auto drawn = [&] { return static_cast<unsigned>(engine()) & most; };
  const auto check = [](unsigned n, unsigned by) {
    ASSERT_EQ(cuda::Divisor(by).quotient(n), n / by) << n << " / " << by;
    unsigned rest = n;
    ASSERT_EQ(cuda::Axis(by).split(rest), n % by) << n << " % " << by;
    ASSERT_EQ(rest, n / by);
  };
  for (unsigned by = 1; by < 3000; ++by)
    for (const unsigned n : {0u, 1u, by - 1, by, by + 1, most / by * by, most / by * by - 1, most, drawn()})
      check(n, by);
  for (int i = 0; i < 10000; ++i) {
    const unsigned by = std::max(drawn() >> i % 30, 1u);
    check(most / by * by - 1, by), check(drawn(), by);
  }
}

void expect_close(const Values& got, const Values& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  float largest = 1;
  for (const float x : expected) largest = std::max(largest, std::fabs(x));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 2e-5f * largest) << what << ", element " << i;
}

class Images : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("TUTTI_CACHE", "", 1); }

  // Both sides work on their own copy of the values; what they leave there must agree.
  void compare(const char* what, const Values& start, const std::function<void(ImageOps&, float*)>& work) {
    Values on_cpu = start, on_gpu = start;
    work(cpu_->images(), on_cpu.data());
    work(gpu_, on_gpu.data());
    expect_close(on_gpu, on_cpu, what);
  }

  std::unique_ptr<Backend> cpu_ = make_backend("cpu");
  cuda::CudaImages gpu_{"emulator", ComputeType::float32, nullptr};
};

ImageWindow window(std::size_t rank, ImageWindow::Sizes in, ImageWindow::Sizes kernel, ImageWindow::Sizes stride,
                   ImageWindow::Sizes pad, ImageWindow::Sizes behind) {
  ImageWindow w{rank, in, {1, 1, 1}, kernel, stride, pad};
  for (std::size_t a = 0; a < rank; ++a) w.out[a] = (in[a] + pad[a] + behind[a] - kernel[a]) / stride[a] + 1;
  return w;
}

// One to three axes; steps, padding on both sides, on one side only, and none.
std::vector<ImageWindow> windows() {
  return {window(1, {9, 1, 1}, {3, 1, 1}, {1, 1, 1}, {1, 0, 0}, {1, 0, 0}),
          window(2, {7, 6, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 0}, {1, 1, 0}),
          window(2, {8, 8, 1}, {3, 3, 1}, {2, 2, 1}, {0, 0, 0}, {1, 1, 0}),
          window(2, {8, 5, 1}, {2, 2, 1}, {2, 2, 1}, {0, 0, 0}, {0, 1, 0}),
          window(2, {6, 7, 1}, {4, 2, 1}, {1, 3, 1}, {1, 0, 0}, {2, 0, 0}),
          window(2, {5, 5, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}),
          window(2, {9, 9, 1}, {3, 3, 1}, {4, 4, 1}, {0, 0, 0}, {0, 0, 0}),
          window(3, {5, 4, 6}, {3, 2, 3}, {1, 2, 2}, {1, 0, 1}, {1, 0, 0})};
}

TEST_F(Images, Convolutions) {
  unsigned seed = 0;
  for (const ImageWindow& w : windows())
    for (const std::size_t groups : {1, 2})
      for (const bool fused : {false, true}) {
        SCOPED_TRACE(testing::Message() << "window " << seed / 4 << ", groups " << groups);
        ConvolutionShape s;
        s.window = w, s.columns = 3, s.in_channels = 2 * groups, s.out_channels = 4, s.groups = groups;
        s.bias = s.relu = fused;
        const Values x = random_values(s.columns * s.in_channels * ImageWindow::product(w.in), ++seed),
                     k = random_values(ImageWindow::product(w.kernel) * 2 * 4, seed + 100),
                     dy = random_values(s.columns * s.out_channels * ImageWindow::product(w.out), seed + 200),
                     bias = random_values(4, seed + 300);
        for (const bool add : {false, true}) {
          if (!fused || !add)
            compare("forward", random_values(dy.size(), 7), [&](ImageOps& b, float* y) {
              b.plan_convolution(s)->forward(x.data(), k.data(), fused ? bias.data() : nullptr, y, add);
            });
          if (fused) continue;
          compare("gradient of the image", random_values(x.size(), 8),
                  [&](ImageOps& b, float* dx) { b.plan_convolution(s)->backward_data(dy.data(), k.data(), dx, add); });
          compare("gradient of the weights", random_values(k.size(), 9), [&](ImageOps& b, float* dw) {
            b.plan_convolution(s)->backward_weights(x.data(), dy.data(), dw, add);
          });
        }
      }
}

// The library counts them in 32 bits, and says no more than that it does not.
TEST_F(Images, TensorsThatAreTooLargeAreNamed) {
  ConvolutionShape s;
  s.window = window(2, {128, 128, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 0}, {1, 1, 0});
  s.columns = 2047, s.in_channels = 3, s.out_channels = 64;
  EXPECT_NO_THROW(gpu_.plan_convolution(s));
  s.columns = 2048;
  try {
    gpu_.plan_convolution(s);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("fix: use a smaller minibatchSize"), std::string::npos) << e.what();
  }
}

TEST_F(Images, Poolings) {
  unsigned seed = 0;
  struct Kind {
    PoolingOp op;
    bool include_padding;
  };
  for (const ImageWindow& w : windows())
    for (const Kind kind : {Kind{PoolingOp::max, false}, {PoolingOp::average, false}, {PoolingOp::average, true}}) {
      SCOPED_TRACE(testing::Message() << "window " << seed / 3);
      PoolingShape s;
      s.op = kind.op, s.include_padding = kind.include_padding, s.window = w, s.columns = 2, s.channels = 3;
      const std::size_t small = 6 * ImageWindow::product(w.out), large = 6 * ImageWindow::product(w.in);
      const Values x = coarse_values(large, ++seed), dy = random_values(small, seed + 50);
      for (const bool add : {false, true}) {
        // The result, then the gradient.
        compare("pooling", random_values(small + large, 3), [&](ImageOps& b, float* both) {
          Values work(small + 16);
          const auto plan = b.plan_pooling(s);
          plan->forward(x.data(), both, work.data());
          plan->backward(dy.data(), work.data(), both + small, add);
        });
      }
    }
}

TEST_F(Images, PoolingOfLargeWindows) {
  PoolingShape s;
  s.window = window(2, {40, 30, 1}, {20, 15, 1}, {5, 5, 1}, {0, 0, 0}, {0, 0, 0}), s.columns = 1, s.channels = 2;
  const std::size_t small = 2 * ImageWindow::product(s.window.out), large = 2400;
  const Values x = random_values(large, 1), dy = random_values(small, 2);
  compare("pooling", random_values(small + large, 3), [&](ImageOps& b, float* both) {
    Values work(small + 16);
    const auto plan = b.plan_pooling(s);
    plan->forward(x.data(), both, work.data());
    plan->backward(dy.data(), work.data(), both + small, false);
  });
}

TEST_F(Images, BatchNormalizations) {
  unsigned seed = 0;
  for (const ImageExtent extent : {ImageExtent{4, 3, 10}, ImageExtent{7, 5, 1}, ImageExtent{40, 2, 300},
                                   ImageExtent{1, 1, 1}, ImageExtent{300, 3, 17}})
    for (const bool training : {false, true})
      for (const auto& [relu, fused] : {std::pair{false, false}, {true, false}, {true, true}})
        for (const bool add : {false, true}) {
          SCOPED_TRACE(testing::Message() << extent.columns << " columns, " << extent.channels << " channels");
          BatchNormalization op;
          op.extent = extent, op.relu = relu, op.add = fused;
          const NormalizationWeights weights{0.25, 0.125};
          if (training) op.weights = &weights;
          const std::size_t c = extent.channels, n = extent.columns * c * extent.pixels;
          const Values x = random_values(n, ++seed), more = random_values(n, seed + 1), dy = random_values(n, seed + 2),
                       scale = random_values(c, seed + 3), bias = random_values(c, seed + 4);
          // y, running mean and variance, dx, dadded, dscale, dbias, and dy.
          Values all = random_values(4 * n + 4 * c, seed + 5);
          for (std::size_t i = 0; i < c; ++i) all[n + c + i] = std::fabs(all[n + c + i]) + 0.5f;
          std::copy(dy.begin(), dy.end(), all.begin() + static_cast<long>(3 * n + 4 * c));
          compare("batch normalisation", all, [&](ImageOps& b, float* v) {
            float *y = v, *mean = v + n, *variance = mean + c, *dx = variance + c, *dadded = dx + n,
                  *dscale = dadded + n, *dbias = dscale + c, *gradient = dbias + c;
            Values work(4 * (c + 16));
            const NormalizationParameters of{scale.data(), bias.data(), mean, variance};
            b.normalize(op, of, x.data(), fused ? more.data() : nullptr, y, work.data());
            const NormalizationGradients to{dx, fused ? dadded : nullptr, dscale, dbias, add, add, add, add};
            b.normalize_gradient(op, of, x.data(), y, gradient, work.data(), to);
            std::fill_n(gradient, n, 0.0f);  // may be overwritten or not
          });
        }
}

TEST_F(Images, BiasAndRelu) {
  for (const ImageExtent extent : {ImageExtent{3, 4, 9}, ImageExtent{50, 6, 1}, ImageExtent{2, 1, 700}})
    for (const bool relu : {false, true})
      for (const bool add : {false, true}) {
        const std::size_t n = extent.columns * extent.channels * extent.pixels;
        const Values y = coarse_values(n, 4);
        compare("bias", random_values(n + extent.channels, 5),
                [&](ImageOps& b, float* v) { b.bias_relu_gradient(extent, relu ? y.data() : nullptr, v, v + n, add); });
      }
}

TEST_F(Images, ResponseNormalizations) {
  for (const std::size_t radius : {0, 1, 2, 5})
    for (const bool add : {false, true}) {
      ResponseNormalization op;
      op.extent = {2, 4, 7}, op.radius = radius, op.bias = 2, op.alpha = 0.3, op.beta = 0.75;
      const std::size_t n = 56;
      const Values x = random_values(n, 1), dy = random_values(n, 2);
      compare("response", random_values(2 * n, 3), [&](ImageOps& b, float* v) {
        Values work(n);
        b.respond(op, x.data(), v, work.data());
        b.respond_gradient(op, x.data(), v, dy.data(), work.data(), v + n, add);
      });
    }
}

TEST_F(Images, Unpoolings) {
  for (const ImageWindow& w : windows())
    for (const bool add : {false, true}) {
      PoolingShape s;
      s.window = w, s.columns = 2, s.channels = 2;
      const std::size_t small = 4 * ImageWindow::product(w.out), large = 4 * ImageWindow::product(w.in);
      const Values image = coarse_values(large, 1), values = random_values(small, 2), dy = random_values(large, 3);
      compare("unpooling", random_values(large + small, 4), [&](ImageOps& b, float* v) {
        b.unpool(s, values.data(), image.data(), v);
        b.unpool_gradient(s, image.data(), dy.data(), v + large, add);
      });
    }
}

TEST_F(Images, Regions) {
  RegionPooling s{2, 9, 7, 3, 3, 2, 3};
  const Values image = random_values(2 * 63 * 3, 1), dy = random_values(2 * 3 * 3 * 6, 2);
  const Values regions = {0,    0,    1,     1,     0.25f, 0.5f, 0.5f, 0.25f, 0.9f, 0.9f, 0.5f, 0.5f,
                          0.1f, 0.2f, 0.01f, 0.01f, 0,     0,    0.3f, 1,     0.5f, 0,    0.5f, 0.5f};
  for (const bool add : {false, true})
    compare("regions", random_values(dy.size() + image.size(), 3), [&](ImageOps& b, float* v) {
      Values work(dy.size());
      b.pool_regions(s, image.data(), regions.data(), v, work.data());
      b.pool_regions_gradient(s, dy.data(), work.data(), v + dy.size(), add);
    });
  // In pixels of a picture 10 times as large: some end before they begin, or lie outside.
  s.scale = 0.1;
  Values pixels = regions;
  for (float& v : pixels) v *= 100;
  compare("regions in pixels", random_values(dy.size() + image.size(), 4), [&](ImageOps& b, float* v) {
    Values work(dy.size());
    b.pool_regions(s, image.data(), pixels.data(), v, work.data());
    b.pool_regions_gradient(s, dy.data(), work.data(), v + dy.size(), false);
  });
}

// Images with their channels last against plain ones on the CPU.

// Matrices of rows x width, one for each column, turned over.
Values turned(const Values& v, std::size_t columns, std::size_t rows) {
  Values t(v.size());
  const std::size_t width = v.size() / (columns * rows);
  for (std::size_t n = 0; n < columns; ++n)
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t w = 0; w < width; ++w) t[(n * width + w) * rows + r] = v[(n * rows + r) * width + w];
  return t;
}
// A plain image in the format that a backend is given, and back.
Values given(const Values& plain, std::size_t columns, std::size_t channels, Format f) {
  return f == Format::plain ? plain : turned(plain, columns, channels);
}
Values taken(const Values& stored, std::size_t columns, std::size_t channels, Format f) {
  return f == Format::plain ? stored : turned(stored, columns, stored.size() / (columns * channels));
}

struct Tolerance {
  ComputeType type;
  float near;
  std::vector<std::size_t> windows;
};

class ChannelsLast : public Images {
 protected:
  void expect_near(const Values& got, const Values& expected, float near, const char* what) {
    float largest = 1;
    for (const float x : expected) largest = std::max(largest, std::fabs(x));
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], near * largest) << what << ", element " << i;
      worst_ = std::max(worst_, std::fabs(got[i] - expected[i]) / largest);
    }
  }
  float worst_ = 0;
  cuda::CudaImages last_{"emulator", ComputeType::tf32, nullptr};
};

TEST_F(ChannelsLast, Convolutions) {
  unsigned seed = 0;
  for (const auto& [type, near, used] : {Tolerance{ComputeType::tf32, 2e-3f, {0, 1, 2, 4, 5, 7}},
                                         {ComputeType::bfloat16, 2e-2f, {1, 4}},
                                         {ComputeType::float16, 3e-3f, {2}}}) {
    cuda::CudaImages images("emulator", type, nullptr);
    EXPECT_EQ(images.channel_block(), all_channels);
    worst_ = 0;
    for (const std::size_t number : used)
      for (const auto& [in, out, from, groups] :
           {std::tuple<Format, Format, std::size_t, std::size_t>{Format::plain, Format::blocked, 3, 1},
            {Format::blocked, Format::blocked, 8, 1},
            {Format::blocked, Format::plain, 12, 1},
            {Format::blocked, Format::blocked, 6, 2}})
        for (const bool fused : {false, true}) {
          if (fused && groups > 1) continue;
          SCOPED_TRACE(testing::Message() << "window " << number << ", type " << static_cast<int>(type) << ", from "
                                          << from << " channels");
          const ImageWindow w = windows()[number];
          ConvolutionShape s;
          s.window = w, s.columns = 2, s.in_channels = from, s.out_channels = 4, s.groups = groups;
          s.bias = s.relu = fused;
          const std::size_t n = s.columns, small = ImageWindow::product(w.out), large = ImageWindow::product(w.in);
          const Values x = random_values(n * from * large, ++seed),
                       k = random_values(ImageWindow::product(w.kernel) * from / groups * 4, seed + 100),
                       dy = random_values(n * 4 * small, seed + 200), bias = random_values(4, seed + 300);
          const auto expected = cpu_->images().plan_convolution(s);
          s.in = in, s.out = out;
          const auto plan = images.plan_convolution(s);
          const Values on_x = given(x, n, from, in), on_dy = given(dy, n, 4, out);
          for (const bool add : {false, true}) {
            if (!fused || !add) {
              Values y = random_values(dy.size(), 7), got = given(y, n, 4, out);
              expected->forward(x.data(), k.data(), fused ? bias.data() : nullptr, y.data(), add);
              plan->forward(on_x.data(), k.data(), fused ? bias.data() : nullptr, got.data(), add);
              expect_near(taken(got, n, 4, out), y, near, "forward");
            }
            if (fused) continue;
            Values dx = random_values(x.size(), 8), got = given(dx, n, from, in), dw = random_values(k.size(), 9),
                   got_w = dw;
            expected->backward_data(dy.data(), k.data(), dx.data(), add);
            plan->backward_data(on_dy.data(), k.data(), got.data(), add);
            expect_near(taken(got, n, from, in), dx, near, "gradient of the image");
            expected->backward_weights(x.data(), dy.data(), dw.data(), add);
            plan->backward_weights(on_x.data(), on_dy.data(), got_w.data(), add);
            expect_near(got_w, dw, near, "gradient of the weights");
          }
        }
    EXPECT_GT(worst_, near / 40) << "was it rounded?";
  }
}

TEST_F(ChannelsLast, Poolings) {
  unsigned seed = 0;
  for (const ImageWindow& w : windows())
    for (const PoolingOp op : {PoolingOp::max, PoolingOp::average})
      for (const std::size_t channels : {3, 8})
        for (const bool add : {false, true}) {
          PoolingShape s;
          s.op = op, s.window = w, s.columns = 2, s.channels = channels;
          const std::size_t small = 2 * channels * ImageWindow::product(w.out),
                            large = 2 * channels * ImageWindow::product(w.in);
          const Values x = coarse_values(large, ++seed), dy = random_values(small, seed + 50);
          Values y(small), dx = random_values(large, 3), got_y(small), got_dx = given(dx, 2, channels, Format::blocked);
          Values work(small + 16);
          const auto expected = cpu_->images().plan_pooling(s);
          expected->forward(x.data(), y.data(), work.data());
          expected->backward(dy.data(), work.data(), dx.data(), add);
          s.format = Format::blocked;
          const auto plan = last_.plan_pooling(s);
          plan->forward(given(x, 2, channels, s.format).data(), got_y.data(), work.data());
          plan->backward(given(dy, 2, channels, s.format).data(), work.data(), got_dx.data(), add);
          expect_close(taken(got_y, 2, channels, s.format), y, "pooling");
          expect_close(taken(got_dx, 2, channels, s.format), dx, "gradient of pooling");
        }
}

// As with the loops of the CPU.
TEST_F(ChannelsLast, WhatIsNotANumberWinsInPooling) {
  for (const std::size_t channels : {3, 8}) {
    PoolingShape s;
    s.window = window(2, {2, 2, 1}, {2, 2, 1}, {2, 2, 1}, {0, 0, 0}, {0, 0, 0});
    s.columns = 1, s.channels = channels, s.format = Format::blocked;
    Values x(4 * channels, 5.0f), y(channels), work(channels), dx(x.size()), expected(x.size());
    x[2 * channels + 1] = std::nanf("");
    const auto plan = last_.plan_pooling(s);
    plan->forward(x.data(), y.data(), work.data());
    plan->backward(Values(channels, 1.0f).data(), work.data(), dx.data(), false);
    for (std::size_t c = 0; c < channels; ++c) {
      EXPECT_EQ(std::isnan(y[c]), c == 1);
      expected[c == 1 ? 2 * channels + c : c] = 1;
    }
    EXPECT_EQ(dx, expected);
  }
}

TEST_F(ChannelsLast, BatchNormalizations) {
  unsigned seed = 0;
  for (ImageExtent extent : {ImageExtent{4, 3, 10}, ImageExtent{7, 8, 1}, ImageExtent{40, 12, 30},
                             ImageExtent{3, 200, 7}, ImageExtent{300, 16, 17}})
    for (const bool training : {false, true})
      for (const auto& [relu, fused] : {std::pair{false, false}, {true, false}, {true, true}})
        for (const bool add : {false, true}) {
          SCOPED_TRACE(testing::Message() << extent.columns << " columns, " << extent.channels << " channels");
          const std::size_t c = extent.channels, n = extent.columns * c * extent.pixels;
          const Values x = random_values(n, ++seed), more = random_values(n, seed + 1), dy = random_values(n, seed + 2),
                       scale = random_values(c, seed + 3), bias = random_values(c, seed + 4);
          std::vector<Values> results[2];
          for (const Format f : {Format::plain, Format::blocked}) {
            ImageOps& b = f == Format::plain ? cpu_->images() : last_;
            extent.format = f;
            BatchNormalization op;
            op.extent = extent, op.relu = relu, op.add = fused;
            const NormalizationWeights weights{0.25, 0.125};
            if (training) op.weights = &weights;
            const auto in = [&](const Values& v) { return given(v, extent.columns, c, f); };
            const auto out = [&](const Values& v) { return taken(v, extent.columns, c, f); };
            const Values on_x = in(x), on_more = in(more);
            Values y(n), on_dy = in(dy), dx = in(random_values(n, 5)), dadded = in(random_values(n, 6)),
                         mean = random_values(c, 7), variance = random_values(c, 8), dscale = random_values(c, 9),
                         dbias = random_values(c, 10);
            for (float& v : variance) v = std::fabs(v) + 0.5f;
            Values work(4 * (c + 16));
            const NormalizationParameters of{scale.data(), bias.data(), mean.data(), variance.data()};
            b.normalize(op, of, on_x.data(), fused ? on_more.data() : nullptr, y.data(), work.data());
            const NormalizationGradients to{
                dx.data(), fused ? dadded.data() : nullptr, dscale.data(), dbias.data(), add, add, add, add};
            b.normalize_gradient(op, of, on_x.data(), y.data(), on_dy.data(), work.data(), to);
            results[f == Format::blocked] = {out(y), mean, variance, out(dx), out(dadded), dscale, dbias};
          }
          for (std::size_t i = 0; i < results[0].size(); ++i) expect_close(results[1][i], results[0][i], "normalised");
        }
}

TEST_F(ChannelsLast, BiasResponseAndReorder) {
  for (const std::size_t channels : {3, 8, 40})
    for (const bool add : {false, true}) {
      const std::size_t columns = 3, pixels = 70, n = columns * channels * pixels;
      const Values y = coarse_values(n, 4), x = random_values(n, 6);
      std::vector<Values> results[2];
      for (const Format f : {Format::plain, Format::blocked}) {
        ImageOps& b = f == Format::plain ? cpu_->images() : last_;
        const auto in = [&](const Values& v) { return given(v, columns, channels, f); };
        const auto out = [&](const Values& v) { return taken(v, columns, channels, f); };
        const ImageExtent extent{columns, channels, pixels, f};
        Values dy = in(random_values(n, 5)), dbias = random_values(channels, 7);
        b.bias_relu_gradient(extent, in(y).data(), dy.data(), dbias.data(), add);
        ResponseNormalization op;
        op.extent = extent, op.radius = channels == 8 ? 5 : 2, op.bias = 2, op.alpha = 0.3;
        Values r(n), work(n), dx = in(random_values(n, 8));
        b.respond(op, in(x).data(), r.data(), work.data());
        b.respond_gradient(op, in(x).data(), r.data(), dy.data(), work.data(), dx.data(), add);
        results[f == Format::blocked] = {out(dy), dbias, out(r), out(dx)};
      }
      for (std::size_t i = 0; i < results[0].size(); ++i) expect_close(results[1][i], results[0][i], "image");
      const Values before = random_values(n, 9);
      Values to_last = before, to_plain = before;
      last_.reorder({columns, channels, pixels}, {columns, channels, pixels, Format::blocked}, x.data(), to_last.data(),
                    add);
      last_.reorder({columns, channels, pixels, Format::blocked}, {columns, channels, pixels}, x.data(),
                    to_plain.data(), add);
      Values expected = turned(x, columns, channels), back = turned(x, columns, pixels);
      for (std::size_t i = 0; i < n && add; ++i) expected[i] += before[i], back[i] += before[i];
      EXPECT_EQ(to_last, expected);
      EXPECT_EQ(to_plain, back);
    }
}

TEST_F(Images, PlainImagesAreCopiedOrAdded) {
  const Values x = random_values(24, 1), before = random_values(24, 2);
  Values copy = before, sum = before;
  gpu_.reorder({2, 3, 4}, {2, 3, 4}, x.data(), copy.data(), false);
  gpu_.reorder({2, 3, 4}, {2, 3, 4}, x.data(), sum.data(), true);
  EXPECT_EQ(copy, x);
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(sum[i], before[i] + x[i]);
}

// What was measured once is taken again, also by others that measured the same at the same time.
TEST(Algorithms, AreKeptInAFile) {
  const std::string folder = testing::TempDir() + "tutti-algorithms";
  std::filesystem::remove_all(folder);
  setenv("TUTTI_CACHE", folder.c_str(), 1);
  using Choice = cuda::Algorithms::Choice;
  const auto never = []() -> Choice { throw std::runtime_error("measured again"); };
  cuda::Algorithms one("GPU x/1"), other("GPU x/1"), third("GPU y");
  EXPECT_EQ(one.at("forward:1", [] { return Choice{3, 1}; }).algorithm, 3);
  EXPECT_EQ(other.at("forward:1", [] { return Choice{4, 0}; }).algorithm, 3);  // the first line counts
  EXPECT_EQ(other.at("forward:1", never).algorithm, 3);
  EXPECT_EQ(cuda::Algorithms("GPU x/1").at("forward:1", never).math, 1);
  EXPECT_EQ(third.at("forward:1", [] { return Choice{5, 0}; }).algorithm, 5);
  setenv("TUTTI_CACHE", "/proc/nowhere", 1);
  cuda::Algorithms unwritable("GPU x/1");
  EXPECT_EQ(unwritable.at("forward:1", [] { return Choice{6, 0}; }).algorithm, 6);
  EXPECT_EQ(unwritable.at("forward:1", never).algorithm, 6);
  std::filesystem::remove_all(folder);
  setenv("TUTTI_CACHE", "", 1);
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// The image operations for GPUs against those of the CPU, over the stand-ins of the runtime and of cuDNN: every
// operation in both directions, with and without adding, on windows of all kinds.
#include "backend/cuda/images.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <stdexcept>

#include "tutti/backend.h"

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
  void compare(const char* what, const Values& start, const std::function<void(ImageBackend&, float*)>& work) {
    Values on_cpu = start, on_gpu = start;
    work(cpu_->images(), on_cpu.data());
    work(gpu_, on_gpu.data());
    expect_close(on_gpu, on_cpu, what);
  }

  std::unique_ptr<Backend> cpu_ = make_backend("cpu");
  cuda::CudaImages gpu_{"stand-in", ComputeType::float32, nullptr};
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
            compare("forward", random_values(dy.size(), 7), [&](ImageBackend& b, float* y) {
              b.plan_convolution(s)->forward(x.data(), k.data(), fused ? bias.data() : nullptr, y, add);
            });
          if (fused) continue;
          compare("gradient of the image", random_values(x.size(), 8), [&](ImageBackend& b, float* dx) {
            b.plan_convolution(s)->backward_data(dy.data(), k.data(), dx, add);
          });
          compare("gradient of the weights", random_values(k.size(), 9), [&](ImageBackend& b, float* dw) {
            b.plan_convolution(s)->backward_weights(x.data(), dy.data(), dw, add);
          });
        }
      }
}

TEST_F(Images, Poolings) {
  unsigned seed = 0;
  for (const ImageWindow& w : windows())
    for (const PoolingOp op : {PoolingOp::max, PoolingOp::average}) {
      SCOPED_TRACE(testing::Message() << "window " << seed / 2);
      PoolingShape s;
      s.op = op, s.window = w, s.columns = 2, s.channels = 3;
      const std::size_t small = 6 * ImageWindow::product(w.out), large = 6 * ImageWindow::product(w.in);
      const Values x = coarse_values(large, ++seed), dy = random_values(small, seed + 50);
      for (const bool add : {false, true}) {
        // The result, then the gradient.
        compare("pooling", random_values(small + large, 3), [&](ImageBackend& b, float* both) {
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
  compare("pooling", random_values(small + large, 3), [&](ImageBackend& b, float* both) {
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
      for (const bool fused : {false, true})
        for (const bool add : {false, true}) {
          SCOPED_TRACE(testing::Message() << extent.columns << " columns, " << extent.channels << " channels");
          BatchNormalization op;
          op.extent = extent, op.training = training, op.relu = op.add = fused;
          op.running_weight = training ? 0.25 : 0, op.update = training ? 0.125 : 0;
          const std::size_t c = extent.channels, n = extent.columns * c * extent.pixels;
          const Values x = random_values(n, ++seed), more = random_values(n, seed + 1), dy = random_values(n, seed + 2),
                       scale = random_values(c, seed + 3), bias = random_values(c, seed + 4);
          // y, running mean and variance, dx, dadded, dscale, dbias, and dy.
          Values all = random_values(4 * n + 4 * c, seed + 5);
          for (std::size_t i = 0; i < c; ++i) all[n + c + i] = std::fabs(all[n + c + i]) + 0.5f;
          std::copy(dy.begin(), dy.end(), all.begin() + static_cast<long>(3 * n + 4 * c));
          compare("batch normalisation", all, [&](ImageBackend& b, float* v) {
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
        compare("bias", random_values(n + extent.channels, 5), [&](ImageBackend& b, float* v) {
          b.bias_relu_gradient(extent, relu ? y.data() : nullptr, v, v + n, add);
        });
      }
}

TEST_F(Images, ResponseNormalizations) {
  for (const std::size_t radius : {0, 1, 2, 5})
    for (const bool add : {false, true}) {
      ResponseNormalization op;
      op.extent = {2, 4, 7}, op.radius = radius, op.bias = 2, op.alpha = 0.3, op.beta = 0.75;
      const std::size_t n = 56;
      const Values x = random_values(n, 1), dy = random_values(n, 2);
      compare("response", random_values(2 * n, 3), [&](ImageBackend& b, float* v) {
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
      compare("unpooling", random_values(large + small, 4), [&](ImageBackend& b, float* v) {
        b.unpool(s, values.data(), image.data(), v);
        b.unpool_gradient(s, image.data(), dy.data(), v + large, add);
      });
    }
}

TEST_F(Images, Regions) {
  const RegionPooling s{2, 9, 7, 3, 3, 2, 3};
  const Values image = random_values(2 * 63 * 3, 1), dy = random_values(2 * 3 * 3 * 6, 2);
  const Values regions = {0,    0,    1,     1,     0.25f, 0.5f, 0.5f, 0.25f, 0.9f, 0.9f, 0.5f, 0.5f,
                          0.1f, 0.2f, 0.01f, 0.01f, 0,     0,    0.3f, 1,     0.5f, 0,    0.5f, 0.5f};
  for (const bool add : {false, true})
    compare("regions", random_values(dy.size() + image.size(), 3), [&](ImageBackend& b, float* v) {
      Values work(dy.size());
      b.pool_regions(s, image.data(), regions.data(), v, work.data());
      b.pool_regions_gradient(s, dy.data(), work.data(), v + dy.size(), add);
    });
}

TEST_F(Images, PlainImagesAreCopiedOrAdded) {
  const Values x = random_values(24, 1), before = random_values(24, 2);
  Values copy = before, sum = before;
  gpu_.reorder({2, 3, 4}, Format::plain, x.data(), copy.data(), false);
  gpu_.reorder({2, 3, 4}, Format::plain, x.data(), sum.data(), true);
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

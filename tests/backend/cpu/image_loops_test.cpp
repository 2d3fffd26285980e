// SPDX-License-Identifier: Apache-2.0
// Our own loops over blocked images: pooling as in plain images by oneDNN, gradients of weights as plain sums.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/instruction_set.h"

namespace tutti::image_loops_test {
namespace {

// Whole numbers, so that sums are exact, and few, so that maxima are often equal.
std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> v(count);
  for (auto& x : v) x = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return v;
}

ImageWindow window(std::size_t rank, ImageWindow::Sizes in, ImageWindow::Sizes kernel, ImageWindow::Sizes stride,
                   ImageWindow::Sizes pad) {
  ImageWindow w{.rank = rank, .in = in, .kernel = kernel, .stride = stride, .pad = pad};
  for (std::size_t axis = 0; axis < rank; ++axis)
    w.out[axis] = (in[axis] + 2 * pad[axis] - kernel[axis]) / stride[axis] + 1;
  return w;
}

const std::vector<ImageWindow> windows = {
    window(2, {6, 4, 1}, {2, 2, 1}, {2, 2, 1}, {0, 0, 0}), window(2, {7, 9, 1}, {3, 3, 1}, {2, 2, 1}, {1, 1, 0}),
    window(2, {5, 5, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 0}), window(2, {11, 6, 1}, {7, 5, 1}, {2, 1, 1}, {3, 2, 0}),
    window(1, {13, 1, 1}, {3, 1, 1}, {2, 1, 1}, {0, 0, 0}), window(2, {9, 8, 1}, {6, 4, 1}, {3, 4, 1}, {0, 0, 0})};

// A backend for every instruction set that this processor has.
template <class Use>
void with_backends(const Use& use) {
  for_each_set([&]<InstructionSet set>() {
    cpu::CpuBackend backend(cpu::kernels<set>());
    use(backend.images());
  });
}

struct Image {
  std::size_t columns, channels, pixels;
  ImageExtent extent(Format f) const { return {columns, channels, pixels, f}; }
  std::size_t floats(const ImageOps& ops, Format f) const {
    const std::size_t block = ops.channel_block();
    return columns * pixels * (f == Format::plain ? channels : (channels + block - 1) / block * block);
  }
  std::vector<float> as(ImageOps& ops, Format from, Format to, const std::vector<float>& x) const {
    if (from == to) return x;
    std::vector<float> y(floats(ops, to));
    ops.reorder(extent(from), extent(to), x.data(), y.data(), false);
    return y;
  }
};

TEST(ImageLoops, BlockedMaximaAreThoseOfPlainImages) {
  with_backends([](ImageOps& ops) {
    for (ImageWindow w : windows)
      for (const std::size_t channels : {1u, 8u, 19u})
        for (const bool add : {false, true}) {
          const Image in{3, channels, ImageWindow::product(w.in)}, out{3, channels, ImageWindow::product(w.out)};
          const auto x = numbers(in.floats(ops, Format::plain), 1), dy = numbers(out.floats(ops, Format::plain), 2),
                     before = numbers(x.size(), 3);
          std::vector<float> y[2], dx[2];
          for (const Format f : {Format::plain, Format::blocked}) {
            const auto plan = ops.plan_pooling(
                {.op = PoolingOp::max, .window = w, .columns = 3, .channels = channels, .format = f});
            std::vector<float> result(out.floats(ops, f)), work(result.size());
            std::vector<float> gradient = in.as(ops, Format::plain, f, before);
            plan->forward(in.as(ops, Format::plain, f, x).data(), result.data(), work.data());
            plan->backward(out.as(ops, Format::plain, f, dy).data(), work.data(), gradient.data(), add);
            y[f == Format::blocked] = out.as(ops, f, Format::plain, result);
            dx[f == Format::blocked] = in.as(ops, f, Format::plain, gradient);
          }
          ASSERT_EQ(y[0], y[1]);
          ASSERT_EQ(dx[0], dx[1]);
        }
  });
}

TEST(ImageLoops, WhatIsNotANumberWins) {
  with_backends([](ImageOps& ops) {
    const std::size_t block = ops.channel_block();
    std::vector<float> x(4 * block, 5.0f), y(block), work(block);
    x[2 * block + 3] = std::nanf("");
    const auto plan = ops.plan_pooling({.op = PoolingOp::max,
                                        .window = window(2, {2, 2, 1}, {2, 2, 1}, {2, 2, 1}, {0, 0, 0}),
                                        .columns = 1,
                                        .channels = block,
                                        .format = Format::blocked});
    plan->forward(x.data(), y.data(), work.data());
    for (std::size_t c = 0; c < block; ++c) EXPECT_EQ(std::isnan(y[c]), c == 3);
  });
}

double weight_gradient(const ConvolutionShape& s, const std::vector<float>& x, const std::vector<float>& dy,
                       std::size_t o, std::size_t c, std::size_t ky, std::size_t kx) {
  const ImageWindow& w = s.window;
  double sum = 0;
  for (std::size_t n = 0; n < s.columns; ++n)
    for (std::size_t oy = 0; oy < w.out[1]; ++oy)
      for (std::size_t ox = 0; ox < w.out[0]; ++ox) {
        const std::size_t y = oy * w.stride[1] + ky - w.pad[1], in = ox * w.stride[0] + kx - w.pad[0];
        if (y >= w.in[1] || in >= w.in[0]) continue;  // negative ones are huge
        sum += static_cast<double>(x[((n * s.in_channels + c) * w.in[1] + y) * w.in[0] + in]) *
               dy[((n * s.out_channels + o) * w.out[1] + oy) * w.out[0] + ox];
      }
  return sum;
}

TEST(ImageLoops, GradientsOfWeightsOfFewChannels) {
  with_backends([](ImageOps& ops) {
    for (const ImageWindow& w : windows)
      for (const std::size_t channels : {1u, 2u})
        for (const std::size_t outputs : {1u, 20u})
          for (const bool add : {false, true}) {
            const ConvolutionShape s{.window = w,
                                     .columns = 3,
                                     .in_channels = channels,
                                     .out_channels = outputs,
                                     .in = Format::plain,
                                     .out = Format::blocked};
            const Image out{3, outputs, ImageWindow::product(w.out)};
            const auto x = numbers(3 * channels * ImageWindow::product(w.in), 1),
                       dy = numbers(out.floats(ops, Format::plain), 2);
            std::vector<float> dw(ImageWindow::product(w.kernel) * channels * outputs, 7.0f);
            ops.plan_convolution(s)->backward_weights(x.data(), out.as(ops, Format::plain, Format::blocked, dy).data(),
                                                      dw.data(), add);
            std::size_t i = 0;
            for (std::size_t o = 0; o < outputs; ++o)
              for (std::size_t c = 0; c < channels; ++c)
                for (std::size_t ky = 0; ky < w.kernel[1]; ++ky)
                  for (std::size_t kx = 0; kx < w.kernel[0]; ++kx)
                    ASSERT_EQ(dw[i++], weight_gradient(s, x, dy, o, c, ky, kx) + (add ? 7.0 : 0.0));
          }
  });
}

}  // namespace
}  // namespace tutti::image_loops_test

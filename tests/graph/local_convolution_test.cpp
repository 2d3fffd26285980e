// SPDX-License-Identifier: Apache-2.0
// Convolution with sharing = false against a plain loop over its definition, for sharing along some of the axes as
// well; with equal weights everywhere it is the ordinary convolution.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_builder.h"

namespace tutti::local_convolution_test {
namespace {

using test::Attributes;
using test::Data;
using test::GraphBuilder;
using List = std::vector<double>;

constexpr std::size_t width = 6, height = 5, channels = 3, maps = 4, columns = 3;

struct Case {
  std::size_t kernel_x, kernel_y, stride;
  std::array<std::size_t, 2> lower, upper;
  std::array<bool, 2> shared;

  std::size_t out_x() const { return (width + lower[0] + upper[0] - kernel_x) / stride + 1; }
  std::size_t out_y() const { return (height + lower[1] + upper[1] - kernel_y) / stride + 1; }
  std::size_t kernels() const { return (shared[0] ? 1 : out_x()) * (shared[1] ? 1 : out_y()); }
  Attributes attributes() const {
    const auto list = [](double a, double b) { return List{a, b, 0}; };
    return {{"kernelDims", List{static_cast<double>(kernel_x), static_cast<double>(kernel_y)}},
            {"mapDims", List{static_cast<double>(maps)}},
            {"stride", List{static_cast<double>(stride)}},
            {"lowerPad", list(static_cast<double>(lower[0]), static_cast<double>(lower[1]))},
            {"upperPad", list(static_cast<double>(upper[0]), static_cast<double>(upper[1]))},
            {"sharing", list(shared[0] ? 1 : 0, shared[1] ? 1 : 0)}};
  }
};

const std::vector<Case> cases = {{3, 2, 1, {0, 0}, {0, 0}, {false, false}}, {3, 3, 1, {1, 1}, {1, 1}, {false, false}},
                                 {3, 3, 2, {1, 0}, {0, 2}, {false, false}}, {2, 3, 1, {0, 1}, {1, 1}, {true, false}},
                                 {2, 3, 2, {0, 0}, {1, 1}, {false, true}},  {6, 5, 1, {0, 0}, {0, 0}, {false, false}}};

std::vector<float> run(const Case& c, const std::vector<float>& image, const std::vector<float>& weights,
                       List weight_dims, Attributes attributes) {
  GraphBuilder b;
  const auto x =
      b.add("Reshape", "image", {b.input("x", {width * height * channels})}, {{"dims", List{width, height, channels}}});
  const auto y = b.add("Convolution", "y", {b.parameter("W", std::move(weight_dims)), x}, std::move(attributes));
  b.criterion("SumElements", "sum", {y});
  Network network(b.graph(), {});
  Data data(columns);
  data.dense("x", image);
  network.bind(data.infos);
  network.initialize_parameters();
  EXPECT_EQ(network.parameters().slices.at(0).size(), weights.size());
  std::copy(weights.begin(), weights.end(), network.parameters().weights.data());
  network.plan_evaluation(2, {"y"});
  const auto found = network.forward(data.batch)[0];
  EXPECT_EQ(found.shape, (Shape{{c.out_x(), c.out_y(), maps}}));
  return {found.values.begin(), found.values.end()};
}

std::vector<float> drawn(std::size_t count) {
  std::mt19937 engine(static_cast<unsigned>(count));
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> v(count);
  for (auto& x : v) x = draw(engine);
  return v;
}

TEST(LocalConvolution, EveryWindowHasItsOwnWeights) {
  for (const auto& c : cases) {
    const std::size_t cells = c.kernel_x * c.kernel_y * channels;
    const auto image = drawn(columns * width * height * channels), w = drawn(cells * c.kernels() * maps);
    const auto y = run(c, image, w, {0, maps}, c.attributes());
    const auto at = [&](std::size_t column, std::size_t ox, std::size_t oy, std::size_t map) {
      // Weights: cells of the kernel, windows along the axes without sharing, maps.
      std::size_t window = c.shared[0] ? 0 : ox;
      if (!c.shared[1]) window += oy * (c.shared[0] ? 1 : c.out_x());
      double sum = 0;
      for (std::size_t channel = 0; channel < channels; ++channel)
        for (std::size_t ky = 0; ky < c.kernel_y; ++ky)
          for (std::size_t kx = 0; kx < c.kernel_x; ++kx) {
            const std::size_t px = ox * c.stride + kx, py = oy * c.stride + ky;
            if (px < c.lower[0] || py < c.lower[1] || px - c.lower[0] >= width || py - c.lower[1] >= height) continue;
            const std::size_t cell = kx + c.kernel_x * (ky + c.kernel_y * channel);
            const std::size_t pixel =
                px - c.lower[0] + width * (py - c.lower[1] + height * (channel + channels * column));
            sum +=
                static_cast<double>(image[pixel]) * static_cast<double>(w[cell + cells * (window + c.kernels() * map)]);
          }
      return sum;
    };
    std::size_t i = 0;
    for (std::size_t column = 0; column < columns; ++column)
      for (std::size_t map = 0; map < maps; ++map)
        for (std::size_t oy = 0; oy < c.out_y(); ++oy)
          for (std::size_t ox = 0; ox < c.out_x(); ++ox, ++i) ASSERT_NEAR(y[i], at(column, ox, oy, map), 1e-5);
  }
}

TEST(LocalConvolution, EqualWeightsMakeTheOrdinaryOne) {
  for (const auto& c : cases) {
    const std::size_t cells = c.kernel_x * c.kernel_y * channels;
    const auto image = drawn(columns * width * height * channels), shared = drawn(cells * maps);
    std::vector<float> local;
    for (std::size_t map = 0; map < maps; ++map)
      for (std::size_t k = 0; k < c.kernels(); ++k)
        local.insert(local.end(), shared.begin() + static_cast<long>(cells * map),
                     shared.begin() + static_cast<long>(cells * (map + 1)));
    List dims = {static_cast<double>(c.kernel_x), static_cast<double>(c.kernel_y), channels};
    Attributes ordinary = c.attributes();
    ordinary["sharing"] = List{1};
    List shared_dims = dims, local_dims = dims;
    for (std::size_t axis = 0; axis < 2; ++axis)
      if (!c.shared[axis]) local_dims.push_back(0);  // inferred
    shared_dims.push_back(maps), local_dims.push_back(maps);
    const auto a = run(c, image, shared, shared_dims, ordinary), b = run(c, image, local, local_dims, c.attributes());
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5);
  }
}

std::string error_of(List weight_dims, Attributes attributes) {
  GraphBuilder b;
  const auto x = b.input("x", {width, height, channels});
  b.graph().outputs = {b.add("Convolution", "y", {b.parameter("W", std::move(weight_dims)), x}, std::move(attributes))};
  try {
    Network network(b.graph(), {});
    network.plan_evaluation(1, {"y"});
  } catch (const ConfigError& e) {
    return e.what();
  }
  return {};
}

TEST(LocalConvolution, MistakesAreNamed) {
  EXPECT_THAT(error_of({3, 2, channels, maps}, cases[0].attributes()),
              testing::AllOf(testing::HasSubstr("for 16 windows a kernel"),
                             testing::HasSubstr("windows along the axes without sharing")));
  Attributes grouped = cases[0].attributes();
  grouped["groups"] = 2.0, grouped["mapDims"] = List{6};
  EXPECT_THAT(error_of({0, 6}, grouped), testing::HasSubstr("groups"));
}

}  // namespace
}  // namespace tutti::local_convolution_test

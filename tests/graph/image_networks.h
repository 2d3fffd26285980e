// SPDX-License-Identifier: Apache-2.0
// image_networks.h -- small networks of image layers for the tests of this folder, and what two steps of them give.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "graph_builder.h"

namespace tutti::test {

using List = std::vector<double>;

// Layers with names that count up.
struct Layers {
  GraphBuilder b;
  int count = 0;
  std::string name(const std::string& kind) { return kind + std::to_string(++count); }
  std::size_t convolution(std::size_t x, double from, double to, double kernel = 3, double groups = 1,
                          bool bias = false) {
    const double seed = count;
    const double scale = 20 * 1.7 / std::sqrt(kernel * kernel * from / groups);
    const auto w = b.parameter(name("W"), {kernel, kernel, from / groups, to}, seed, scale);
    const auto y = b.add(
        "Convolution", name("conv"), {w, x},
        {{"kernelDims", List{kernel, kernel}}, {"mapDims", List{to}}, {"autoPadding", List{1}}, {"groups", groups}});
    return bias ? b.add("Plus", name("plus"), {y, b.parameter(name("b"), {1, 1, to}, seed + 0.5)}) : y;
  }
  std::size_t normalized(std::size_t x, double channels) {
    return b.add("BatchNormalization", name("bn"),
                 {x, b.parameter(name("scale"), {channels}, count), b.parameter(name("shift"), {channels}, count),
                  b.constant(name("mean"), 0, {channels}), b.constant(name("variance"), 0, {channels})},
                 {{"spatial", true}});
  }
  std::size_t relu(std::size_t x) { return b.add("RectifiedLinear", name("relu"), {x}); }
  std::size_t pool(std::size_t x, const std::string& type, double size, double stride) {
    return b.add("Pooling", name("pool"), {x},
                 {{"kernelDims", List{size, size}}, {"stride", List{stride}}, {"poolingType", type}});
  }
  std::size_t stack(std::vector<std::size_t> parts) {
    return b.add("RowStack", name("stack"), std::move(parts), {{"axis", 3.0}});
  }
  std::size_t plus(std::size_t x, std::size_t y) { return b.add("Plus", name("sum"), {x, y}); }
  void end(std::size_t x, double elements) {
    const auto flat = b.add("Reshape", name("flat"), {x}, {{"dims", List{elements}}});
    const auto z = b.add("Times", "z", {b.parameter("V", {4, elements}, 77, 10 / std::sqrt(elements)), flat});
    b.criterion("CrossEntropyWithSoftmax", "ce", {b.input("labels", {4}), z});
  }
};

struct ImageNetwork {
  std::string name;
  std::function<void(Layers&)> build;
  std::size_t image, reorders;  // elements of the input; changes of format expected
};
inline void PrintTo(const ImageNetwork& c, std::ostream* out) { *out << c.name; }

struct Result {
  double criterion;
  std::vector<float> gradients, state;
  std::string description;
};

inline Result trained(const ImageNetwork& c, const NetworkOptions& options, std::size_t columns = 6,
                      std::size_t part = 6) {
  Layers l;
  c.build(l);
  Network network(l.b.graph(), options);
  Data data(columns);
  data.random("x", c.image);
  data.one_hot("labels", 4);
  network.bind(data.infos);
  network.initialize_parameters();
  network.plan_training(static_cast<std::int64_t>(part));
  Announced sink;
  Result r;
  for (int step = 0; step < 2; ++step) r.criterion = network.forward_backward(data.batch, sink).criterion;
  network.synchronize();
  r.gradients = gradients(network);
  for (const auto& s : network.state()) r.state.insert(r.state.end(), s.values.begin(), s.values.end());
  r.description = network.describe();
  EXPECT_NEAR(network.evaluate(data.batch).criterion, r.criterion, std::fabs(r.criterion)) << "evaluation is of a kind";
  return r;
}

inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference += std::pow(a[i] - b[i], 2), size += std::pow(b[i], 2);
  return std::sqrt(difference / size);
}

}  // namespace tutti::test

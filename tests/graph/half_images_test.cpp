// SPDX-License-Identifier: Apache-2.0
// Images that lie in 16 bits from one convolution to the next, on a GPU: near float32, in half the memory, with the
// same bits again, and trained alike.
#include <gtest/gtest.h>

#include <string>

#include "../support/on_gpu.h"
#include "image_networks.h"

namespace tutti {
namespace {

using test::Announced;
using test::Data;
using test::distance;
using test::ImageNetwork;
using test::Layers;
using test::Result;
using test::trained;

// All that the sample networks are made of, with values that several operations use.
const ImageNetwork everything{"everything",
                              [](Layers& l) {
                                auto x = l.relu(l.convolution(l.b.input("x", {8, 8, 3}), 3, 16, 3, 1, true));
                                x = l.b.add("LocalResponseNormalization", "lrn", {x}, {{"depthRadius", 2.0}});
                                x = l.pool(x, "max", 2, 2);
                                const auto a = l.relu(l.normalized(l.convolution(x, 16, 16), 16));
                                const auto b = l.relu(l.plus(l.normalized(l.convolution(a, 16, 16), 16), a));
                                const auto c = l.stack({l.convolution(b, 16, 8, 1), b, l.convolution(b, 16, 12, 1)});
                                const auto d = l.b.add("Tanh", "tanh", {l.plus(c, l.convolution(c, 36, 36, 1))});
                                l.end(l.pool(l.b.add("Dropout", "drop", {d}), "average", 4, 1), 36);
                              },
                              8 * 8 * 3, 1};
// A convolution's bias alone, windows that want a frame, numbers of channels that are no multiple of 8, and one that
// lies plain in between.
const ImageNetwork odd{"odd",
                       [](Layers& l) {
                         auto x = l.convolution(l.b.input("x", {7, 5, 3}), 3, 20, 4, 1, true);
                         x = l.convolution(l.pool(x, "max", 2, 1), 20, 17, 2);
                         x = l.convolution(l.b.add("Sigmoid", "s", {x}), 17, 9, 3, 1, true);
                         l.end(x, 6 * 4 * 9);
                       },
                       7 * 5 * 3, 3};

NetworkOptions on_gpu(ComputeType type) {
  NetworkOptions o;
  o.device = "cuda:0", o.compute_type = type;
  return o;
}

class HalfImages : public testing::TestWithParam<ComputeType> {
 protected:
  void SetUp() override { skipped_without_gpu(); }
  // How far one rounding may be from the number, many times over: normalisation blows it up.
  static double near() { return GetParam() == ComputeType::bfloat16 ? 0.1 : 0.015; }
};

TEST_P(HalfImages, GiveTheResultsOfFloat32) {
  for (const ImageNetwork& n : {everything, odd}) {
    SCOPED_TRACE(n.name);
    NetworkOptions wide = on_gpu(GetParam());
    wide.half_values = false;
    const Result exact = trained(n, {}, 2), half = trained(n, on_gpu(GetParam()), 2), full = trained(n, wide, 2);
    for (const Result& r : {half, full}) {
      EXPECT_NEAR(r.criterion, exact.criterion, near() * exact.criterion);
      EXPECT_LT(distance(r.gradients, exact.gradients), near());
      if (!exact.state.empty()) {
        EXPECT_LT(distance(r.state, exact.state), near());
      }
    }
    EXPECT_NE(half.gradients, full.gradients);
    EXPECT_NE(half.description.find(std::to_string(n.reorders) + " image reorders, images in 16 bits"),
              std::string::npos)
        << half.description;
    EXPECT_EQ(full.description.find("16 bits"), std::string::npos) << full.description;
  }
}

TEST_P(HalfImages, NeedHalfTheMemory) {
  const auto megabytes = [](const NetworkOptions& o) {
    Layers l;
    everything.build(l);
    Network network(l.b.graph(), o);
    network.plan_training(1000);
    const std::string words = network.describe(), unit = " MB for values";
    const std::size_t end = words.find(unit), begin = words.rfind(' ', end - 1);
    return std::stod(words.substr(begin, end - begin));
  };
  NetworkOptions wide = on_gpu(GetParam());
  wide.half_values = false;
  const double half = megabytes(on_gpu(GetParam())), full = megabytes(wide);
  EXPECT_LT(half, 0.6 * full);
  EXPECT_GT(half, 0.4 * full);
}

TEST_P(HalfImages, TheSameBitsWhereverTheyLieAndHoweverTheyAreTold) {
  NetworkOptions own = on_gpu(GetParam()), told = on_gpu(GetParam());
  own.reuse_memory = false, told.repeat_steps = false;
  const Result r = trained(everything, on_gpu(GetParam()), 2);
  for (const NetworkOptions& o : {own, told}) {
    const Result other = trained(everything, o, 2);
    EXPECT_EQ(other.gradients, r.gradients);
    EXPECT_EQ(other.state, r.state);
  }
}

// Steepest descent on a few images: what the criterion is in each step.
std::vector<double> course(const NetworkOptions& options, float scale) {
  Layers l;
  auto x = l.relu(l.normalized(l.convolution(l.b.input("x", {6, 6, 3}), 3, 8), 8));
  for (int i = 0; i < 2; ++i) {
    const auto y = l.relu(l.normalized(l.convolution(x, 8, 8), 8));
    x = l.relu(l.plus(l.normalized(l.convolution(y, 8, 8), 8), x));
  }
  l.end(l.pool(x, "average", 6, 1), 8);
  Network network(l.b.graph(), options);
  Data data(6);
  data.random("x", 6 * 6 * 3);
  data.one_hot("labels", 4);
  network.bind(data.infos);
  network.initialize_parameters();
  network.plan_training(6);
  network.scale_gradients(scale);
  std::vector<double> criteria;
  for (int step = 0; step < 12; ++step) {
    Announced sink;
    criteria.push_back(network.forward_backward(data.batch, sink).criterion);
    network.synchronize();
    auto& p = network.parameters();
    for (std::size_t i = 0; i < p.size(); ++i) p.weights.data()[i] -= 0.1f * p.gradients.data()[i];
  }
  return criteria;
}

TEST_P(HalfImages, AreTrainedAlike) {
  const auto exact = course({}, 1), half = course(on_gpu(GetParam()), GetParam() == ComputeType::float16 ? 1024 : 1);
  EXPECT_LT(exact.back(), 0.7 * exact.front()) << "nothing is learned";
  for (std::size_t step = 0; step < exact.size(); ++step)
    EXPECT_NEAR(half[step], exact[step], near() / 10 * exact.front()) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(Types, HalfImages, testing::Values(ComputeType::bfloat16, ComputeType::float16),
                         [](const auto& i) { return i.param == ComputeType::bfloat16 ? "Bfloat16" : "Float16"; });

TEST(WideImages, StayAsTheyAre) {
  if (skipped_without_gpu()) return;
  NetworkOptions wide = on_gpu(ComputeType::tf32);
  const Result r = trained(everything, wide, 2);
  EXPECT_EQ(r.description.find("16 bits"), std::string::npos) << r.description;
  wide.half_values = false;
  EXPECT_EQ(trained(everything, wide, 2).gradients, r.gradients);
}

// What is too large for float16 alone is found where it has come about.
TEST(ImagesInFloat16, AreNamedWhereTheyOverflow) {
  if (skipped_without_gpu()) return;
  Layers l;
  const auto x = l.b.input("x", {4, 4, 8});
  const auto large =
      l.b.add("Convolution", "large", {l.b.parameter("W", {1, 1, 8, 8}, 1, 4e5), x},
              {{"kernelDims", test::List{1, 1}}, {"mapDims", test::List{8}}, {"autoPadding", test::List{1}}});
  l.end(large, 4 * 4 * 8);
  Network network(l.b.graph(), on_gpu(ComputeType::float16));
  Data data(2);
  data.random("x", 4 * 4 * 8, 1, 2);
  data.one_hot("labels", 4);
  network.bind(data.infos);
  network.initialize_parameters();
  network.plan_training(2);
  Announced sink;
  try {
    network.forward_backward(data.batch, sink);
    FAIL() << "the criterion is a number";
  } catch (const NumericError& e) {
    EXPECT_EQ(e.node, "large");
  }
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Values that lie in 16 bits from one dense layer to the next, on a GPU: what products would round anyway gives the
// same numbers, everything else comes near.
#include <gtest/gtest.h>

#include <string>

#include "../support/on_gpu.h"
#include "image_networks.h"

namespace tutti::half_values_test {
namespace {

using test::Announced;
using test::Data;
using test::distance;
using test::GraphBuilder;
using test::ImageNetwork;
using test::Layers;
using test::Result;
using test::trained;

// W x + bias; the bias is exact in 16 bits.
std::size_t dense(Layers& l, std::size_t x, double from, double to, bool bias = true) {
  const auto w = l.b.parameter(l.name("W"), {to, from}, l.count, 30 / std::sqrt(from));
  const auto y = l.b.add("Times", l.name("times"), {w, x});
  if (!bias) return y;
  const auto b = l.b.add("LearnableParameter", l.name("b"), {},
                         {{"dims", test::List{to}}, {"init", std::string("fixedValue")}, {"value", 0.125}});
  return l.b.add("Plus", l.name("plus"), {y, b});
}

// Products and ReLU alone; a layer of a width that is no multiple of 8 stays float32.
const ImageNetwork rectified{"rectified",
                             [](Layers& l) {
                               auto x = l.relu(dense(l, l.b.input("x", {24}), 24, 40));
                               x = l.relu(dense(l, l.relu(dense(l, x, 40, 32, false)), 32, 20));
                               l.end(l.relu(dense(l, dense(l, x, 20, 48), 48, 16)), 16);
                             },
                             24, 0};
const ImageNetwork mixed{"mixed",
                         [](Layers& l) {
                           auto x = l.b.add("Sigmoid", "s", {dense(l, l.b.input("x", {24}), 24, 40)});
                           x = l.b.add("Dropout", "drop", {x}, {{"rate", 0.25}});
                           x = l.b.add("Tanh", "t", {dense(l, x, 40, 64)});
                           const auto y = l.relu(dense(l, x, 64, 32));
                           l.end(l.b.add("Dropout", "drop2", {l.plus(dense(l, y, 32, 32), y)}, {{"rate", 0.5}}), 32);
                         },
                         24, 0};
// Normalised element by element, with sums; what is scaled by a parameter stays float32.
const ImageNetwork normalized{
    "normalized",
    [](Layers& l) {
      const auto normal = [&](std::size_t x, double n) {
        return l.b.add("BatchNormalization", l.name("bn"),
                       {x, l.b.parameter(l.name("scale"), {n}, l.count), l.b.parameter(l.name("shift"), {n}, l.count),
                        l.b.constant(l.name("mean"), 0, {n}), l.b.constant(l.name("variance"), 0, {n})});
      };
      const auto x = l.relu(normal(dense(l, l.b.input("x", {24}), 24, 40, false), 40));
      const auto y = l.relu(l.plus(normal(dense(l, x, 40, 40, false), 40), x));
      const auto z = l.b.add("ElementTimes", "gate", {l.b.add("Sigmoid", "s", {dense(l, y, 40, 40)}), y});
      l.end(l.b.add("ElementTimes", "scaled", {dense(l, z, 40, 16), l.b.parameter("of each", {16}, 5)}), 16);
    },
    24, 0};
const ImageNetwork behind_images{
    "behind images",
    [](Layers& l) {
      auto x = l.pool(l.relu(l.convolution(l.b.input("x", {6, 6, 3}), 3, 16, 3, 1, true)), "max", 2, 2);
      x = l.b.add("Reshape", "flatten", {x}, {{"dims", test::List{3 * 3 * 16}}});
      l.end(l.b.add("Dropout", "drop", {l.relu(dense(l, x, 3 * 3 * 16, 32))}, {{"rate", 0.25}}), 32);
    },
    6 * 6 * 3, 1};
const std::string words = "between dense layers 16 bits";

NetworkOptions on_gpu(ComputeType type, bool half_values = true) {
  NetworkOptions o;
  o.device = "cuda:0", o.compute_type = type, o.half_values = half_values;
  return o;
}

class HalfValues : public testing::TestWithParam<ComputeType> {
 protected:
  void SetUp() override { skipped_without_gpu(); }
  static double near() { return GetParam() == ComputeType::bfloat16 ? 0.05 : 0.015; }
};

TEST_P(HalfValues, GiveTheResultsOfFloat32) {
  for (const ImageNetwork& n : {rectified, mixed, normalized, behind_images}) {
    SCOPED_TRACE(n.name);
    const Result exact = trained(n, {}, 4), half = trained(n, on_gpu(GetParam()), 4),
                 wide = trained(n, on_gpu(GetParam(), false), 4);
    for (const Result& r : {half, wide}) {
      EXPECT_NEAR(r.criterion, exact.criterion, near() * exact.criterion);
      EXPECT_LT(distance(r.gradients, exact.gradients), near());
      if (!exact.state.empty()) {
        EXPECT_LT(distance(r.state, exact.state), near());
      }
    }
    EXPECT_NE(half.gradients, wide.gradients);
    EXPECT_NE(half.description.find(words), std::string::npos) << half.description;
    EXPECT_EQ(wide.description.find("16 bits"), std::string::npos) << wide.description;
  }
}

// What lies in 16 bits is what products make of their operands. Only gradients of a bias are sums of rounded numbers.
TEST_P(HalfValues, AreWhatProductsReadAnyway) {
  if (!counted_calls()) GTEST_SKIP() << "a GPU adds products up in another order";
  const auto gradients = [](const NetworkOptions& options) {
    Layers l;
    rectified.build(l);
    Network network(l.b.graph(), options);
    Data data(5);
    data.random("x", rectified.image);
    data.one_hot("labels", 4);
    network.bind(data.infos);
    network.initialize_parameters();
    network.plan_training(3);  // in two parts
    Announced sink;
    std::vector<float> found{static_cast<float>(network.forward_backward(data.batch, sink).criterion)};
    const Parameters& p = network.parameters();
    for (const Slice& s : p.slices)
      if (s.shape.rank() > 1)
        found.insert(found.end(), p.gradients.data() + s.offset, p.gradients.data() + s.offset + s.size());
    return found;
  };
  EXPECT_EQ(gradients(on_gpu(GetParam())), gradients(on_gpu(GetParam(), false)));
}

TEST_P(HalfValues, NeedHalfTheMemory) {
  const auto megabytes = [](const ImageNetwork& n, const NetworkOptions& o) {
    Layers l;
    n.build(l);
    Network network(l.b.graph(), o);
    network.plan_training(10000);
    const std::string text = network.describe(), unit = " MB for values";
    const std::size_t end = text.find(unit), begin = text.rfind(' ', end - 1);
    return std::stod(text.substr(begin, end - begin));
  };
  for (const ImageNetwork& n : {rectified, normalized}) {
    const double half = megabytes(n, on_gpu(GetParam())), full = megabytes(n, on_gpu(GetParam(), false));
    EXPECT_LT(half, 0.65 * full) << n.name;
  }
}

TEST_P(HalfValues, TheSameBitsWhereverTheyLieAndHoweverTheyAreTold) {
  NetworkOptions own = on_gpu(GetParam()), told = on_gpu(GetParam());
  own.reuse_memory = false, told.repeat_steps = false;
  for (const ImageNetwork& n : {mixed, normalized, behind_images}) {
    const Result r = trained(n, on_gpu(GetParam()), 4);
    for (const NetworkOptions& o : {own, told}) EXPECT_EQ(trained(n, o, 4).gradients, r.gradients);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfValues, testing::Values(ComputeType::bfloat16, ComputeType::float16),
                         [](const auto& i) { return i.param == ComputeType::bfloat16 ? "Bfloat16" : "Float16"; });

TEST(WideValues, StayAsTheyAre) {
  EXPECT_EQ(trained(mixed, {}).description.find(words), std::string::npos);
  if (skipped_without_gpu()) return;
  for (const ComputeType type : {ComputeType::float32, ComputeType::tf32}) {
    const Result r = trained(mixed, on_gpu(type));
    EXPECT_EQ(r.description.find(words), std::string::npos) << r.description;
    EXPECT_EQ(trained(mixed, on_gpu(type, false)).gradients, r.gradients);
  }
}

}  // namespace
}  // namespace tutti::half_values_test

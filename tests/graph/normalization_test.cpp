// SPDX-License-Identifier: Apache-2.0
// Batch normalisation: what is normalised with what, the running statistics and what of them is kept and
// shared.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph_builder.h"
#include "tutti/gradient_check.h"

namespace tutti::normalization_test {
namespace {

using test::Announced;
using test::Attributes;
using test::Data;
using test::GraphBuilder;
using List = std::vector<double>;

constexpr double infinity = std::numeric_limits<double>::infinity();

// y = bn(x) per element, or bn(before(x)); x = features * P with P = 1; the criterion is the sum of y.
struct Net {
  explicit Net(Attributes attributes, std::size_t elements = 3, const std::string& before = {}) {
    GraphBuilder b;
    const auto n = static_cast<double>(elements);
    const auto one =
        b.add("LearnableParameter", "P", {}, {{"dims", List{n}}, {"init", std::string("fixedValue")}, {"value", 1.0}});
    auto x = b.add("ElementTimes", "x", {one, b.input("features", {n})});
    if (!before.empty()) x = b.add(before, "before", {x});
    y = b.add("BatchNormalization", "bn",
              {x, b.constant("scale", 2, {n}), b.constant("bias", 0.5, {n}), b.constant("mean", 0, {n}),
               b.constant("variance", 0, {n})},
              std::move(attributes));
    b.criterion("SumElements", "total", {y});
    network = std::make_unique<Network>(b.graph(), NetworkOptions{});
    network->initialize_parameters();
    network->plan_training(4);
  }
  void train(Data& data) {
    network->bind(data.infos);
    Announced sink;
    network->forward_backward(data.batch, sink);
  }
  std::vector<float> outputs(Data& data) {
    network->bind(data.infos);
    network->plan_evaluation(4, {"bn"});
    const auto values = network->forward(data.batch)[0].values;
    return {values.begin(), values.end()};
  }
  std::span<float> state(const std::string& name) {
    for (auto& s : network->state())
      if (s.name == name) return s.values;
    ADD_FAILURE() << "no state " << name;
    return {};
  }
  std::unique_ptr<Network> network;
  std::size_t y = 0;
};

std::unique_ptr<Data> data_of(std::vector<float> values, std::size_t columns) {
  auto d = std::make_unique<Data>(columns);
  d->dense("features", std::move(values));
  return d;
}

TEST(BatchNormalization, RunningStatisticsFollowTheTimeConstant) {
  struct Case {
    double constant, second_weight;
  };
  for (const auto& c : {Case{0, 1}, Case{infinity, 0}, Case{8, 1 - std::exp(-4.0 / 8)}, Case{-1, 4.0 / (4 + 2)}}) {
    SCOPED_TRACE(c.constant);
    Net net({{"normalizationTimeConstant", c.constant}}, 1);
    auto first = data_of({1, 3}, 2);
    auto second = data_of({4, 4, 8, 8}, 4);
    net.train(*first);  // nothing was seen before: the statistics are those of the minibatch
    EXPECT_EQ(net.state("mean")[0], 2);
    EXPECT_EQ(net.state("variance")[0], 1);
    EXPECT_EQ(net.state("bn")[0], 2);
    net.train(*second);
    EXPECT_FLOAT_EQ(net.state("mean")[0], static_cast<float>(2 * (1 - c.second_weight) + 6 * c.second_weight));
    EXPECT_FLOAT_EQ(net.state("variance")[0], static_cast<float>(1 * (1 - c.second_weight) + 4 * c.second_weight));
    EXPECT_EQ(net.state("bn")[0], 6);
  }
}

TEST(BatchNormalization, InferenceUsesTheRunningStatistics) {
  Net net({{"epsilon", 1e-9}}, 1);
  auto first = data_of({1, 3}, 2);
  net.train(*first);
  auto other = data_of({2, 3, 10}, 3);
  const auto y = net.outputs(*other);
  ASSERT_EQ(y.size(), 3u);
  EXPECT_NEAR(y[0], 0.5, 1e-6);
  EXPECT_NEAR(y[1], 2.5, 1e-6);
  EXPECT_NEAR(y[2], 16.5, 1e-5);
  EXPECT_EQ(net.state("bn")[0], 2) << "looking changes nothing";
}

TEST(BatchNormalization, TheCheckOfGradientsLeavesStatisticsAlone) {
  Net net({{"blendTimeConstant", 8.0}}, 1);
  auto first = data_of({1, 3}, 2);
  net.network->bind(first->infos);
  for (const auto& m : check_gradients(*net.network, first->batch)) EXPECT_NEAR(m.numeric, m.analytic, 1e-3);
  for (const char* name : {"mean", "variance", "bn"}) EXPECT_EQ(net.state(name)[0], 0) << name;
  net.train(*first);
  EXPECT_EQ(net.state("mean")[0], 2);
}

TEST(BatchNormalization, DataThatAreNotFiniteAreToldBeforeTheStatisticsThatTheySpoil) {
  Net net({}, 1);
  auto data = data_of({1, std::numeric_limits<float>::quiet_NaN()}, 2);
  try {
    net.train(*data);
    FAIL();
  } catch (const NumericError& e) {
    EXPECT_EQ(e.node, "features");
  }
}

TEST(BatchNormalization, ANodeThatIsNotFiniteIsToldBeforeTheStatisticsThatItSpoils) {
  Net net({}, 1, "Exp");
  auto data = data_of({1, 200}, 2);
  try {
    net.train(*data);
    FAIL();
  } catch (const NumericError& e) {
    EXPECT_EQ(e.node, "before");
  }
}

TEST(BatchNormalization, StatisticsThatAreNotFiniteAreTold) {
  Net net({{"blendTimeConstant", 8.0}}, 1);
  net.state("mean")[0] = std::numeric_limits<float>::quiet_NaN();
  net.state("bn")[0] = 4;
  auto data = data_of({1, 3}, 2);
  try {
    net.train(*data);
    FAIL();
  } catch (const NumericError& e) {
    EXPECT_EQ(e.node, "mean");
  }
}

TEST(BatchNormalization, BothTimeConstantsInfiniteIsFrozen) {
  Net net({{"normalizationTimeConstant", infinity}, {"blendTimeConstant", infinity}}, 1);
  net.state("mean")[0] = 5, net.state("variance")[0] = 4;
  auto first = data_of({1, 3}, 2);
  net.train(*first);
  EXPECT_EQ(net.state("mean")[0], 5);
  EXPECT_EQ(net.state("variance")[0], 4);
}

TEST(BatchNormalization, WithoutEndTheBlendBeginsWithTheMinibatch) {
  Net net({{"blendTimeConstant", infinity}, {"epsilon", 1e-9}}, 1);
  const auto criterion = [&](Data& data) {
    net.network->bind(data.infos);
    Announced sink;
    return net.network->forward_backward(data.batch, sink).criterion;
  };
  auto first = data_of({1, 3}, 2), second = data_of({7, 9}, 2);
  EXPECT_NEAR(criterion(*first), 2 * 0.5, 1e-5) << "normalised by its own statistics";
  EXPECT_NEAR(criterion(*second), 2 * (5 + 7) + 2 * 0.5, 1e-4) << "normalised by those of the first";
}

TEST(BatchNormalization, TheModeReplacesTheNodesTimeConstants) {
  Net net({{"normalizationTimeConstant", 0.0}}, 1);
  NetworkMode mode;
  mode.normalization_time_constant = infinity;
  net.network->set_mode(mode);
  auto first = data_of({1, 3}, 2), second = data_of({7, 9}, 2);
  net.train(*first);
  net.train(*second);
  EXPECT_EQ(net.state("mean")[0], 2);
}

TEST(BatchNormalization, AnEmptyShareChangesNothing) {
  Net net({{"normalizationTimeConstant", 0.0}}, 1);
  auto first = data_of({1, 3}, 2), none = data_of({}, 0);
  none->infos[0].dim = 1;
  net.train(*first);
  net.train(*none);
  EXPECT_EQ(net.state("mean")[0], 2);
  EXPECT_EQ(net.state("bn")[0], 2);
  for (const float g : net.network->parameters().gradients.span()) EXPECT_EQ(g, 0);
}

TEST(BatchNormalization, ManyChannelsAndLargeMeans) {
  constexpr std::size_t channels = 37, columns = 4;
  Net net({{"epsilon", 1e-7}}, channels);
  std::vector<float> values;
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t i = 0; i < channels; ++i) values.push_back(10000.0f + static_cast<float>(i + 2 * c));
  auto data = data_of(values, columns);
  net.train(*data);
  for (std::size_t i = 0; i < channels; ++i) {
    EXPECT_EQ(net.state("mean")[i], 10003.0f + static_cast<float>(i));
    EXPECT_EQ(net.state("variance")[i], 5);
  }
}

TEST(BatchNormalization, StatisticsOfRanksAreWeightedBySamples) {
  Net a({{"normalizationTimeConstant", 0.0}}, 1), b({{"normalizationTimeConstant", 0.0}}, 1),
      idle({{"normalizationTimeConstant", 0.0}}, 1);
  auto first = data_of({1, 3}, 2), second = data_of({4, 4, 8, 8}, 4);
  a.train(*first);
  b.train(*second);
  std::vector<std::vector<double>> sums;
  const auto collect = [&](Net& net) {
    net.network->average_statistics([&](std::span<double> s) { sums.emplace_back(s.begin(), s.end()); });
  };
  // What every rank would send, then what all of them receive.
  for (Net* net : {&a, &b, &idle}) collect(*net);
  std::vector<double> total(sums[0].size());
  for (const auto& s : sums)
    for (std::size_t i = 0; i < s.size(); ++i) total[i] += s[i];
  for (Net* net : {&a, &b, &idle}) {
    net->network->average_statistics([&](std::span<double> s) { std::copy(total.begin(), total.end(), s.begin()); });
    EXPECT_FLOAT_EQ(net->state("mean")[0], static_cast<float>((2 * 2 + 6 * 4) / 6.0));
    EXPECT_FLOAT_EQ(net->state("variance")[0], static_cast<float>((1 * 2 + 4 * 4) / 6.0));
    EXPECT_EQ(net->state("bn")[0], 2) << "samples seen: the mean over the ranks";
  }
}

TEST(BatchNormalization, RunningStatisticsMustNotBeTrained) {
  GraphBuilder b;
  const auto x = b.add("ElementTimes", "x", {b.parameter("P", {3}), b.input("features", {3})});
  b.criterion("SumElements", "total",
              {b.add("BatchNormalization", "bn",
                     {x, b.parameter("scale", {3}), b.parameter("bias", {3}), b.parameter("mean", {3}),
                      b.constant("variance", 0, {3})})});
  EXPECT_THROW(Network(b.graph(), {}), ConfigError);
}

TEST(BatchNormalization, RegularizationCanBeLeftOut) {
  GraphBuilder b;
  const auto x = b.add("ElementTimes", "x", {b.parameter("P", {3}), b.input("features", {3})});
  b.criterion("SumElements", "total",
              {b.add("BatchNormalization", "bn",
                     {x, b.parameter("scale", {3}), b.parameter("bias", {3}), b.constant("mean", 0, {3}),
                      b.constant("variance", 0, {3})})});
  NetworkOptions options;
  options.regularize_normalization = false;
  Network network(b.graph(), options);
  for (const auto& s : network.parameters().slices)
    EXPECT_EQ(s.regularization_multiplier, s.name == "P" ? 1 : 0) << s.name;
}

TEST(BatchNormalization, MinibatchesAreNotWorkedOffInParts) {
  Net whole({}, 2), parted({}, 2);
  auto data = data_of({1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233}, 6);  // planned for 4 columns
  whole.network->plan_training(6);
  whole.train(*data);
  parted.train(*data);
  EXPECT_EQ(whole.state("mean")[0], parted.state("mean")[0]);
  EXPECT_EQ(test::gradients(*whole.network), test::gradients(*parted.network));
}

}  // namespace
}  // namespace tutti::normalization_test

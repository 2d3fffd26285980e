// SPDX-License-Identifier: Apache-2.0
#include "optim/weight_average.h"

#include <algorithm>

#include "support.h"

namespace tutti::weight_average_test {
namespace {

using testing::copy;
using testing::Floats;

TEST(WeightAverage, FollowsTheFormulaAndIsSwappedAndSaved) {
  std::mt19937 engine(4);
  Parameters p = testing::make_parameters({{7, 5}, {3000, 1}}), q = testing::make_parameters({{7, 5}, {3000, 1}});
  testing::fill(p.weights, p, engine, 1);
  const double decay = 0.6;
  WeightAverage average(decay), loaded(decay);
  average.bind(p), loaded.bind(q);
  average.restart();
  Floats expected = copy(p.weights);
  const auto step = [&](int n) {
    testing::fill(p.weights, p, engine, 1);
    average.update();
    const float move = static_cast<float>(1 - std::min(decay, (1.0 + n) / (10.0 + n)));
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += move * (p.weights.data()[i] - expected[i]);
  };
  for (int n = 0; n < 8; ++n) step(n);
  testing::MemoryArchive archive;
  average.archive(archive);
  EXPECT_TRUE(WeightAverage::is_in(archive));
  archive.reading = true;
  loaded.archive(archive);
  for (int n = 8; n < 20; ++n) {
    step(n);
    std::copy_n(p.weights.data(), p.size(), q.weights.data());
    loaded.update();
  }
  const Floats weights = copy(p.weights);
  average.swap(), loaded.swap();
  EXPECT_EQ(copy(p.weights), expected);
  EXPECT_EQ(copy(q.weights), expected);
  average.swap();
  EXPECT_EQ(copy(p.weights), weights);
}

}  // namespace
}  // namespace tutti::weight_average_test

// SPDX-License-Identifier: Apache-2.0
// Convolutions by plans of cuDNN's graphs, over its emulator: which engines may be taken, which are, and that a choice
// that was kept is not measured again. the emulator is quicker by plans where windows go on by single steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "../../support/cuda_emulator/calls.h"
#include "backend/cuda/convolution_plans.h"
#include "backend/cuda/cudnn.h"
#include "backend/cuda/images.h"
#include "tutti/backend.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

using Values = std::vector<float>;
using Names = std::vector<std::string>;

Values numbers(std::size_t n, unsigned seed) {
  std::minstd_rand engine(seed);
  Values v(n);
  for (float& x : v) x = static_cast<float>(engine() % 64) / 16 - 2;
  return v;
}

ConvolutionGraph graph() {
  ConvolutionGraph g;
  g.tensors[ConvolutionGraph::x] = {{2, 4, 5, 6}, {120, 30, 6, 1}};
  g.tensors[ConvolutionGraph::w] = {{8, 4, 3, 3}, {36, 9, 3, 1}};
  g.tensors[ConvolutionGraph::y] = {{2, 8, 5, 6}, {240, 30, 6, 1}};
  g.tensors[ConvolutionGraph::bias] = {{1, 8, 1, 1}, {8, 1, 1, 1}};
  g.pads = g.strides = {1, 1};
  return g;
}

// By the numbers that the emulator gives them; it proposes first those that must not be taken.
TEST(Plans, EnginesFollowTheRules) {
  const Cudnn handle = make_cudnn(nullptr);
  const ConvolutionPlans plans(graph(), handle.get(), nullptr);
  EXPECT_EQ(plans.names({}, 10), (Names{"5:2=0,", "6:2=0,", "7:2=0,", "8:2=0,", "0:2=0,", "0:2=1,"}));
  EXPECT_EQ(plans.names({.winograd = true}, 10),
            (Names{"5:2=0,", "6:2=0,", "7:2=0,", "8:2=0,", "4:2=0,", "0:2=0,", "0:2=1,"}));
  EXPECT_EQ(plans.names({.tensor_cores = true}, 2), (Names{"1:2=0,", "5:2=0,"}));
  EXPECT_EQ(plans.names({.tensor_cores = true, .narrows = true}, 2), (Names{"3:2=0,", "1:2=0,"}));
}

TEST(Plans, AreMadeOfTheirNames) {
  const Cudnn handle = make_cudnn(nullptr);
  ConvolutionPlans plans(graph(), handle.get(), nullptr);
  EXPECT_TRUE(plans.take("0:2=1,"));
  EXPECT_EQ(plans.workspace(), 0u);
  EXPECT_TRUE(plans.take("1:2=0,"));
  EXPECT_EQ(plans.workspace(), 64u);
  EXPECT_TRUE(plans.take("5:2=0,"));
  EXPECT_GT(plans.workspace(), most_workspace);
  for (const char* name : {"6:2=0,", "7:", "8:", "9:", "0:2=2,", "0:14=0,", "", "x"})
    EXPECT_FALSE(plans.take(name)) << name;
}

TEST(Plans, WhatTheLibraryHasNoGraphForHasNone) {
  const Cudnn handle = make_cudnn(nullptr);
  ConvolutionGraph g = graph();
  g.tensors[ConvolutionGraph::y].dims[2] = 4;
  EXPECT_EQ(ConvolutionPlans(g, handle.get(), nullptr).names({}, 10), Names{});
  g = graph(), g.adds_bias = g.relu = true;
  EXPECT_NE(ConvolutionPlans(g, handle.get(), nullptr).names({}, 10), Names{});
  g.accumulates = true;
  EXPECT_EQ(ConvolutionPlans(g, handle.get(), nullptr).names({}, 10), Names{});
}

TEST(Plans, WhatIsFarTooSlowIsNotMeasuredCloser) {
  Stopwatch watch(nullptr);
  int calls = 0;
  const auto work = [&] {
    ++calls;
    return true;
  };
  EXPECT_TRUE(watch.time(work, -1.0f));
  EXPECT_EQ(calls, 2);
  calls = 0;
  EXPECT_TRUE(watch.time(work, 1e9f));
  EXPECT_EQ(calls, 7);
}

// Convolutions of one shape but for the steps of their windows, with all that they leave.
class PlannedConvolutions : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    setenv("TUTTI_CACHE", folder_.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    setenv("TUTTI_CACHE", "", 1);
  }

  static ConvolutionShape shape(std::size_t step, bool bias) {
    ConvolutionShape s;
    s.window = {2, {6, 5, 1}, {step == 1 ? 6u : 3u, step == 1 ? 5u : 3u, 1}, {3, 3, 1}, {step, step, 1}, {1, 1, 0}};
    s.columns = 2, s.in_channels = 4, s.out_channels = 8, s.bias = bias, s.relu = bias;
    return s;
  }
  // All directions, writing and adding. The weights begin where `skip` says.
  Values results(ImageOps& b, const ConvolutionShape& s, std::size_t skip = 0) const {
    const std::size_t large = 2 * 4 * 30, small = 2 * 8 * ImageWindow::product(s.window.out), weights = 9 * 4 * 8;
    Values w = numbers(skip + weights, 2), all;
    const Values of_w = numbers(weights, 2);
    std::copy(of_w.begin(), of_w.end(), w.begin() + static_cast<std::ptrdiff_t>(skip));
    const Values x = numbers(large, 1), dy = numbers(small, 3), bias = numbers(8, 4);
    const auto plan = b.plan_convolution(s);
    for (const bool add : {false, true}) {
      Values y = numbers(small, 5), dx = numbers(large, 6), dw = numbers(skip + weights, 7);
      if (!s.bias || !add) plan->forward(x.data(), w.data() + skip, s.bias ? bias.data() : nullptr, y.data(), add);
      plan->backward_data(dy.data(), w.data() + skip, dx.data(), add);
      plan->backward_weights(x.data(), dy.data(), dw.data() + skip, add);
      for (const Values& v : {y, dx}) all.insert(all.end(), v.begin(), v.end());
      if (skip == 0) all.insert(all.end(), dw.begin(), dw.end());
    }
    return all;
  }
  // With how many plans were run for them.
  std::pair<Values, std::uint64_t> planned(const ConvolutionShape& s, std::size_t skip = 0) {
    CudaImages gpu("emulator", ComputeType::float32, nullptr);
    const std::uint64_t before = cuda_emulator_calls().plans;
    Values got = results(gpu, s, skip);
    return {got, cuda_emulator_calls().plans - before};
  }
  std::string kept() const {
    std::ostringstream all;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) all << std::ifstream(file.path()).rdbuf();
    return all.str();
  }

  const std::string folder_ = testing::TempDir() + "tutti-plans";
  std::unique_ptr<Backend> cpu_ = make_backend("cpu");
};

TEST_F(PlannedConvolutions, TakeWhatWasFaster) {
  for (const bool bias : {false, true}) {
    const Values expected = results(cpu_->images(), shape(1, bias));
    EXPECT_EQ(planned(shape(1, bias)).first, expected);
    const auto [again, plans] = planned(shape(1, bias));
    EXPECT_EQ(again, expected);
    EXPECT_EQ(plans, bias ? 5u : 6u) << "each once, none measured";
    EXPECT_EQ(planned(shape(2, bias)).first, results(cpu_->images(), shape(2, bias)));
    EXPECT_EQ(planned(shape(2, bias)).second, 0u);
  }
}

// A graph with bias and ReLU is one choice, the convolution alone with a pass behind it another one.
TEST_F(PlannedConvolutions, KeepTheGraphAndItsEngine) {
  planned(shape(1, true));
  EXPECT_THAT(kept(), testing::ContainsRegex("convolution:y:0:4x8/1:0000:br:[^ ]* 1 3 0w4:2=0,\n"));
  EXPECT_THAT(kept(), testing::ContainsRegex("convolution:x.:0:4x8/1:0000:-r:[^ ]* 1 3 0a0:2=1,\n"));
}

// Shares of changing size, such as sequences have: from the fifth on sizes up to the next power of two are one.
TEST_F(PlannedConvolutions, AreNotMeasuredForEverySize) {
  CudaImages gpu("emulator", ComputeType::float32, nullptr);
  const auto plans_of = [&](std::size_t columns) {
    ConvolutionShape s = shape(1, true);
    s.columns = columns;
    const Values x = numbers(columns * 4 * 30, 1), w = numbers(9 * 4 * 8, 2), bias = numbers(8, 4);
    Values got(columns * 8 * 30), expected = got;
    const std::uint64_t before = cuda_emulator_calls().plans;
    gpu.plan_convolution(s)->forward(x.data(), w.data(), bias.data(), got.data(), false);
    const std::uint64_t after = cuda_emulator_calls().plans;
    cpu_->images().plan_convolution(s)->forward(x.data(), w.data(), bias.data(), expected.data(), false);
    EXPECT_EQ(got, expected) << columns;
    return after - before;
  };
  for (const std::size_t columns : {2, 3, 4, 5, 6, 9}) EXPECT_GT(plans_of(columns), 1u) << columns;
  for (const std::size_t columns : {7, 8, 10, 16, 2, 5}) EXPECT_EQ(plans_of(columns), 1u) << columns;
  EXPECT_NE(kept().find("@5 "), std::string::npos) << kept();
  EXPECT_NE(kept().find("@~16 "), std::string::npos) << kept();
  EXPECT_EQ(kept().find("@6 "), std::string::npos) << kept();
}

// Of two layouts, plans are tried in both without tensor cores, and otherwise in the one that is made for them.
TEST_F(PlannedConvolutions, AreTriedInTheLayoutOfTensorCoresOrWithoutThemInAll) {
  for (const ComputeType type : {ComputeType::tf32, ComputeType::float32}) {
    ConvolutionShape s = shape(1, false);
    s.in = s.out = Format::blocked;
    CudaImages gpu("emulator", type, nullptr);
    const auto before = cuda_emulator_calls();
    results(gpu, s);
    const auto after = cuda_emulator_calls();
    EXPECT_GT(after.plans - before.plans, after.plain_plans - before.plain_plans);
    EXPECT_EQ(after.plain_plans > before.plain_plans, type == ComputeType::float32) << kept();
  }
}

// One that writes where it should add is the quickest where results are added to.
TEST_F(PlannedConvolutions, LeaveWhatTheCallsLeave) {
  EXPECT_EQ(planned(shape(1, false)).first, results(cpu_->images(), shape(1, false)));
  EXPECT_NE(kept().find("convolution:x+:"), std::string::npos) << kept();
  EXPECT_EQ(kept().find("a7:"), std::string::npos) << kept();
}

// The device is lost then, but not for the next start.
TEST_F(PlannedConvolutions, RememberThatAnEngineFaults) {
  ConvolutionShape s = shape(1, false);
  s.columns = 211;
  const auto forward = [&] {
    CudaImages gpu("emulator", ComputeType::float32, nullptr);
    const Values x = numbers(211 * 4 * 30, 1), w = numbers(9 * 4 * 8, 2);
    Values y(211 * 8 * 30);
    gpu.plan_convolution(s)->forward(x.data(), w.data(), nullptr, y.data(), false);
    return y;
  };
  try {
    forward();
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("illegal memory access"));
    EXPECT_THAT(e.what(), testing::HasSubstr("fix: start again: cuDNN's older calls"));
  }
  const std::uint64_t before = cuda_emulator_calls().plans;
  EXPECT_NE(forward(), Values(211 * 8 * 30));
  EXPECT_EQ(cuda_emulator_calls().plans, before);
}

TEST_F(PlannedConvolutions, ChoicesOfBadLuckAreNotKept) {
  Algorithms first("emulator");
  first.at("a", [] { return Algorithms::Choice{.algorithm = 1}; });
  first.at("b", [] { return Algorithms::Choice{.algorithm = 2, .lasts = false}; });
  int measured = 0;
  const auto again = [&](Algorithms& of, const char* shape) {
    return of.at(shape, [&] { return Algorithms::Choice{.algorithm = 10 + ++measured}; }).algorithm;
  };
  EXPECT_EQ(again(first, "b"), 2);
  Algorithms second("emulator");
  EXPECT_EQ(again(second, "a"), 1);
  EXPECT_EQ(again(second, "b"), 11);
}

TEST_F(PlannedConvolutions, GoWithoutAPlanThatCannotBeHadAnyMore) {
  const Values expected = planned(shape(1, true)).first;
  const std::string lines = kept();
  const auto file = std::filesystem::directory_iterator(folder_)->path();
  std::ofstream(file) << std::string(lines).replace(lines.find(" 0w4:2=0,"), 9, " 0w6:2=0,");
  const auto [got, plans] = planned(shape(1, true));
  EXPECT_EQ(got, expected);
  EXPECT_EQ(plans, 4u);
}

TEST_F(PlannedConvolutions, WantOperandsThatLieWell) {
  const Values expected = results(cpu_->images(), shape(1, true), 1);
  const auto [got, plans] = planned(shape(1, true), 1);
  EXPECT_EQ(got, expected);
  EXPECT_EQ(plans, 0u) << "each direction touches the weights";
}

}  // namespace
}  // namespace tutti::cuda

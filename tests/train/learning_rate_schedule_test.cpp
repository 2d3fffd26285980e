// SPDX-License-Identifier: Apache-2.0
#include "train/learning_rate_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "config/load.h"
#include "train/sgd_options.h"

namespace tutti::learning_rate_schedule_test {
namespace {

struct Result {
  SgdOptions options;
  std::string problems;
  double at(double position) const { return options.learning_rate_schedule->factor(position); }
};

Result read(const std::string& block, const std::string& sgd = "") {
  Result r;
  Problems problems;
  config::Notices notices;
  const auto record = config::record_from_text(
      "power = 7\nSGD = [ maxEpochs = 10\nlearningRatesPerMB = 0.1\n" + sgd + "\nLearningRateSchedule = [ " + block +
          " ] ]",
      "a.cntk");
  r.options = read_sgd_options(record.block("SGD"), problems, notices);
  try {
    problems.throw_if_any();
  } catch (const ConfigError& e) {
    for (const Diagnostic& d : e.diagnostics()) r.problems += d.message + "\n";
  }
  return r;
}

TEST(LearningRateSchedule, CosineEndsAtTheLastEpoch) {
  const Result r = read("shape = cosine");
  EXPECT_EQ(r.problems, "");
  for (double e = 0; e <= 10; e += 0.125) EXPECT_NEAR(r.at(e), 0.5 * (1 + std::cos(std::numbers::pi * e / 10)), 1e-14);
  EXPECT_EQ(r.at(12), 0);
}

TEST(LearningRateSchedule, CosineBeginsBehindTheWarmUp) {
  const Result r = read("shape = cosine; warmupEpochs = 2; warmupFactor = 0.25; epochs = 8; finalFactor = 0.1");
  EXPECT_EQ(r.problems, "");
  for (double e = 0; e < 2; e += 0.125) EXPECT_DOUBLE_EQ(r.at(e), 0.25 + 0.75 * e / 2);
  for (double e = 2; e <= 8; e += 0.125)
    EXPECT_NEAR(r.at(e), 0.1 + 0.9 * 0.5 * (1 + std::cos(std::numbers::pi * (e - 2) / 6)), 1e-14);
  EXPECT_EQ(r.at(9), 0.1);
}

TEST(LearningRateSchedule, PolynomialOfAnyPower) {
  for (const double power : {0.5, 1.0, 2.0}) {
    const Result r = read("shape = polynomial; finalFactor = 0.01; power = " + std::to_string(power));
    for (double e = 0; e <= 10; e += 0.25)
      EXPECT_DOUBLE_EQ(r.at(e), 0.01 + 0.99 * std::pow(1 - e / 10, power)) << power;
  }
  EXPECT_DOUBLE_EQ(read("shape = polynomial").at(5), 0.5) << "a variable outside is no key of the block";
}

TEST(LearningRateSchedule, StepsAreTakenAtTheirEpochs) {
  const Result r = read("shape = step; stepEpochs = 3:6.5:9; stepFactor = 0.5; warmupEpochs = 1");
  EXPECT_EQ(r.problems, "");
  EXPECT_EQ(r.at(0.5), 0.5);
  EXPECT_EQ(r.at(1), 1);
  EXPECT_EQ(r.at(2.99), 1);
  EXPECT_EQ(r.at(3), 0.5);
  EXPECT_EQ(r.at(6.49), 0.5);
  EXPECT_EQ(r.at(6.5), 0.25);
  EXPECT_EQ(r.at(40), 0.125);
}

TEST(LearningRateSchedule, WarmUpAlone) {
  const Result r = read("warmupEpochs = 4");
  EXPECT_EQ(r.at(0), 0);
  EXPECT_EQ(r.at(3), 0.75);
  EXPECT_EQ(r.at(4), 1);
  EXPECT_EQ(r.at(9), 1);
}

TEST(LearningRateSchedule, NoEpochsNeedNoRoom) {
  EXPECT_EQ(read("shape = cosine; warmupEpochs = 0.5", "maxEpochs = 0").problems, "");
}

TEST(LearningRateSchedule, BrokenRulesAreNamed) {
  const auto says = [](const std::string& block, const char* what, const char* sgd = "") {
    const std::string text = read(block, sgd).problems;
    EXPECT_NE(text.find(what), std::string::npos) << block << ": " << text;
  };
  says("shape = step", "needs stepEpochs");
  says("shape = step; stepEpochs = 5:3", "stepEpochs must be numbers of epochs that ascend");
  says("shape = step; stepEpochs = 5; stepFactor = 0", "stepFactor must lie above 0, up to 1");
  says("shape = cosine; stepEpochs = 5", "stepEpochs has an effect with shape = step only");
  says("shape = cosine; power = 2", "power has an effect with shape = polynomial only");
  says("shape = step; stepEpochs = 5; finalFactor = 0.1", "finalFactor has an effect with shape = cosine or polynomial");
  says("shape = cosine; finalFactor = 2", "finalFactor must lie in [0, 1]");
  says("shape = polynomial; power = 0", "power must be positive");
  says("warmupEpochs = -1", "warmupEpochs must be");
  says("warmupFactor = 0.1", "no effect without warmupEpochs");
  says("shape = cosine; warmupEpochs = 10", "must end before the schedule, which ends after epoch 10");
  says("shape = sine", "sine");
  says("shap = cosine", "shap");
  says("shape = cosine", "both set the learning rate", "AutoAdjust = [ autoAdjustLR = adjustAfterEpoch ]");
  EXPECT_EQ(read("shape = cosine", "AutoAdjust = [ autoAdjustMinibatch = true ]").problems, "");
}

}  // namespace
}  // namespace tutti::learning_rate_schedule_test

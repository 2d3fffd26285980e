// SPDX-License-Identifier: Apache-2.0
#include "train/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include "train/metrics/metrics.h"

namespace tutti::report_test {
namespace {

const NodeResult ce{"ce", "CrossEntropyWithSoftmax"}, errs{"errs", "ClassificationError"};

TEST(FormatResult, ShowsErrorRatesOnlyAsPercentages) {
  for (const NodeResult& rate : {NodeResult{"errs", "ClassificationError"}, NodeResult{"top5Errs", "ElementTimes"},
                                 NodeResult{"mistakes", "ClassificationError"}, NodeResult{"phoneErrors", "Minus"}})
    EXPECT_TRUE(is_error_rate(rate)) << rate.name;
  for (const NodeResult& other : {NodeResult{"loss", "CrossEntropyWithSoftmax"}, NodeResult{"ces", "Plus"},
                                  NodeResult{"errs", "SquareError"}, NodeResult{"err", "ClassificationError"}})
    EXPECT_FALSE(is_error_rate(other)) << other.name;
  EXPECT_EQ(format_result({"loss", "CrossEntropyWithSoftmax"}, 46.021, 100), "loss = 0.46021000 * 100");
}

TEST(FormatResult, FollowsTheNumberRulesOfTheOriginal) {
  EXPECT_EQ(format_result(ce, 0.69314718 * 500, 500), "ce = 0.69314718 * 500");
  EXPECT_EQ(format_result(errs, 1875, 60000), "errs = 3.125% * 60000");
  EXPECT_EQ(format_result(ce, 12345.678901 * 4, 4), "ce = 12345.67890100 * 4");
}

TEST(FormatResult, SwitchesToAnExponentWhereTheShortFormWouldShowOne) {
  EXPECT_EQ(format_result(ce, 1e-5, 1), "ce = 1.00000000e-05 * 1");
  EXPECT_EQ(format_result(ce, 1e-4, 1), "ce = 0.00010000 * 1");
  EXPECT_EQ(format_result(ce, 123456789.0, 1), "ce = 1.23456789e+08 * 1");
  EXPECT_EQ(format_result(ce, 12345678.0, 1), "ce = 12345678.00000000 * 1");
  EXPECT_EQ(format_result(errs, 1e-6, 1), "errs = 1.000e-04% * 1");
}

TEST(FormatResult, AverageOfNothingIsZero) {
  EXPECT_EQ(format_result(ce, 0, 0), "ce = 0.00000000 * 0");
  EXPECT_EQ(format_result(errs, 5, 0), "errs = 0.000% * 0");
}

TEST(FormatResults, JoinsWithSemicolons) {
  EXPECT_EQ(format_results({{"errs", "ClassificationError"}, {"ce", "CrossEntropyWithSoftmax"}}, {{1, 4}, {2, 4}}),
            "errs = 25.000% * 4; ce = 0.50000000 * 4");
}

// Trials of rates name the epoch to come, and have no result.
TEST(Report, TheResultIsThatOfTheLastEpochThatStands) {
  Report report(ce, {errs}, 0, 0, 0, false);
  const auto sums = [](double criterion) {
    StepMetrics m;
    m.samples = 10, m.criterion = criterion, m.criterion_count = 10, m.evaluations = {{1, 10}};
    return m;
  };
  EXPECT_EQ(report.result(), "");
  for (const int epoch : {1, 2, 3}) {
    report.begin_epoch({.epoch = epoch, .epochs = 7});
    report.add(sums(10 * epoch));
    report.end_epoch({});
    report.validation({{5.0 * epoch, 10}, {2, 10}});
  }
  report.begin_epoch({.epoch = 4, .epochs = 7, .prefix = "trial"});
  report.add(sums(70));
  report.end_trial(0.1, 10);
  EXPECT_EQ(report.result(),
            "after 3 of 7 epochs: ce = 3.00000000 * 10; errs = 10.000% * 10; on the validation data: ce = 1.50000000 * "
            "10; errs = 20.000% * 10");
  report.undo_epochs_after(1);
  EXPECT_EQ(report.result(),
            "after 1 of 7 epochs: ce = 1.00000000 * 10; errs = 10.000% * 10; on the validation data: ce = 0.50000000 * "
            "10; errs = 20.000% * 10");
  report.undo_epochs_after(0);
  EXPECT_EQ(report.result(), "");
}

// Where ranks train alone, the results are those of this rank, and the speed is that of all.
TEST(Report, TheSpeedOfAnIntervalCountsAllRanks) {
  const auto file = std::filesystem::path(::testing::TempDir()) / ("tutti-report-" + std::to_string(::getpid()));
  MetricsOptions options;
  options.jsonl = file.string();
  Metrics metrics(options, "m");
  metrics.resume_at(-1);
  Report report(ce, {errs}, 2, 0, 0, false);
  report.write_to(&metrics);
  report.begin_epoch({.epoch = 4, .epochs = 7, .samples = 150, .position = 1000, .end = 1150});
  StepMetrics mine;
  mine.samples = 16, mine.criterion = 1, mine.criterion_count = 16, mine.evaluations = {{1, 16}};
  for (int step = 0; step < 4; ++step) report.add(mine), report.step(40, 1, {});
  std::ifstream in(file);
  for (const double position : {1080.0, 1150.0}) {  // sequences go beyond the end
    std::string line;
    ASSERT_TRUE(std::getline(in, line));
    double at = 0, seconds = 0, speed = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), R"({"event":"interval","samples":%lf)", &at), 1) << line;
    ASSERT_EQ(std::sscanf(line.substr(line.find(R"("measures")")).c_str(),
                          R"("measures":{"seconds":%lf,"samples_per_second":%lf)", &seconds, &speed),
              2)
        << line;
    EXPECT_EQ(at, position);
    EXPECT_NEAR(speed * std::max(seconds, 1e-9), 80, 1e-6);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace tutti::report_test

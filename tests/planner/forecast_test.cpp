// SPDX-License-Identifier: Apache-2.0
// From timed trials to the speed of a run: exact where nothing disturbs them, and never faster than ranks compute.
#include "actions/forecast.h"

#include <gtest/gtest.h>

namespace tutti::actions::forecast_test {
namespace {

constexpr double kStep = 1e-3, kExchange = 20e-3, kPeriod = 10;
constexpr int kSteps = 100, kSamples = 64;  // samples: of a step

// With so many exchanges, in which ranks only wait.
Measured trial(int exchanges, double exchange = kExchange) {
  Measured m;
  m.steps = kSteps, m.samples = kSteps * kSamples;
  m.seconds = kSteps * kStep + exchanges * exchange, m.wait = exchanges * exchange, m.computing = kSteps * kStep;
  m.exchanges = exchanges, m.bytes = 1e6 * exchanges;
  return m;
}

Measured disturbed(Measured m, double seconds) {
  m.seconds += seconds;
  return m;
}

Forecast forecast(const Measured& never, const Measured& always) {
  Forecast f;
  forecast_blocks(f, never, always, kPeriod);
  return f;
}

double run_speed() { return kSamples / (kStep + kExchange / kPeriod); }

TEST(Forecast, OfBlocksSpreadsAnExchangeOverThePeriod) {
  const Forecast f = forecast(trial(1), trial(kSteps));
  EXPECT_NEAR(f.samples_per_second, run_speed(), 1e-6 * run_speed());
  EXPECT_DOUBLE_EQ(f.bytes_per_step, 1e5);
}

// A trial of blocks has one exchange more, at its end.
TEST(Forecast, TheExchangeAtTheEndOfATrialIsNoStep) {
  const Forecast f = forecast(trial(1), trial(kSteps + 1));
  EXPECT_NEAR(f.samples_per_second, run_speed(), 1e-6 * run_speed());
  EXPECT_DOUBLE_EQ(f.bytes_per_step, 1e5);
}

TEST(Forecast, PeriodsEndWithMinibatchesAndWithEpochs) {
  // 16 steps, of which the last has 40 samples.
  EXPECT_DOUBLE_EQ(mean_period(1000, 64, 40000, 0), 16.0 / 1) << "only at the end";
  EXPECT_DOUBLE_EQ(mean_period(1000, 64, 128, 0), 16.0 / 8) << "the last block is short of samples";
  EXPECT_DOUBLE_EQ(mean_period(1000, 64, 100, 0), 16.0 / 9) << "the last block is complete";
  EXPECT_DOUBLE_EQ(mean_period(1024, 64, 128, 0), 16.0 / 9);
  EXPECT_DOUBLE_EQ(mean_period(1024, 64, 65, 0), 16.0 / 9) << "two minibatches";
  EXPECT_DOUBLE_EQ(mean_period(1024, 64, 1, 0), 16.0 / 17);
  EXPECT_DOUBLE_EQ(mean_period(1000, 64, 0, 10), 16.0 / 2);
  EXPECT_DOUBLE_EQ(mean_period(1000, 64, 0, 4), 16.0 / 4) << "no second exchange at the end";
  EXPECT_DOUBLE_EQ(mean_period(10, 64, 0, 4), 1);
  EXPECT_DOUBLE_EQ(mean_period(10, 64, 1'000'000'000'000'000'000, 0), 1);
}

TEST(Forecast, OfAnExchangeThatTakesLongerThanAllSteps) {
  constexpr double kSlow = 5;
  const Forecast f = forecast(trial(1, kSlow), trial(kSteps, kSlow));
  EXPECT_NEAR(f.samples_per_second, kSamples / (kStep + kSlow / kPeriod), 1e-3);
}

TEST(Forecast, ADisturbedTrialMakesNoStepFasterThanComputing) {
  for (const double seconds : {1.0, 10.0, 13.0, 100.0, 1e4})
    EXPECT_LE(forecast(trial(1), disturbed(trial(kSteps), seconds)).samples_per_second, run_speed() * 1.0001)
        << seconds << " s";
  // Here an exchange costs nothing, and a disturbance is all there is between the two trials.
  for (const double seconds : {0.05, 0.1, 0.2, 100.0})
    EXPECT_LE(forecast(trial(1, 0), disturbed(trial(kSteps, 0), seconds)).samples_per_second, kSamples / kStep * 1.0001)
        << seconds << " s";
}

TEST(Forecast, TheLeastOfBothTimesCountsNotTheBestPair) {
  const Forecast good = forecast(trial(1), trial(kSteps));
  const Forecast slow_never = forecast(disturbed(trial(1), 3), trial(kSteps));
  const Forecast slow_always = forecast(trial(1), disturbed(trial(kSteps), 3));
  for (const Forecast& other : {slow_never, slow_always}) {
    Forecast first = good, second = other;
    take_faster(first, other), take_faster(second, good);
    EXPECT_DOUBLE_EQ(first.samples_per_second, good.samples_per_second);
    EXPECT_DOUBLE_EQ(second.samples_per_second, good.samples_per_second);
  }
  Forecast both = slow_never;
  take_faster(both, slow_always);
  EXPECT_DOUBLE_EQ(both.samples_per_second, good.samples_per_second);
}

TEST(Forecast, OfStepsTheFasterTrialCounts) {
  Forecast slow, fast;
  forecast_steps(slow, disturbed(trial(0), 1), {1, 1});
  forecast_steps(fast, trial(0), {1, 1});
  take_faster(slow, fast);
  EXPECT_DOUBLE_EQ(slow.samples_per_second, kSamples / kStep);
  take_faster(slow, {.method = {}, .bits = {}, .refused = "not possible"});
  EXPECT_DOUBLE_EQ(slow.samples_per_second, kSamples / kStep);
}

TEST(Forecast, OfEpochsTheEndCountsOnce) {
  constexpr double end = 30e-3;
  const auto epoch_of = [](std::int64_t steps, double more = 0) {
    Measured m;
    m.steps = steps, m.samples = steps * kSamples;
    m.seconds = static_cast<double>(steps) * kStep + end + more;
    return m;
  };
  const auto speed = [](const Measured& some, const Measured& more) {
    Forecast f;
    forecast_epochs(f, some, more, 240, {1, 1});
    return f.samples_per_second;
  };
  EXPECT_NEAR(speed(epoch_of(12), epoch_of(24)), 240 * kSamples / (240 * kStep + end), 1e-6);
  // No step takes longer than the mean, nor less than no time.
  const double mean = 24 * kSamples / (24 * kStep + end);
  EXPECT_NEAR(speed(epoch_of(12, -2 * end), epoch_of(24)), mean, 1e-6);
  EXPECT_NEAR(speed(epoch_of(12, 2 * end), epoch_of(24)), mean, 1e-6);
  // A disturbed short trial makes no step shorter than ranks compute.
  Measured computing = epoch_of(24);
  computing.computing = 24 * 0.9 * kStep;
  const double rest = computing.seconds - 24 * 0.9 * kStep;
  EXPECT_NEAR(speed(epoch_of(12, 11e-3), computing), 240 * kSamples / (240 * 0.9 * kStep + rest), 1e-6);
}

TEST(Forecast, TheMedianOfEachKindOfTrialCounts) {
  const Forecast good = forecast(trial(1), trial(kSteps));
  const Forecast slow_never = forecast(disturbed(trial(1), 3), trial(kSteps));
  const Forecast slow_always = forecast(trial(1), disturbed(trial(kSteps), 3));
  EXPECT_DOUBLE_EQ(median_of({slow_never, slow_always, good}).samples_per_second, good.samples_per_second);
  Forecast steps[3];
  for (int i = 0; i < 3; ++i) forecast_steps(steps[i], disturbed(trial(0), i), {1, 1});
  EXPECT_DOUBLE_EQ(median_of({steps[2], steps[0], steps[1]}).samples_per_second, steps[1].samples_per_second);
  const Forecast refused{.method = {}, .bits = {}, .refused = "not possible"};
  EXPECT_EQ(median_of({refused, refused}).refused, "not possible");
}

TEST(Forecast, WithOneRankNoMethodIsFaster) {
  Forecast exact = forecast(trial(0), trial(0)), other = exact;
  exact.method = "DataParallelSGD", exact.bits = other.bits = "32", exact.exact = true;
  other.method = "EASGD", other.samples_per_second *= 1.5;
  const auto lines_with = [&](int ranks) { return report_text({exact, other}, exact.samples_per_second, ranks); };
  EXPECT_NE(lines_with(2).find(" 1.50 "), std::string::npos);
  EXPECT_NE(lines_with(2).find("fastest: EASGD"), std::string::npos);
  EXPECT_EQ(lines_with(1).find(" 1.50 "), std::string::npos);
  EXPECT_EQ(lines_with(1).find("fastest: "), std::string::npos);
}

}  // namespace
}  // namespace tutti::actions::forecast_test

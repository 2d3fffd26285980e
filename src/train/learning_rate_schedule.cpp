// SPDX-License-Identifier: Apache-2.0
#include "train/learning_rate_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tutti {
namespace {

void only_with(config::Fields& f, const char* key, bool has_effect, const char* shapes) {
  if (f.given(key) && !has_effect)
    f.problem(key, fmt::format("{} has an effect with shape = {} only", key, shapes),
              fmt::format("remove {}, or set the shape", key));
}

}  // namespace

void LearningRateSchedule::describe(config::Fields& f) {
  f.inherit_nothing();
  f.choice<Shape>("shape", shape,
                  {{"constant", Shape::constant},
                   {"cosine", Shape::cosine},
                   {"step", Shape::step},
                   {"polynomial", Shape::polynomial}},
                  "how the rate falls after the warm-up; constant: it does not");
  f("warmupEpochs", warmup_epochs, "epochs in which the rate rises linearly to the listed one, such as 0.5");
  f("warmupFactor", warmup_factor, "factor on the listed rate where the warm-up begins");
  f("epochs", epochs, "cosine, polynomial: epoch at whose end the last value is reached; 0 = maxEpochs");
  f("finalFactor", final_factor, "cosine, polynomial: factor at the end, and after it");
  f("power", power, "polynomial: exponent; 1 is a straight line");
  f("stepEpochs", step_epochs, "step: epochs after which the rate is multiplied by stepFactor, such as 30:60:80");
  f("stepFactor", step_factor, "step: factor of each step");
  check(f);
}

void LearningRateSchedule::check(config::Fields& f) const {
  const auto require = [&](bool holds, const char* key, const char* rule) {
    if (!holds) f.problem(key, fmt::format("{} must {}", key, rule));
  };
  const bool falls = shape == Shape::cosine || shape == Shape::polynomial;
  only_with(f, "epochs", falls, "cosine or polynomial");
  only_with(f, "finalFactor", falls, "cosine or polynomial");
  only_with(f, "power", shape == Shape::polynomial, "polynomial");
  only_with(f, "stepEpochs", shape == Shape::step, "step");
  only_with(f, "stepFactor", shape == Shape::step, "step");
  if (f.given("warmupFactor") && warmup_epochs == 0)
    f.problem("warmupFactor", "warmupFactor has no effect without warmupEpochs", "add warmupEpochs = 1");
  const auto positions = [](double v) { return v >= 0 && v < 1e9; };
  require(positions(warmup_epochs), "warmupEpochs", "be a number of epochs, 0 or more");
  require(positions(epochs), "epochs", "be a number of epochs, 0 or more");
  require(warmup_factor >= 0 && warmup_factor <= 1, "warmupFactor", "lie in [0, 1]");
  require(final_factor >= 0 && final_factor <= 1, "finalFactor", "lie in [0, 1]");
  require(power > 0 && std::isfinite(power), "power", "be positive");
  require(step_factor > 0 && step_factor <= 1, "stepFactor", "lie above 0, up to 1");
  const auto& at = step_epochs.values;
  require(std::all_of(at.begin(), at.end(), positions) && std::is_sorted(at.begin(), at.end()), "stepEpochs",
          "be numbers of epochs that ascend, such as 30:60:80");
  if (shape == Shape::step && at.empty())
    f.problem("shape", "shape = step needs stepEpochs", "add stepEpochs = 30:60:80");
}

void LearningRateSchedule::end_at(std::int64_t max_epochs, config::Fields& f) {
  if (shape != Shape::cosine && shape != Shape::polynomial) return;
  const double end = epochs > 0 ? epochs : static_cast<double>(max_epochs);
  if (end == 0) return;  // maxEpochs = 0 trains nothing
  if (warmup_epochs > 0 && warmup_epochs >= end)
    f.problem("LearningRateSchedule",
              fmt::format("the warm-up of {:g} epochs must end before the schedule, which ends after epoch {:g}",
                          warmup_epochs, end),
              "lower warmupEpochs, or raise epochs");
  epochs = end;
}

double LearningRateSchedule::factor(double position) const {
  if (position < warmup_epochs) return warmup_factor + (1 - warmup_factor) * position / warmup_epochs;
  if (shape == Shape::step) {
    const auto& at = step_epochs.values;
    return std::pow(step_factor, static_cast<double>(std::upper_bound(at.begin(), at.end(), position) - at.begin()));
  }
  if (shape == Shape::constant) return 1;
  if (position >= epochs) return final_factor;
  const double done = (position - warmup_epochs) / (epochs - warmup_epochs);
  const double left = shape == Shape::cosine ? (1 + std::cos(std::numbers::pi * done)) / 2 : std::pow(1 - done, power);
  return final_factor + (1 - final_factor) * left;
}

std::string LearningRateSchedule::text() const {
  std::string text;
  if (warmup_epochs > 0) text = fmt::format("{:g} epochs of warm-up from {:g}, then ", warmup_epochs, warmup_factor);
  switch (shape) {
    case Shape::constant:
      return text + "constant";
    case Shape::cosine:
      return text + fmt::format("cosine to {:g} at epoch {:g}", final_factor, epochs);
    case Shape::polynomial:
      return text + fmt::format("polynomial of power {:g} to {:g} at epoch {:g}", power, final_factor, epochs);
    case Shape::step:
      return text + fmt::format("times {:g} after epochs {}", step_factor, fmt::join(step_epochs.values, ", "));
  }
  return text;
}

}  // namespace tutti

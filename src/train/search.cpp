// SPDX-License-Identifier: Apache-2.0
// Trials: trains a few samples with another rate or minibatch size and restores the state. The copy of the state is in
// memory, on each rank its own.
#include <fmt/format.h>
#include <fmt/printf.h>

#include <algorithm>
#include <cmath>

#include "train/adjust.h"
#include "train/checkpointing.h"
#include "train/state_copy.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti {
namespace {

std::int64_t trial_samples(const Training& t) {
  const AutoAdjustOptions& o = *t.sgd.auto_adjust;
  const auto at = static_cast<std::size_t>(t.progress.epoch);
  const std::int64_t samples = !o.samples_for_search.empty() ? o.samples_for_search.at(at)
                               : !o.minibatches_for_search.empty()
                                   ? o.minibatches_for_search.at(at) * t.sgd.minibatch_size.at(at)
                                   : 500 * t.sgd.minibatch_size.at(at);
  return std::min(samples, t.samples_per_epoch);
}

// The criterion of a trial; NaN if the trial failed.
class Trials {
 public:
  Trials(Training& t) : t_(t), state_(copy_state(t)), samples_(trial_samples(t)) {}

  double run(const char* prefix, double rate, std::int64_t minibatch) {
    EpochSettings settings = current_settings(t_);
    settings.learning_rate = rate;
    settings.minibatch = minibatch;
    const StepMetrics metrics = run_trial(t_, settings, prefix, samples_);
    restore_state(t_, state_);
    double criterion = metrics.criterion / metrics.criterion_count;
    t_.world->broadcast(0, std::as_writable_bytes(std::span(&criterion, 1)));
    return criterion;
  }
  std::int64_t samples() const { return samples_; }

 private:
  Training& t_;
  StateCopy state_;
  std::int64_t samples_;
};

// Searches between a large rate that is too large and a small one that is too slow, in steps of 0.618.
double refine(Trials& trials, double rate, double criterion, std::int64_t minibatch) {
  double left = 0.01 / static_cast<double>(minibatch), right = rate;
  double at_left = trials.run("  DetailBaseAdaptiveLearnRateSearch:", left, minibatch), at_right = criterion;
  while (right > left * 1.2) {
    if (at_right > at_left) {
      right *= 0.618;
      at_right = trials.run("  DetailRightAdaptiveLearnRateSearch:", right, minibatch);
    } else {
      left /= 0.618;
      at_left = trials.run("  DetailLeftAdaptiveLearnRateSearch:", left, minibatch);
    }
  }
  return at_left < at_right ? left : right;
}

std::int64_t in_sixty_fours(double size) {
  return std::max<std::int64_t>(64, 64 * (static_cast<std::int64_t>(size + 32) / 64));
}

// The largest size whose trial does not exceed the margin.
std::int64_t largest_good(Training& t, double rate, std::int64_t least, std::int64_t most) {
  if (least > most) return most;
  most = std::max(least, std::min(most, t.samples_per_epoch));  // larger ones are all the same
  Trials trials(t);
  double base = 0, last = 0;
  std::int64_t chosen = 0;
  for (double v = static_cast<double>(least); chosen == 0 || v <= static_cast<double>(most); v *= std::sqrt(2.0)) {
    const std::int64_t size = std::min(in_sixty_fours(v), most);
    const bool first = chosen == 0;
    const double criterion =
        trials.run(first ? "  BaseAdaptiveMinibatchSearch:" : "  AdaptiveMinibatchSearch:", rate, size);
    if (first) {
      base = criterion;
      log::line(fmt::sprintf(" Computed baseCriterion %.8f for minibatchSize=%d", base, size));
    } else if (!(criterion <= base * (1 + static_cast<double>(t.sgd.auto_adjust->minibatch_error_margin) / 100))) {
      break;
    } else {
      log::line(fmt::sprintf(" Keep searching... epochCriterion = %.8f vs. baseCriterion = %.8f", criterion, base));
    }
    chosen = size, last = criterion;
  }
  log::line(fmt::sprintf(" Search successful. New minibatchSize is %d. epochCriterion = %.8f vs baseCriterion = %.8f",
                         chosen, last, base));
  return chosen;
}

}  // namespace

double search_learning_rate(Training& t, std::int64_t minibatch) {
  const AutoAdjustOptions& o = *t.sgd.auto_adjust;
  Trials trials(t);
  double rate = t.adjust.rates.empty()
                    ? 1.0 / 8 / 0.618 / std::sqrt(static_cast<double>(minibatch))
                    : *std::max_element(t.adjust.rates.begin(), t.adjust.rates.end()) / 0.618 / 0.618;
  double base = trials.run("  BaseAdaptiveLearnRateSearch:", 0, minibatch);
  if (std::isfinite(t.adjust.previous_criterion)) {
    const double r = std::sqrt(static_cast<double>(trials.samples()) /
                               static_cast<double>(std::max<std::int64_t>(1, t.samples_per_epoch)));
    base = std::max(r * t.adjust.previous_criterion + (1 - r) * base, base);
  }
  const double least = 0.3 * t.sgd.min_learning_rate_per_sample;
  double criterion = 0;
  do {
    rate *= 0.618;
    criterion = trials.run("  AdaptiveLearnRateSearch:", rate, minibatch);
  } while ((std::isnan(criterion) || criterion > base) && rate > least);
  if (t.progress.epoch < o.num_best_search_epoch) rate = refine(trials, rate, criterion, minibatch);
  log::line(fmt::sprintf(" SearchForBestLearnRate Epoch[%d]: Best learningRatePerSample = %.10g, baseCriterion=%.10g",
                         t.progress.epoch + 1, rate, base));
  return static_cast<float>(rate);
}

std::int64_t search_minibatch_size(Training& t, double learning_rate, double rate_factor) {
  const AutoAdjustOptions& o = *t.sgd.auto_adjust;
  const std::int64_t epoch = t.progress.epoch;
  const auto at = static_cast<std::size_t>(epoch);
  double least = static_cast<double>(t.sgd.minibatch_size.at(at));
  const double listed =
      t.sgd.listed_learning_rates() > 0 ? t.sgd.learning_rate_per_sample(at) / t.sgd.learning_rate_per_sample(0) : 1;
  if (const double q = std::sqrt(listed * rate_factor); q > 0 && q < 1) least /= q;
  std::int64_t before = t.adjust.minibatch_size;
  if (epoch < 2 && before > 0) {
    log::line(fmt::format(" Before Epoch[{}], previous minibatchSize {} is considered invalid -> resetting.", epoch + 1,
                          before));
    before = 0;
  }
  if (before > 0 && epoch + 1 > o.minibatch_tuning_frequency && (epoch + 1) % o.minibatch_tuning_frequency != 0) {
    log::line(
        fmt::format(" AdaptiveMinibatchSearch: Search for a better minibatchSize in epoch {} skipped, keeping "
                    "minibatchSize of {}",
                    epoch + 1, before));
    return before;
  }
  std::int64_t smallest = static_cast<std::int64_t>(least), largest = o.minibatch_tuning_max;
  if (before > 0) {
    smallest = std::max(smallest, before / 2);
    largest = std::min(largest, 2 * before);
  }
  log::line(fmt::format(" AdaptiveMinibatchSearch Epoch[{}]: Evaluating minibatchSizes {}..{}", epoch + 1, smallest,
                        largest));
  const std::int64_t size = largest_good(t, learning_rate, smallest, largest);
  if (t.trace_level <= 0) log::line(fmt::format("Minibatch size adapted to {}.", size));
  return size;
}

}  // namespace tutti

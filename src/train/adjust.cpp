// SPDX-License-Identifier: Apache-2.0
#include "train/adjust.h"

#include <fmt/format.h>
#include <fmt/printf.h>

#include <algorithm>
#include <cmath>

#include "base/exit_codes.h"
#include "train/checkpointing.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti {
namespace {

using Method = AutoAdjustOptions::Method;

const AutoAdjustOptions& options(const Training& t) {
  static const AutoAdjustOptions none;
  return t.sgd.auto_adjust ? *t.sgd.auto_adjust : none;
}

// Epochs with a rate of their own in the list; these are never adjusted or searched.
bool listed(const Training& t) {
  return options(t).method == Method::none ||
         static_cast<std::size_t>(t.progress.epoch) < t.sgd.listed_learning_rates();
}

void set_rate(Training& t, double factor, const char* how) {
  t.adjust.learning_rate = static_cast<float>(t.adjust.learning_rate * factor);
  log::line(fmt::sprintf("learnRatePerSample %s to %.8g", how, t.adjust.learning_rate));
}

bool improves_too_little(const AutoAdjustOptions& o, double previous, double average) {
  return std::isnan(average) || (std::isfinite(previous) && previous - average <= o.reduce_if_improve_less * previous);
}

// Returns false if the training must end.
bool change_rate(Training& t, double previous, double average) {
  const AutoAdjustOptions& o = options(t);
  const bool little = improves_too_little(o, previous, average);
  if (o.continue_reduce) {
    if (little && std::exchange(t.adjust.reducing, true)) return false;
    if (t.adjust.reducing) set_rate(t, o.decrease_factor, "reduced");
  } else if (little) {
    set_rate(t, o.decrease_factor, "reduced");
  } else if (std::isfinite(previous) && previous - average > o.increase_if_improve_more * previous) {
    set_rate(t, o.increase_factor, "increased");
  }
  return true;
}

std::int64_t trial_samples(const Training& t) {
  const AutoAdjustOptions& o = *t.sgd.auto_adjust;
  const auto at = static_cast<std::size_t>(t.progress.epoch);
  const std::int64_t samples = !o.samples_for_search.empty() ? o.samples_for_search.at(at)
                               : !o.minibatches_for_search.empty()
                                   ? o.minibatches_for_search.at(at) * t.sgd.minibatch_size.at(at)
                                   : 500 * t.sgd.minibatch_size.at(at);
  return std::min(samples, t.samples_per_epoch);
}

// Trains a few samples with another rate or minibatch size and restores the state. The copy of the state is in memory,
// on each rank its own. The result is the criterion of the trial; NaN if it failed.
class Trials {
 public:
  Trials(Training& t) : t_(t), state_(copy_state(t)), samples_(trial_samples(t)) {}

  double run(const char* prefix, double rate, std::int64_t minibatch) {
    EpochSettings settings = current_settings(t_);
    settings.learning_rate = rate;
    settings.minibatch = minibatch;
    const StepMetrics metrics = run_trial(t_, settings, prefix, samples_);
    restore_state(t_, state_);
    double results[] = {metrics.criterion / metrics.criterion_count, static_cast<double>(metrics.samples)};
    t_.world->broadcast(0, std::as_writable_bytes(std::span(results)));
    saw_samples_ = results[1] > 0;
    return results[0];
  }
  bool saw_samples() const { return saw_samples_; }  // in the last trial
  std::int64_t samples() const { return samples_; }

 private:
  Training& t_;
  StateCopy state_;
  std::int64_t samples_;
  bool saw_samples_ = false;
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

double search_learning_rate(Training& t, std::int64_t minibatch) {
  const AutoAdjustOptions& o = *t.sgd.auto_adjust;
  Trials trials(t);
  double rate = t.adjust.rates.empty()
                    ? 1.0 / 8 / 0.618 / std::sqrt(static_cast<double>(minibatch))
                    : *std::max_element(t.adjust.rates.begin(), t.adjust.rates.end()) / 0.618 / 0.618;
  double base = trials.run("  BaseAdaptiveLearnRateSearch:", 0, minibatch);
  if (!trials.saw_samples() && !t.adjust.rates.empty()) return t.adjust.rates.back();
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

}  // namespace

void AdjustState::archive(Archive& a) {
  a("adjust/learning rate", learning_rate);
  a("adjust/previous criterion", previous_criterion);
  a("adjust/criterion sum", criterion_sum);
  a("adjust/criteria", criteria);
  a("adjust/reducing", reducing);
  a("adjust/minibatch size", minibatch_size);
  constexpr const char* retried = "adjust/retried to epoch";
  if (a.loading() ? a.has(retried) : retried_to >= 0) a(retried, retried_to);
  auto count = static_cast<std::int64_t>(rates.size());
  a("adjust/rates", count);
  rates.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < rates.size(); ++i) a(fmt::format("adjust/rate {}", i), rates[i]);
}

EpochSettings current_settings(const Training& t) {
  const auto at = static_cast<std::size_t>(t.progress.epoch);
  EpochSettings s;
  s.momentum_per_sample = t.sgd.momentum_per_sample(at);
  const bool adjusts = options(t).adjust_minibatch && at >= t.sgd.minibatch_size.size();
  s.minibatch = adjusts && t.adjust.minibatch_size > 0 ? t.adjust.minibatch_size : t.sgd.minibatch_size.at(at);
  // After a roll-back, an epoch of the list may run again; the adjusted rate is used then.
  if (t.adjust.learning_rate > 0 && options(t).method != Method::none)
    s.learning_rate = t.adjust.learning_rate;
  else if (t.sgd.listed_learning_rates() > 0)
    s.learning_rate = t.sgd.learning_rate_per_sample(at);
  s.learning_rate *= t.rate_factor;
  return s;
}

void forget_unused_settings(Training& t, bool announces) {
  const AutoAdjustOptions& o = options(t);
  const AdjustState found = t.adjust;
  if (listed(t) && (o.method == Method::none || t.progress.epoch > found.retried_to)) t.adjust.learning_rate = 0;
  if (!o.adjust_minibatch) t.adjust.minibatch_size = 0;
  if (!announces) return;
  const EpochSettings now = current_settings(t);
  const double rate = found.learning_rate * t.rate_factor;
  if (found.learning_rate != t.adjust.learning_rate && rate != now.learning_rate)
    log::line(
        fmt::format("Epoch {} has the learning rate of the settings, {:g} per sample, and no longer {:g}, which "
                    "AutoAdjust had chosen.",
                    t.progress.epoch + 1, now.learning_rate, rate));
  if (found.minibatch_size != t.adjust.minibatch_size && found.minibatch_size != now.minibatch)
    log::line(
        fmt::format("Epoch {} has the minibatchSize of the settings, {}, and no longer {}, which AutoAdjust had "
                    "chosen.",
                    t.progress.epoch + 1, now.minibatch, found.minibatch_size));
}

EpochSettings settle_settings(Training& t) {
  const AutoAdjustOptions& o = options(t);
  const bool begun = t.progress.samples_in_epoch > 0;  // all was drained before the run was stopped
  double factor = 1;
  if (!begun && o.method == Method::before_epoch && !listed(t)) {
    const double before = t.adjust.rates.empty() ? 0 : t.adjust.rates.back();
    t.adjust.learning_rate = search_learning_rate(t, current_settings(t).minibatch);
    if (before > 0) factor = t.adjust.learning_rate / before;
  }
  const auto at = static_cast<std::size_t>(t.progress.epoch);
  if (!begun && o.adjust_minibatch && at >= t.sgd.minibatch_size.size())
    t.adjust.minibatch_size = search_minibatch_size(t, current_settings(t).learning_rate, factor);
  return current_settings(t);
}

bool bears_nan(const Training& t) {
  const AutoAdjustOptions& o = options(t);
  return o.method == Method::after_epoch && o.load_best_model && !listed(t);
}

Verdict judge_epoch(Training& t, const ControlCriterion& control, const EpochSettings& settings) {
  const AutoAdjustOptions& o = options(t);
  AdjustState& a = t.adjust;
  const double rate = settings.learning_rate / t.rate_factor;  // current_settings() multiplies with it again
  if (control.samples == 0 && t.progress.samples_in_epoch == 0)
    log::warning(
        fmt::format("epoch {} had no samples: the sequence before it is longer than epochSize = {}, and a sequence "
                    "belongs to the epoch in which it begins. fix: a larger epochSize",
                    t.progress.epoch + 1, t.samples_per_epoch));
  if (o.adjust_minibatch) a.minibatch_size = settings.minibatch;
  a.rates.push_back(rate);
  if (a.rates.size() > static_cast<std::size_t>(o.num_prev_learn_rates)) a.rates.erase(a.rates.begin());
  if (o.method == Method::none) return {};
  // Behind the end of the list the rate stays, even if the minibatch size of a rate per minibatch changes.
  if (o.method == Method::after_epoch &&
      static_cast<std::size_t>(t.progress.epoch) + 1 >= t.sgd.listed_learning_rates())
    a.learning_rate = rate;

  if (control.samples > 0) a.criterion_sum += control.value, ++a.criteria;
  const std::int64_t epoch = t.progress.epoch;
  if (a.criteria == 0 || epoch % o.interval + 1 != o.interval) return {};
  const double average = a.criterion_sum / static_cast<double>(a.criteria), previous = a.previous_criterion;
  a.criterion_sum = 0, a.criteria = 0;
  if (o.method != Method::after_epoch || listed(t)) {
    a.previous_criterion = average;
    return {};
  }

  const bool worse = std::isnan(average) || (average > previous && std::isfinite(previous));
  const bool back = worse && o.load_best_model && roll_back(t, std::max<std::int64_t>(0, epoch + 1 - o.interval));
  if (!back && std::isnan(average) && o.load_best_model)
    throw CodedError(kNotANumber, "The training criterion is not a number (NAN), and there is no model to go back to");
  a.learning_rate = rate;
  if (!change_rate(t, previous, average)) return {.rolled_back = back, .ends = true};
  if (!back) {
    a.previous_criterion = average;
    return {};
  }
  log::line(fmt::format("SGD: revoke back to and update checkpoint file for epoch {}", t.progress.epoch));
  return {.rolled_back = true};
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "train/adjust.h"

#include <fmt/format.h>
#include <fmt/printf.h>

#include <algorithm>
#include <cmath>

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

}  // namespace

void AdjustState::archive(Archive& a) {
  a("adjust/learning rate", learning_rate);
  a("adjust/previous criterion", previous_criterion);
  a("adjust/criterion sum", criterion_sum);
  a("adjust/criteria", criteria);
  a("adjust/reducing", reducing);
  a("adjust/minibatch size", minibatch_size);
  auto count = static_cast<std::int64_t>(rates.size());
  a("adjust/rates", count);
  rates.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < rates.size(); ++i) a(fmt::format("adjust/rate {}", i), rates[i]);
}

EpochSettings current_settings(const Training& t) {
  const auto at = static_cast<std::size_t>(t.progress.epoch);
  EpochSettings s;
  s.momentum_per_sample = t.sgd.momentum_per_sample(at);
  s.minibatch = t.adjust.minibatch_size > 0 && at >= t.sgd.minibatch_size.size() ? t.adjust.minibatch_size
                                                                                 : t.sgd.minibatch_size.at(at);
  // After a roll-back, an epoch of the list may run again; the adjusted rate is used then.
  if (t.adjust.learning_rate > 0 && options(t).method != Method::none)
    s.learning_rate = t.adjust.learning_rate;
  else if (t.sgd.listed_learning_rates() > 0)
    s.learning_rate = t.sgd.learning_rate_per_sample(at);
  return s;
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

Verdict judge_epoch(Training& t, double criterion, const EpochSettings& settings) {
  const AutoAdjustOptions& o = options(t);
  AdjustState& a = t.adjust;
  if (o.adjust_minibatch) a.minibatch_size = settings.minibatch;
  a.rates.push_back(settings.learning_rate);
  if (a.rates.size() > static_cast<std::size_t>(o.num_prev_learn_rates)) a.rates.erase(a.rates.begin());
  if (o.method == Method::none) return Verdict::go_on;
  // Behind the end of the list the rate stays, even if the minibatch size of a rate per minibatch changes.
  if (o.method == Method::after_epoch &&
      static_cast<std::size_t>(t.progress.epoch) + 1 >= t.sgd.listed_learning_rates())
    a.learning_rate = settings.learning_rate;

  // Sums differ in the last digit, because a rank adds its own part first.
  t.world->broadcast(0, std::as_writable_bytes(std::span(&criterion, 1)));
  a.criterion_sum += criterion;
  ++a.criteria;
  const std::int64_t epoch = t.progress.epoch;
  if (epoch % o.interval + 1 != o.interval) return Verdict::go_on;
  const double average = a.criterion_sum / static_cast<double>(a.criteria), previous = a.previous_criterion;
  a.criterion_sum = 0, a.criteria = 0;
  if (o.method != Method::after_epoch || listed(t)) {
    a.previous_criterion = average;
    return Verdict::go_on;
  }

  const bool worse = std::isnan(average) || (average > previous && std::isfinite(previous));
  const bool back = worse && o.load_best_model;
  if (back) roll_back(t, std::max<std::int64_t>(0, epoch + 1 - o.interval));
  a.learning_rate = settings.learning_rate;
  if (!change_rate(t, previous, average)) return Verdict::finished;
  if (!back) {
    a.previous_criterion = average;
    return Verdict::go_on;
  }
  log::line(fmt::format("SGD: revoke back to and update checkpoint file for epoch {}", t.progress.epoch));
  return Verdict::rolled_back;
}

}  // namespace tutti

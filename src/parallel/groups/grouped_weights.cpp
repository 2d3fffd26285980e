// SPDX-License-Identifier: Apache-2.0
// Where the lower ranks exchange weights too, they do so before each upper exchange, as at the end of an epoch, and the
// upper exchange works on what they have in common then.
#include "parallel/groups/grouped_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "base/clock.h"
#include "parallel/local_gradients.h"
#include "parallel/state_archive.h"

namespace tutti {

GroupedWeights::GroupedWeights(WeightLevels levels, Communicator& all)
    : levels_(std::move(levels)),
      all_(all),
      sizes_(2 * static_cast<std::size_t>(levels_.lower_ranks->size())),
      metrics_(all) {
  if (levels_.free && broadcasts()) patient_ = std::make_unique<SleepingBroadcast>(*levels_.tells);
}

void GroupedWeights::start(Parameters& parameters) {
  parameters_ = &parameters;
  broadcast_weights(all_, parameters);
  levels_.lower->start(parameters);
  if (levels_.upper) levels_.upper->start(parameters);
  if (levels_.free) begin_work_queue();
  if (lower_has_weights() && before_.size() == 0)
    before_ = FloatBuffer(parameters.size()), move_ = FloatBuffer(parameters.size());
}

// All ranks of a group must know whether their first one gets work units.
void GroupedWeights::begin_work_queue() {
  WorkQueue* queue = levels_.upper ? levels_.upper->work_queue() : nullptr;
  std::int64_t has_queue = queue != nullptr;
  levels_.lower_ranks->broadcast(0, std::as_writable_bytes(std::span(&has_queue, 1)));
  if (has_queue == 0) return;
  if (!work_queue_) work_queue_ = std::make_unique<GroupWorkQueue>(levels_.lower_ranks->split(0));
  work_queue_->use(queue);
}

void GroupedWeights::begin_epoch(std::int64_t epoch) {
  levels_.lower->begin_epoch(epoch);
  levels_.lower->show_common_weights();
  if (levels_.upper) levels_.upper->begin_epoch(epoch);
  levels_.lower->take_back_weights();
}

std::int64_t GroupedWeights::step_columns(std::int64_t samples, std::int64_t columns, std::int64_t) {
  const std::array<std::int64_t, 2> mine{samples, columns};
  levels_.lower_ranks->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(sizes_)));
  lower_samples_ = 0;
  std::int64_t lower_columns = 0;
  for (std::size_t i = 0; i < sizes_.size(); i += 2) lower_samples_ += sizes_[i], lower_columns += sizes_[i + 1];
  return levels_.lower->step_columns(samples, columns, lower_columns);
}

void GroupedWeights::begin_step(std::int64_t columns, ReducedGradientSink& global) {
  sink_ = &global;
  columns_ = columns;
  if (levels_.upper) levels_.upper->begin_step(columns, from_upper_);
  levels_.lower->begin_step(columns, from_lower_);
}

void GroupedWeights::lower_ready(std::span<const std::size_t> chunks, std::int64_t columns) {
  columns_ = columns;
  updated_ = true;
  if (levels_.upper) {
    let_upper_see();
    levels_.upper->chunks_ready(chunks);
  } else if (!levels_.updates_above) {
    sink_->on_reduced(chunks, columns);
  }
}

void GroupedWeights::finish_gradients(StepMetrics& metrics) {
  levels_.lower->finish_gradients(metrics);
  mine_ += metrics;
  if (!levels_.upper) return;
  if (!lower_has_weights()) {
    StepMetrics copy = metrics;
    return levels_.upper->finish_gradients(copy);
  }
  clear(nothing_);
  nothing_.samples = lower_samples_;
  levels_.upper->finish_gradients(nothing_);
}

// Weights are exchanged by what the upper strategy counts itself, whatever the results are.
void GroupedWeights::finish_deferred(StepMetrics& metrics) {
  levels_.lower->finish_deferred(metrics);
  mine_ += metrics;
  if (!levels_.upper || lower_has_weights()) return;
  StepMetrics copy = metrics;
  levels_.upper->finish_deferred(copy);
}

template <class Act>
void GroupedWeights::raise(const Act& act) {
  const std::int64_t before = levels_.upper ? levels_.upper->weight_moves() : 0;
  resets_ = false;
  if (levels_.upper) let_upper_see(), act(*levels_.upper);
  std::int64_t moved = levels_.upper ? levels_.upper->weight_moves() - before : 0;
  if (broadcasts()) {
    const auto start = Clock::now();
    SleepingBroadcast::Words words{moved, resets_};
    tell(words);
    moved = words[0];
    if (!levels_.upper && words[1] != 0) sink_->reset_momentum();
    if (moved > 0) pass_weights_on();
    passing_ += seconds_since(start);
  }
  moves_ += moved;
}

void GroupedWeights::tell(SleepingBroadcast::Words& words) {
  if (patient_)
    patient_->broadcast(words);
  else
    levels_.lower_ranks->broadcast(0, std::as_writable_bytes(std::span(words)));
}

void GroupedWeights::pass_weights_on() {
  if (!broadcasts()) return;
  synchronize();
  levels_.lower_ranks->broadcast(0, std::as_writable_bytes(parameters_->weights.span()));
  if (levels_.upper) passed_on_ += static_cast<std::int64_t>(parameters_->size()) * (levels_.lower_ranks->size() - 1);
}

void GroupedWeights::exchange_weights(std::int64_t global_samples) {
  tallied_ = false;
  const auto give = [&](Strategy& upper) { upper.exchange_weights(global_samples); };
  if (!lower_has_weights()) return raise(give);
  const std::int64_t met = levels_.lower->weight_moves();
  levels_.lower->exchange_weights(lower_samples_);
  if (!upper_may_move(global_samples)) {
    if (levels_.upper) give(*levels_.upper);
    return;
  }
  if (levels_.lower->weight_moves() == met) levels_.lower->end_epoch(from_lower_);
  levels_.lower->show_common_weights();
  raise_from_lower(give);
  levels_.lower->take_back_weights();
}

template <class Act>
void GroupedWeights::raise_from_lower(const Act& act) {
  const std::int64_t moves = moves_;
  synchronize();
  std::copy_n(parameters_->weights.data(), parameters_->size(), before_.data());
  raise(act);
  if (moves_ != moves) levels_.lower->adopt_common_weights(before_.span());
}

bool GroupedWeights::upper_may_move(std::int64_t global_samples) {
  std::int64_t may = levels_.upper && levels_.upper->may_move_weights(global_samples);
  if (broadcasts()) levels_.lower_ranks->broadcast(0, std::as_writable_bytes(std::span(&may, 1)));
  return may != 0;
}

// The metrics of all ranks, however their strategies have counted.
void GroupedWeights::drain(ReducedGradientSink& global) {
  sink_ = &global;
  updated_ = false;
  levels_.lower->drain(from_lower_);
  late_ = levels_.lower->pending_metrics_and_reset();
  levels_.lower->metrics_of_others_and_reset();
  if (levels_.upper) {
    if (late_.samples > 0) {
      StepMetrics copy = late_;
      levels_.upper->finish_gradients(copy);
    }
  }
  // An update that came one minibatch delayed has taken the ranks away from what they had in common.
  const bool last = levels_.free ? levels_.runs_behind && !tallied_ : updated_;
  // Servers that wait for all groups must know in each of them that there is something left, though it be nothing.
  const std::int64_t some = levels_.free ? 1 : 0;
  if (last) raise([&](Strategy& upper) { upper.exchange_weights(some); });
  if (levels_.upper) {
    levels_.upper->drain(from_upper_);
    levels_.upper->metrics_of_others_and_reset();
  }
  if (patient_) {
    SleepingBroadcast::Words met{};
    tell(met);
  }
  if (levels_.free) pass_weights_on();
  // A group that got no unit, or a rank that serves, has the others' metrics to take all the same.
  if (std::exchange(tallied_, true) && !levels_.free) return;
  mine_ += late_;
  clear(nothing_);
  others_ += without(metrics_of_all(levels_.counts ? mine_ : nothing_), mine_);
  clear(mine_);
}

StepMetrics GroupedWeights::metrics_of_all(const StepMetrics& mine) {
  if (work_queue_) {
    StepMetrics all = metrics_of_others(all_, mine);
    all += mine;
    return all;
  }
  metrics_.begin(mine);
  return metrics_.finish();
}

void GroupedWeights::end_epoch(ReducedGradientSink& global) {
  sink_ = &global;
  const std::int64_t met = levels_.lower->weight_moves(), moves = moves_;
  levels_.lower->end_epoch(from_lower_);
  const auto end = [&](Strategy& upper) { upper.end_epoch(from_upper_); };
  if (!lower_has_weights()) return raise(end);
  levels_.lower->show_common_weights();
  raise_from_lower(end);
  // A method that has everything in common after every minibatch has no exchange at the end of its own.
  if (levels_.lower->weight_moves() != met && moves_ == moves && upper_may_move(0))
    raise_from_lower([](Strategy& upper) { upper.exchange_weights(0); });
  levels_.lower->take_back_weights();
}

void GroupedWeights::show_common_weights() {
  levels_.lower->show_common_weights();
  if (levels_.upper) levels_.upper->show_common_weights();
  pass_weights_on();
}

void GroupedWeights::take_back_weights() {
  if (levels_.upper) levels_.upper->take_back_weights();
  pass_weights_on();
  if (std::exchange(adopted_, false)) let_lower_adopt();
  levels_.lower->take_back_weights();
}

// What the lower strategy has in common is shown only when the upper one has taken back its own.
void GroupedWeights::adopt_common_weights(std::span<const float> before) {
  if (levels_.upper) levels_.upper->adopt_common_weights(before);
  if (!lower_has_weights()) return;
  adopted_ = true;
  synchronize();
  for (std::size_t i = 0; i < before.size(); ++i) move_.data()[i] = parameters_->weights.data()[i] - before[i];
}

void GroupedWeights::let_lower_adopt() {
  synchronize();
  for (std::size_t i = 0; i < move_.size(); ++i) before_.data()[i] = parameters_->weights.data()[i] - move_.data()[i];
  levels_.lower->adopt_common_weights(before_.span());
}

void GroupedWeights::archive(Archive& a) {
  LevelArchive lower(a, "inside/"), upper(a, "between/"), common(a, "inside common/");
  // From the weights of all to those of the groups to those of the ranks.
  if (levels_.upper) levels_.upper->archive(upper);
  if (a.loading()) pass_weights_on();
  // Other groups than that of rank 0 have other values.
  if (lower_has_weights()) levels_.lower->archive_common(common);
  levels_.lower->archive(lower);
}

void GroupedWeights::archive_common(Archive& a) {
  LevelArchive lower(a, "inside/");
  levels_.lower->archive_common(lower);
  archive_packed(a, "between", levels_.upper != nullptr, [&](Archive& p) { levels_.upper->archive_common(p); });
}

std::string GroupedWeights::advice(std::int64_t samples) const {
  const std::string text = levels_.upper ? levels_.upper->advice(samples) : std::string();
  return text.empty() ? levels_.lower->advice(samples) : text;
}

ExchangeStats GroupedWeights::exchange_stats_and_reset() {
  ExchangeStats lower = levels_.lower->exchange_stats_and_reset();
  ExchangeStats upper = levels_.upper ? levels_.upper->exchange_stats_and_reset() : ExchangeStats();
  lower.wait += std::exchange(passing_, 0);
  lower.values_sent += passed_on_;
  lower.bytes_sent += std::exchange(passed_on_, 0) * static_cast<std::int64_t>(sizeof(float));
  return levels_.leaders_act ? stats_of_levels(lower, upper) : stats_of_levels(upper, lower);
}

std::string GroupedWeights::describe() const { return levels_.text; }

std::string GroupedWeights::loop_text(std::int64_t epoch) const {
  return levels_.lower->loop_text(epoch) + (levels_.upper ? levels_.upper->loop_text(epoch) : "");
}

}  // namespace tutti

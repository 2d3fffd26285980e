// SPDX-License-Identifier: Apache-2.0
// If the ranks of a group exchange weights too, they do so before each outer exchange and at the end of an epoch. The
// outer exchange then works on their common weights.
#include "parallel/groups/group_weights.h"

#include <algorithm>
#include <utility>

#include "base/timeline.h"
#include "parallel/groups/level_archive.h"
#include "parallel/state_archive.h"

namespace tutti {
namespace {

void merge(const WeightChange& more, WeightChange& change) {
  change.weights_changed = change.weights_changed || more.weights_changed;
  change.reset_momentum = change.reset_momentum || more.reset_momentum;
}

}  // namespace

GroupWeights::GroupWeights(WeightLevels levels) : levels_(std::move(levels)) {
  pollable_ = this;
  if (!levels_.servers || !broadcasts()) return;
  words_ = levels_.group->split(0);
  sleeping_ = std::make_unique<SleepingBroadcast>(*words_);
}

void GroupWeights::start(Parameters& parameters) {
  parameters_ = &parameters;
  if (levels_.inner) levels_.inner->start(parameters);
  if (levels_.outer) levels_.outer->start(parameters);
  if (levels_.servers) begin_work_queue();
  if (levels_.inner && before_.size() == 0)
    before_ = FloatBuffer(parameters.size()), move_ = FloatBuffer(parameters.size());
}

// All ranks of a group must know whether their leader uses a work queue.
void GroupWeights::begin_work_queue() {
  WorkQueue* queue = levels_.outer ? levels_.work_queue() : nullptr;
  std::int64_t has_queue = queue != nullptr;
  levels_.group->broadcast(0, std::as_writable_bytes(std::span(&has_queue, 1)));
  if (has_queue == 0) return;
  if (!work_queue_) work_queue_ = std::make_unique<GroupWorkQueue>(levels_.group->split(0));
  work_queue_->use(queue);
}

void GroupWeights::poll() {
  if (levels_.inner) levels_.inner->poll();
  if (levels_.outer) levels_.outer->poll();
}

void GroupWeights::begin_epoch(std::int64_t epoch) {
  if (levels_.inner) levels_.inner->begin_epoch(epoch), levels_.inner->show(Weights::common, {});
  if (levels_.outer) levels_.outer->begin_epoch(epoch);
  if (levels_.inner) levels_.inner->show(Weights::own, {});
}

// Collective in the group; the leader decides.
bool GroupWeights::is_due(const StepInfo& step) const {
  std::int64_t due = levels_.outer && levels_.outer->is_due(step);
  if (broadcasts()) levels_.group->broadcast(0, std::as_writable_bytes(std::span(&due, 1)));
  return due != 0;
}

template <class Act>
WeightChange GroupWeights::exchange_outside(const Act& act) {
  WeightChange change;
  if (levels_.outer) change = act(*levels_.outer);
  if (!broadcasts()) return change;
  const WorkTimer watch(broadcasting_, Work::wait);
  SleepingBroadcast::Words words{change.weights_changed, change.reset_momentum};
  tell(words);
  change.weights_changed = words[0] != 0, change.reset_momentum = words[1] != 0;
  if (change.weights_changed) broadcast_weights();
  return change;
}

void GroupWeights::tell(SleepingBroadcast::Words& words) {
  if (sleeping_)
    sleeping_->broadcast(words), sleeping_->flush();
  else
    levels_.group->broadcast(0, std::as_writable_bytes(std::span(words)));
}

void GroupWeights::broadcast_weights() {
  if (!broadcasts()) return;
  synchronize();
  levels_.group->broadcast(0, std::as_writable_bytes(parameters_->weights.span()));
  if (levels_.outer) values_sent_ += static_cast<std::int64_t>(parameters_->size()) * (levels_.group->size() - 1);
}

std::int64_t GroupWeights::samples_of_group(std::int64_t own) const {
  levels_.group->all_reduce_sum(std::span(&own, 1));
  return own;
}

WeightChange GroupWeights::after_update(const StepInfo& step) {
  const auto act = [](const StepInfo& s) { return [&s](WeightExchange& outer) { return outer.after_update(s); }; };
  if (!levels_.inner) return exchange_outside(act(step));
  StepInfo of_group = step, inside = step;
  of_group.samples = inside.global_samples = samples_of_group(step.own_samples);
  WeightChange change = levels_.inner->after_update(inside);
  if (!is_due(of_group)) {
    if (levels_.outer) levels_.outer->after_update(of_group);
    return change;
  }
  if (!change.weights_changed || levels_.inner_streams) {
    merge(levels_.inner->end_epoch(), change);
  }
  CommonWeights common(*levels_.inner);
  const WeightChange outer = exchange_outside_from_inner(act(of_group));
  if (outer.weights_changed) common.commit(before_.span());
  merge(outer, change);
  return change;
}

// While the group's common weights are shown.
template <class Act>
WeightChange GroupWeights::exchange_outside_from_inner(const Act& act) {
  synchronize();
  std::copy_n(parameters_->weights.data(), parameters_->size(), before_.data());
  return exchange_outside(act);
}

void GroupWeights::drain() {
  if (levels_.inner) levels_.inner->drain();
  if (levels_.outer) levels_.outer->drain();
  if (sleeping_) {
    SleepingBroadcast::Words drained{};
    tell(drained);
  }
  if (levels_.servers) broadcast_weights();
  count_spent();
}

WeightChange GroupWeights::end_epoch() {
  const auto end = [](WeightExchange& outer) { return outer.end_epoch(); };
  if (!levels_.inner) {
    const WeightChange change = exchange_outside(end);
    count_spent();
    return change;
  }
  WeightChange change = levels_.inner->end_epoch();
  {
    CommonWeights common(*levels_.inner);
    WeightChange outer = exchange_outside_from_inner(end);
    // A method whose weights are equal after every minibatch has no exchange at the end of an epoch.
    if (change.weights_changed && !outer.weights_changed && !levels_.elastic && is_due({}))
      outer = exchange_outside_from_inner([](WeightExchange& o) { return o.after_update({}); });
    if (outer.weights_changed) common.commit(before_.span());
    merge(outer, change);
  }
  count_spent();
  return change;
}

void GroupWeights::show(Weights which, std::span<const float> changed_from) {
  if (which == Weights::own) return show_own(changed_from);
  if (levels_.inner) levels_.inner->show(Weights::common, {});
  if (levels_.outer) levels_.outer->show(Weights::common, {});
  broadcast_weights();
}

// The group's common weights are back in place only after the outer exchange has restored its own; then they move.
void GroupWeights::show_own(std::span<const float> changed_from) {
  const bool changed = levels_.inner && !changed_from.empty();
  if (changed) {
    synchronize();
    std::transform(changed_from.begin(), changed_from.end(), parameters_->weights.data(), move_.data(),
                   [](float before, float now) { return now - before; });
  }
  if (levels_.outer) levels_.outer->show(Weights::own, changed_from);
  broadcast_weights();
  if (!levels_.inner) return;
  if (changed) {
    synchronize();
    for (std::size_t i = 0; i < move_.size(); ++i) before_.data()[i] = parameters_->weights.data()[i] - move_.data()[i];
  }
  levels_.inner->show(Weights::own, changed ? before_.span() : std::span<float>());
}

void GroupWeights::archive(Archive& a, Section section) {
  LevelArchive inner(a, "inside/"), outer(a, "between/"), common(a, "inside common/");
  if (section == Section::common) {
    if (levels_.inner) levels_.inner->archive(inner, Section::common);
    // Only leaders can read the state of the outer exchange.
    archive_packed(a, "between", levels_.outer != nullptr,
                   [&](Archive& p) { levels_.outer->archive(p, Section::common); });
    return;
  }
  // From the common weights to those of the groups to those of the ranks.
  if (levels_.outer) levels_.outer->archive(outer, Section::per_rank);
  if (a.loading()) broadcast_weights();
  if (!levels_.inner) return;
  levels_.inner->archive(common, Section::common);  // other groups than that of rank 0 have other values
  levels_.inner->archive(inner, Section::per_rank);
}

void GroupWeights::count_spent() {
  ExchangeStats inside = levels_.inner ? levels_.inner->exchange_stats_and_reset() : ExchangeStats();
  inside.wait += std::exchange(broadcasting_, 0);
  inside.values_sent += values_sent_;
  inside.bytes_sent += std::exchange(values_sent_, 0) * static_cast<std::int64_t>(sizeof(float));
  stats_ += stats_of_levels(inside, levels_.outer ? levels_.outer->exchange_stats_and_reset() : ExchangeStats());
}

}  // namespace tutti

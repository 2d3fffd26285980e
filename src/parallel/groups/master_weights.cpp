// SPDX-License-Identifier: Apache-2.0
#include "parallel/groups/master_weights.h"

#include <algorithm>
#include <utility>

#include "parallel/groups/level_archive.h"
#include "parallel/local_gradients.h"

namespace tutti {
namespace {

constexpr const char* kWaits = "has not begun";

}  // namespace

MasterWeights::MasterWeights(MasterLevels levels) : levels_(std::move(levels)) {
  pollable_ = this;
  plan_work_queue();
}

// Either every worker takes units, or the leaders do for their groups. Ranks that only serve take part and get none.
void MasterWeights::plan_work_queue() {
  if (levels_.units == MasterLevels::Units::none) return;
  const bool of_groups = levels_.units == MasterLevels::Units::of_groups, leads = levels_.group->rank() == 0;
  const bool takes = levels_.works && (leads || !of_groups), takes_part = takes || !levels_.works;
  const auto takers = levels_.all->split(takes_part ? 0 : 1);
  if (takes_part) {
    queue_server_ = std::make_unique<Server>(*takers);
    units_ = std::make_unique<ServedWorkQueue>(*queue_server_, 0, takes);
    queue_server_->open();
  }
  auto workers = levels_.group->split(levels_.works ? 0 : 1);
  if (!of_groups || !levels_.works) return;
  units_of_group_ = std::make_unique<GroupWorkQueue>(std::move(workers));
  units_of_group_->use(units_.get());
}

WorkQueue* MasterWeights::work_queue() const {
  return units_of_group_ ? static_cast<WorkQueue*>(units_of_group_.get()) : units_.get();
}

void MasterWeights::copy(const FloatBuffer& from, FloatBuffer& to) const {
  live_->weights.memory().synchronize();
  std::copy_n(from.data(), from.size(), to.data());
}

void MasterWeights::start(Parameters& parameters) {
  live_ = &parameters;
  levels_.inner->start(parameters);
  group_common_ = FloatBuffer(parameters.size());
  begun_ = false;
  if (!levels_.outer) return;
  master_.slices = parameters.slices, master_.chunks = parameters.chunks, master_.sparse_rows = parameters.sparse_rows;
  master_.weights = FloatBuffer(parameters.size());
  copy(live_->weights, master_.weights);
  levels_.outer->start(master_);
}

void MasterWeights::begin_epoch(std::int64_t epoch) {
  const bool first = !std::exchange(begun_, true);
  if (levels_.outer) {
    if (first) copy(live_->weights, master_.weights);
    levels_.outer->begin_epoch(epoch);
  }
  levels_.inner->begin_epoch(epoch);
}

void MasterWeights::poll() {
  levels_.inner->poll();
  if (levels_.outer) levels_.outer->poll();
}

// Workers that push together count the samples of their group alone, not those of all groups.
StepInfo MasterWeights::step_of_workers(const StepInfo& step) const {
  StepInfo of_workers = step;
  of_workers.global_samples = step.own_samples;
  if (levels_.step) levels_.step->all_reduce_sum(std::span(&of_workers.global_samples, 1));
  return of_workers;
}

// For the outer servers the samples of the group are taken to be those of the leader times the workers.
WeightChange MasterWeights::after_update(const StepInfo& step) {
  const WeightChange change = levels_.inner->after_update(levels_.step ? step_of_workers(step) : step);
  if (!levels_.outer) return change;
  StepInfo of_group = step;
  of_group.samples = of_group.own_samples = step.samples * levels_.workers;
  of_group.columns = step.columns * levels_.workers;
  const bool due = levels_.outer->is_due(of_group);
  if (due) group_weights()->read(master_.weights.data());
  levels_.outer->after_update(of_group);
  if (due) group_weights()->move(master_.weights.data());
  return change;
}

// Nothing is in flight within the group. What it has learned since its last exchange goes to the outer servers, and all
// its ranks get what these have.
void MasterWeights::meet(bool ends_epoch) {
  if (levels_.outer) {
    ServedWeights* const weights = group_weights();
    if (weights) {
      FloatBuffer& before = group_common_;
      copy(master_.weights, before);
      weights->read(master_.weights.data());
      if (levels_.outer_waits || !std::ranges::equal(before.span(), master_.weights.span()))
        levels_.outer->after_update({.own_samples = 1, .samples = 1, .rates = {}});
    }
    levels_.outer->drain();
    if (ends_epoch) levels_.outer->end_epoch();
    if (weights)
      weights->move(master_.weights.data());
    else
      copy(master_.weights, live_->weights);
  }
  levels_.inner->drain();
  count_spent();
}

void MasterWeights::drain() {
  levels_.inner->drain();
  meet(false);
}

WeightChange MasterWeights::end_epoch() {
  const WeightChange change = levels_.inner->end_epoch();
  meet(true);
  return change;
}

// The outer common weights take the place of those of the group, which take the place of the rank's own.
void MasterWeights::show(Weights which, std::span<const float>) {
  if (!begun_) return;  // a warm start: all ranks have the common weights
  if (levels_.outer) levels_.outer->show(which);
  if (which == Weights::own) {
    copy(group_common_, live_->weights);
    levels_.inner->show(Weights::own);
    return;
  }
  levels_.inner->show(Weights::common);
  copy(live_->weights, group_common_);
  if (levels_.outer) copy(master_.weights, live_->weights);
  broadcast_weights(*levels_.group, *live_);
}

void MasterWeights::archive(Archive& a, Section section) {
  if (section == Section::common) return;  // servers have no such state
  bool waits = !a.loading() && !begun_;    // for the end of a warm start
  if (a.loading() ? a.has(kWaits) : waits) a(kWaits, waits);
  LevelArchive inner(a, "inside/"), outer(a, "between/");
  if (levels_.outer) {
    if (a.loading()) copy(live_->weights, master_.weights);
    levels_.outer->archive(outer, Section::per_rank);
  }
  if (a.loading()) {  // from the common weights to those of the group to those of the rank
    begun_ = !waits;
    if (levels_.outer) copy(master_.weights, live_->weights);
    broadcast_weights(*levels_.group, *live_);
  }
  levels_.inner->archive(inner, Section::per_rank);
}

bool MasterWeights::joins_step(std::int64_t samples) {
  return levels_.works && (!levels_.skipper || levels_.skipper->joins_step(samples));
}

std::int64_t MasterWeights::dropped_samples_and_reset() {
  std::int64_t dropped = levels_.skipper ? levels_.skipper->dropped_samples_and_reset() : 0;
  if (levels_.group->rank() > 0) dropped = 0;  // the leader knows those of its group
  levels_.all->all_reduce_sum(std::span(&dropped, 1));
  return dropped;
}

void MasterWeights::count_spent() {
  ExchangeStats within = levels_.inner->exchange_stats_and_reset();
  if (ServedWeights* const weights = levels_.outer ? group_weights() : nullptr) {
    const std::int64_t bytes = weights->bytes_sent_and_reset();
    within.bytes_sent += bytes;
    within.values_sent += bytes / static_cast<std::int64_t>(sizeof(float));
  }
  stats_ += stats_of_levels(within, levels_.outer ? levels_.outer->exchange_stats_and_reset() : ExchangeStats());
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// A chunk goes through the strategy within the group; the group's sum of the carried columns through the one between
// groups; the result back to all ranks of the group. Each of the two may run a minibatch behind.
#include "parallel/groups/grouped_gradients.h"

#include <fmt/format.h>

#include <cassert>
#include <utility>

#include "parallel/local_gradients.h"

namespace tutti {

GroupedGradients::GroupedGradients(GroupParts parts, int inter_group_ranks)
    : parts_(std::move(parts)), inter_group_ranks_(inter_group_ranks), broadcast_(*parts_.tells) {}

void GroupedGradients::start(Parameters& parameters) {
  parameters_ = &parameters;
  chunks_ = all_chunks(parameters);
  // From rank 0 to the leaders, from there to their groups.
  if (parts_.layout.local == 0) broadcast_weights(*parts_.peers, parameters);
  parts_.inside->start(parameters);
  // Exchanges keep their buffers when a run begins again.
  if (!columns_) columns_ = std::make_unique<InterGroupColumns>(*parts_.tells, parameters, inter_group_ranks_);
  if (parts_.between) parts_.between->start(columns_->mine());
}

Summed GroupedGradients::FromInside::summed(std::int64_t columns) const {
  const Summed wanted = owner.sink_->summed(columns);
  return wanted == Summed::contributions ? Summed::gradients : wanted;
}

// Stands still from the step on in which contributions begin, unless another state is loaded.
const float* GroupedGradients::own_mask() {
  const float* const whole = sink_->mask();
  if (!whole) return nullptr;
  if (mask_.size() == 0) mask_ = FloatBuffer(columns_->mine().size());
  if (std::exchange(whole_mask_, whole) != whole) columns_->gather(whole, mask_.data());
  return mask_.data();
}

void GroupedGradients::begin_epoch(std::int64_t epoch) {
  whole_mask_ = nullptr;
  parts_.inside->begin_epoch(epoch);
  if (parts_.between) parts_.between->begin_epoch(epoch);
}

void GroupedGradients::begin_step(std::int64_t columns, ReducedGradientSink& global) {
  sink_ = &global;
  parts_.inside->begin_step(columns, from_inside_);
}

void GroupedGradients::chunk_ready(std::size_t chunk) {
  parts_.inside->chunk_ready(chunk);
  if (open_) deliver_what_is_there();
}

void GroupedGradients::chunks_ready(std::span<const std::size_t> chunks) {
  parts_.inside->chunks_ready(chunks);
  if (open_) deliver_what_is_there();
}

void GroupedGradients::open(std::int64_t columns) {
  assert(!open_);
  open_ = true;
  summed_ = fed_ = sent_ = next_run_ = 0;
  columns_->arm();
  columns_of_step_ = columns;
  contributes_ = parts_.contributes && sink_->summed(columns) == Summed::contributions;
  if (parts_.between) parts_.between->begin_step(columns, from_between_);
}

void GroupedGradients::group_sum(std::size_t chunk, std::int64_t columns) {
  if (chunk == 0) open(columns);
  assert(chunk == summed_);
  summed_ = chunk + 1;
  feed();
}

// The lists of sparse gradients must be known before the first chunk is announced.
void GroupedGradients::feed() {
  if (summed_ < columns_->lists_known_at() || !parts_.between) return;
  if (fed_ == 0) columns_->load_lists();
  while (fed_ < summed_) {
    if (contributes_) sink_->contribute(fed_, columns_of_step_, parts_.layout.groups());
    columns_->load(fed_);
    if (!parts_.between->follows_device()) parameters_->gradients.memory().synchronize();
    parts_.between->chunk_ready(fed_++);
  }
}

void GroupedGradients::world_sum(std::size_t chunk, std::int64_t columns) {
  assert(chunk == sent_);
  sent_ = chunk + 1;
  sent_columns_ = columns;
  columns_->send(chunk);
}

void GroupedGradients::deliver_run() {
  columns_->store(next_run_);
  const std::size_t first = columns_->first_chunk(next_run_);
  sink_->on_reduced(std::span(chunks_).subspan(first, columns_->end_chunk(next_run_) - first), sent_columns_);
  ++next_run_;
}

// Sums that come one minibatch delayed may take the place of gradients only once these have been given on.
void GroupedGradients::deliver_what_is_there() {
  while (next_run_ < columns_->runs() && columns_->end_chunk(next_run_) <= fed_ && columns_->try_complete(next_run_))
    deliver_run();
}

void GroupedGradients::deliver_rest(StepMetrics& metrics) {
  bool delivered = parts_.between && sent_ == parameters_->chunks.size();
  assert(delivered || !parts_.between || sent_ == 0);
  if (inter_group_ranks_ < parts_.layout.size()) broadcast_.broadcast(delivered, sent_columns_, metrics);
  if (!delivered) return;
  for (; next_run_ < columns_->runs(); deliver_run()) columns_->complete(next_run_);
  columns_->flush();
  sent_ = next_run_ = 0;
}

void GroupedGradients::finish_gradients(StepMetrics& metrics) {
  parts_.inside->finish_gradients(metrics);
  if (!std::exchange(open_, false)) return;  // nothing has come out of the group yet
  assert(summed_ == parameters_->chunks.size());
  if (parts_.between) parts_.between->finish_gradients(metrics);
  deliver_rest(metrics);
}

void GroupedGradients::finish_deferred(StepMetrics& metrics) {
  parts_.inside->finish_deferred(metrics);
  if (parts_.between) parts_.between->finish_deferred(metrics);
  if (inter_group_ranks_ >= parts_.layout.size()) return;
  bool delivered = false;
  std::int64_t columns = 0;
  broadcast_.broadcast(delivered, columns, metrics);
}

void GroupedGradients::drain(ReducedGradientSink& global) {
  sink_ = &global;
  late_ = {};
  parts_.inside->drain(from_inside_);
  if (std::exchange(open_, false)) {  // a minibatch that the group has only summed now
    StepMetrics metrics = parts_.inside->pending_metrics_and_reset();
    if (parts_.between) parts_.between->finish_gradients(metrics);
    deliver_rest(metrics);
    late_ = metrics;
  }
  columns_->arm();
  sent_ = next_run_ = 0;
  StepMetrics metrics;
  if (parts_.between) {
    parts_.between->drain(from_between_);
    metrics = parts_.between->pending_metrics_and_reset();
  }
  deliver_rest(metrics);
  late_ += metrics;
}

void GroupedGradients::end_epoch(ReducedGradientSink& global) {
  sink_ = &global;
  parts_.inside->end_epoch(from_inside_);
  if (parts_.between) parts_.between->end_epoch(from_between_);
}

void GroupedGradients::archive(Archive& a) {
  LevelArchive inside(a, "inside/"), between(a, "between/");
  parts_.inside->archive(inside);
  if (!parts_.between) return;
  parts_.between->archive(between);
  // Each inter-group rank has the state of its columns alone.
  LevelArchive common(a, "between common/");
  parts_.between->archive_common(common);
}

void GroupedGradients::archive_common(Archive& a) {
  LevelArchive inside(a, "inside/");
  parts_.inside->archive_common(inside);
}

std::string GroupedGradients::advice(std::int64_t samples) const {
  const std::string text = parts_.inside->advice(samples);
  return text.empty() && parts_.between ? parts_.between->advice(samples) : text;
}

ExchangeStats GroupedGradients::exchange_stats_and_reset() {
  ExchangeStats within = parts_.inside->exchange_stats_and_reset();
  const std::int64_t carried = columns_ ? columns_->bytes_and_reset() : 0;
  within.bytes_sent += carried, within.values_sent += carried / static_cast<std::int64_t>(sizeof(float));
  return stats_of_levels(within, parts_.between ? parts_.between->exchange_stats_and_reset() : ExchangeStats());
}

std::string GroupedGradients::describe() const {
  return fmt::format("{}: between them {}; within them {}", parts_.layout.text(),
                     parts_.between ? parts_.between->describe() : "exchanged by other ranks",
                     parts_.inside->describe());
}

std::string GroupedGradients::loop_text(std::int64_t epoch) const {
  return parts_.inside->loop_text(epoch) + (parts_.between ? " between groups" + parts_.between->loop_text(epoch) : "");
}

}  // namespace tutti

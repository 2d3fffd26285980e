// SPDX-License-Identifier: Apache-2.0
// A chunk passes through the exchange inside the group; then the columns of the inter-group rank pass through the
// exchange between groups; then the result is broadcast in the group. Each of the two exchanges may be delayed by a
// minibatch.
#include "parallel/groups/hierarchical_gradients.h"

#include <cassert>
#include <utility>

#include "parallel/groups/level_archive.h"
#include "parallel/local_gradients.h"

namespace tutti {

void HierarchicalGradients::start(Parameters& parameters) {
  parameters_ = &parameters;
  chunks_ = all_chunks(parameters);
  levels_.inside->start(parameters);
  // Exchanges keep their buffers when a run starts again.
  if (!columns_) columns_ = std::make_unique<InterGroupColumns>(*levels_.group, parameters, levels_.inter_group_ranks);
  if (levels_.between) levels_.between->start(columns_->mine());
}

Summed HierarchicalGradients::FromInside::summed(std::int64_t columns) const {
  const Summed wanted = owner.sink_->summed(columns);
  return wanted == Summed::contributions ? Summed::gradients : wanted;
}

// Not changed from the step on in which contributions begin, unless another state is loaded.
const float* HierarchicalGradients::own_mask() {
  const float* const whole = sink_->mask();
  if (!whole) return nullptr;
  if (mask_.size() == 0) mask_ = FloatBuffer(columns_->mine().size());
  if (std::exchange(whole_mask_, whole) != whole) columns_->gather(whole, mask_.data());
  return mask_.data();
}

void HierarchicalGradients::begin_epoch(std::int64_t epoch) {
  whole_mask_ = nullptr;
  levels_.inside->begin_epoch(epoch);
  if (levels_.between) levels_.between->begin_epoch(epoch);
}

void HierarchicalGradients::begin_step(const StepInfo& step, ReducedGradientSink& sink) {
  sink_ = &sink;
  step_ = step;
  levels_.inside->begin_step(step, from_inside_);
}

void HierarchicalGradients::chunk_ready(std::size_t chunk) {
  levels_.inside->chunk_ready(chunk);
  if (open_) deliver_what_is_there();
}

void HierarchicalGradients::chunks_ready(std::span<const std::size_t> chunks) {
  levels_.inside->chunks_ready(chunks);
  if (open_) deliver_what_is_there();
}

void HierarchicalGradients::open(std::int64_t columns) {
  assert(!open_);
  open_ = true;
  summed_ = fed_ = sent_ = next_run_ = 0;
  columns_->arm();
  columns_of_step_ = columns;
  contributes_ = levels_.contributes && sink_->summed(columns) == Summed::contributions;
  StepInfo step = step_;
  step.columns = columns;
  if (levels_.between) levels_.between->begin_step(step, from_between_);
}

void HierarchicalGradients::group_sum(std::size_t chunk, std::int64_t columns) {
  if (chunk == 0) open(columns);
  assert(chunk == summed_);
  summed_ = chunk + 1;
  feed();
}

// The lists of sparse gradients must be known before the first chunk is announced.
void HierarchicalGradients::feed() {
  if (summed_ < columns_->lists_known_at() || !levels_.between) return;
  if (fed_ == 0) columns_->load_lists();
  while (fed_ < summed_) {
    if (contributes_) sink_->contribute(fed_, columns_of_step_, levels_.groups);
    columns_->load(fed_);
    if (!levels_.between->follows_device()) parameters_->gradients.memory().synchronize();
    levels_.between->chunk_ready(fed_++);
  }
}

void HierarchicalGradients::world_sum(std::size_t chunk, std::int64_t columns) {
  assert(chunk == sent_);
  sent_ = chunk + 1;
  sent_columns_ = columns;
  columns_->send(chunk);
}

void HierarchicalGradients::deliver_run() {
  columns_->store(next_run_);
  const std::size_t first = columns_->first_chunk(next_run_);
  sink_->on_reduced(std::span(chunks_).subspan(first, columns_->end_chunk(next_run_) - first), sent_columns_);
  ++next_run_;
}

// Delayed sums may overwrite gradients only after these have been passed on.
void HierarchicalGradients::deliver_what_is_there() {
  while (next_run_ < columns_->runs() && columns_->end_chunk(next_run_) <= fed_ && columns_->try_complete(next_run_))
    deliver_run();
}

// `delivered` is equal on all ranks; inter-group ranks have every sum by now.
void HierarchicalGradients::deliver_rest(bool delivered) {
  assert(!levels_.between || sent_ == (delivered ? parameters_->chunks.size() : 0));
  if (!delivered) return;
  for (; next_run_ < columns_->runs(); deliver_run()) columns_->complete(next_run_);
  columns_->flush();
  sent_ = next_run_ = 0;
}

void HierarchicalGradients::finish_step() {
  levels_.inside->finish_step();
  if (open_) finish_open_step();  // otherwise nothing has come out of the group yet
  count_spent();
}

void HierarchicalGradients::finish_open_step() {
  open_ = false;
  assert(summed_ == parameters_->chunks.size());
  if (levels_.between) levels_.between->finish_step();
  std::optional<std::int64_t> done = columns_of_step_;
  if (levels_.between_delayed) std::swap(done, in_flight_);
  if (done) sent_columns_ = *done;
  deliver_rest(done.has_value());
}

void HierarchicalGradients::drain(ReducedGradientSink& sink) {
  sink_ = &sink;
  levels_.inside->drain(from_inside_);
  if (open_) finish_open_step();  // a minibatch that the group has only summed now
  columns_->arm();
  sent_ = next_run_ = 0;
  if (levels_.between) levels_.between->drain(from_between_);
  if (in_flight_) sent_columns_ = *in_flight_;
  deliver_rest(std::exchange(in_flight_, {}).has_value());
  count_spent();
}

void HierarchicalGradients::count_spent() {
  ExchangeStats within = levels_.inside->exchange_stats_and_reset();
  const std::int64_t carried = columns_ ? columns_->bytes_and_reset() : 0;
  within.bytes_sent += carried, within.values_sent += carried / static_cast<std::int64_t>(sizeof(float));
  stats_ += stats_of_levels(within, levels_.between ? levels_.between->exchange_stats_and_reset() : ExchangeStats());
}

void HierarchicalGradients::archive(Archive& a) {
  LevelArchive inside(a, "inside/"), between(a, "between/");
  levels_.inside->archive(inside);
  if (levels_.between) levels_.between->archive(between);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "train/gradient_reduction.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/agreement.h"
#include "parallel/local_gradients.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti {

void WeightUpdate::begin_step(bool hold) {
  begun_ = updated_ = skipped_ = false;
  holds_ = hold;
  held_.clear();
}

void WeightUpdate::apply_held() {
  holds_ = false;
  if (held_.empty()) return;
  std::ranges::sort(held_);  // the order of the optimizer's sums over shards
  on_reduced(held_, held_columns_);
  held_.clear();
}

void WeightUpdate::apply(const WeightChange& change) {
  if (change.apply_gradients) apply_held();
  if (change.reset_momentum) optimizer_.reset_momentum();
}

void WeightUpdate::on_reduced(std::span<const std::size_t> chunks, std::int64_t columns) {
  if (holds_) {
    if (held_.empty()) held_columns_ = columns;  // of the step, as without holding
    held_.insert(held_.end(), chunks.begin(), chunks.end());
  } else if (updates_ && !skipped_ && columns > 0) {
    const WorkTimer watch(seconds_, Work::update);
    begin(columns);
    updated_ = true;
    chunks.size() == 1 ? optimizer_.update(chunks[0]) : optimizer_.update_all(chunks);
  }
  weights_.poll();
}

Summed WeightUpdate::summed(std::int64_t columns) const {
  if (skipped_) return Summed::nothing;
  const Summed wanted = optimizer_.summed();
  return wanted == Summed::gradients || (updates_ && columns > 0) ? wanted : Summed::nothing;
}

void WeightUpdate::contribute(std::size_t chunk, std::int64_t columns, int ranks) {
  const WorkTimer watch(seconds_, Work::update);
  begin(columns);
  optimizer_.contribute(chunk, ranks);
}

void WeightUpdate::begin(std::int64_t columns) {
  if (!std::exchange(begun_, true)) optimizer_.begin_step({rates_.learning_rate, rates_.momentum_per_sample, columns});
}

GradientReduction::GradientReduction(Training& t, ParallelMethod& method, WeightUpdate& update)
    : t_(t),
      method_(method),
      update_(update),
      chunks_(all_chunks(t.network->parameters())),
      sums_over_shards_(t.network->parameters().sum_over_shards && !t.optimizer->works_on_parts()) {}

GradientSink& GradientReduction::begin_step(const StepInfo& step) {
  OverflowCheck check = method_.traits.overflow;
  // Contributions are computed from gradients that are known to be finite.
  if (check == OverflowCheck::reduced && t_.optimizer->wants_contributions()) check = OverflowCheck::agree;
  const bool seeks = t_.grad_scaler.seeks() || skips_nan();
  skipped_ = false;
  if (seeks) t_.network->scale_gradients(t_.grad_scaler.value(), false);
  checks_sums_ = seeks && check == OverflowCheck::reduced;
  withholds_ = seeks && !checks_sums_;
  agrees_ = withholds_ && check == OverflowCheck::agree;
  step_ = step;
  update_.begin_step(checks_sums_ || sums_over_shards_ || method_.traits.updates_elsewhere);
  if (!agrees_) method_.gradients->begin_step(step, update_);
  return withholds_ ? static_cast<GradientSink&>(withheld_) : *method_.gradients;
}

bool GradientReduction::skips_nan() const { return t_.sgd.faults.on_nan == OnNan::skip; }

// No gradient is passed on before all are known to be finite.
void GradientReduction::end_backward() {
  if (!withholds_) return;
  // The host waits until the device has checked all gradients, so the next work of the device is enqueued before.
  bool finite = t_.network->unscale_gradients(t_.reader->ahead());
  if (method_.update_ranks) finite = all_agree(*method_.update_ranks, finite);
  if (skipped_ = skips_step(finite); skipped_) {
    t_.network->clear_gradients();
    if (agrees_) update_.skip_step();
  }
  if (agrees_) method_.gradients->begin_step(step_, update_);
  if (!method_.gradients->follows_device()) t_.network->synchronize();
  method_.gradients->chunks_ready(chunks_);
}

bool GradientReduction::finish_step() {
  method_.gradients->finish_step();
  if (checks_sums_) {
    skipped_ = skips_step(t_.network->unscale_gradients(t_.reader->ahead()));
    if (skipped_) update_.skip_step();
  }
  if (!method_.traits.updates_elsewhere) update_.apply_held();
  return skipped_;
}

// `finite`: on all ranks that make one update together.
bool GradientReduction::skips_step(bool finite) {
  const double scale = t_.grad_scaler.value();
  if (!t_.grad_scaler.skips_step(finite)) {
    if (finite || !skips_nan()) return false;
    log::warning_of_rank(fmt::format("epoch {}, minibatch {}: a gradient is not finite, and the update is skipped",
                                     t_.progress.epoch + 1, t_.progress.minibatches_in_epoch + 1));
    return true;
  }
  log::line(fmt::format(
      "Epoch[{:2} of {}]-Minibatch[{:4}]: a gradient is not finite in float16 with lossScale {:g}: "
      "the update is skipped, and the scale is {:g} now.",
      t_.progress.epoch + 1, t_.sgd.max_epochs, t_.progress.minibatches_in_epoch + 1, scale, t_.grad_scaler.value()));
  log::record("scaling", {{"loss_scale", t_.grad_scaler.value()}});
  return true;
}

}  // namespace tutti

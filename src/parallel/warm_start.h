// SPDX-License-Identifier: Apache-2.0
// warm_start.h -- one strategy before a place in the data, another from it on: parallelizationStartEpoch and -Sample,
// where every rank first trains on all data alone.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "parallel/local_gradients.h"

namespace tutti {

class WarmStart : public Strategy {
 public:
  // `first_epoch` of the second strategy counts from 0; it begins with the first minibatch at or after `first_sample`.
  WarmStart(std::unique_ptr<Strategy> before, std::unique_ptr<Strategy> after, std::int64_t first_epoch,
            std::int64_t first_sample, Communicator& comm)
      : before_(std::move(before)),
        after_(std::move(after)),
        first_epoch_(first_epoch),
        first_sample_(first_sample),
        comm_(comm),
        now_(before_.get()) {}

  void bind(const OptimizerSource& optimizers) override { after_->bind(optimizers); }
  void start(Parameters& parameters) override {
    parameters_ = &parameters;
    before_->start(parameters);
    after_->start(parameters);
  }
  void begin_epoch(std::int64_t epoch) override {
    now_ = before_.get();
    shares_from(epoch) > 0 ? now_->begin_epoch(epoch) : begin_sharing(epoch);
  }
  void begin_sharing(std::int64_t epoch) override {
    // Ranks that trained alone agree, unless their processors differ.
    if (!std::exchange(sharing_, true)) broadcast_weights(comm_, *parameters_);
    now_ = after_.get();
    now_->begin_epoch(epoch);
  }
  std::int64_t step_columns(std::int64_t samples, std::int64_t columns, std::int64_t global_columns) override {
    return now_->step_columns(samples, columns, global_columns);
  }
  void begin_step(std::int64_t columns, ReducedGradientSink& global) override { now_->begin_step(columns, global); }
  bool joins_step(std::int64_t samples) override { return now_->joins_step(samples); }
  std::int64_t dropped_samples_and_reset() override { return now_->dropped_samples_and_reset(); }
  bool skips_steps_together() const override { return now_->skips_steps_together(); }
  bool sums_only() const override { return now_->sums_only(); }
  bool agree(bool usable) override { return now_->agree(usable); }
  bool follows_device() const override { return now_->follows_device(); }
  void chunk_ready(std::size_t chunk) override { now_->chunk_ready(chunk); }
  void chunks_ready(std::span<const std::size_t> chunks) override { now_->chunks_ready(chunks); }
  void finish_gradients(StepMetrics& metrics) override { now_->finish_gradients(metrics); }
  bool takes_deferred_metrics() const override { return now_->takes_deferred_metrics(); }
  void finish_deferred(StepMetrics& metrics) override { now_->finish_deferred(metrics); }
  void exchange_weights(std::int64_t global_samples) override { now_->exchange_weights(global_samples); }
  void drain(ReducedGradientSink& global) override { now_->drain(global); }
  StepMetrics metrics_of_others_and_reset() override { return now_->metrics_of_others_and_reset(); }
  void end_epoch(ReducedGradientSink& global) override { now_->end_epoch(global); }
  // Also before the first epoch, when a resumed run has weights of its own already.
  void show_common_weights() override { after_->show_common_weights(); }
  void take_back_weights() override { after_->take_back_weights(); }
  // Ranks that work through the same data have the same optimizer state anyway.
  bool steps_alone() const override { return before_->steps_alone() || after_->steps_alone(); }
  bool sums_contributions() const override { return before_->sums_contributions() && after_->sums_contributions(); }
  StepMetrics pending_metrics_and_reset() override { return now_->pending_metrics_and_reset(); }
  std::int64_t shares_from(std::int64_t epoch) const override {
    if (epoch == first_epoch_) return first_sample_;
    return epoch < first_epoch_ ? before_->shares_from(epoch) : after_->shares_from(epoch);
  }
  Share share(int rank, int ranks) const override { return after_->share(rank, ranks); }
  Share share_of_units(int rank, int ranks) const override { return after_->share_of_units(rank, ranks); }
  WorkQueue* work_queue() override { return after_->work_queue(); }
  std::string state_name() const override { return after_->state_name(); }
  void archive(Archive& a) override {
    before_->archive(a);
    after_->archive(a);
  }
  void archive_common(Archive& a) override {
    if (a.has("ranks share the data")) a("ranks share the data", sharing_);
    before_->archive_common(a);
    after_->archive_common(a);
  }
  std::string advice(std::int64_t samples) const override { return after_->advice(samples); }
  ExchangeStats exchange_stats_and_reset() override { return now_->exchange_stats_and_reset(); }
  std::string describe() const override {
    if (shares_data(0)) return after_->describe();
    std::string place = "epoch " + std::to_string(first_epoch_ + 1);
    if (first_sample_ > 0) place = "sample " + std::to_string(first_sample_) + " of " + place;
    return before_->describe() + " before " + place + ", then " + after_->describe();
  }
  std::string loop_text(std::int64_t epoch) const override {
    return (epoch < first_epoch_ ? before_ : after_)->loop_text(epoch);
  }

 private:
  std::unique_ptr<Strategy> before_, after_;
  std::int64_t first_epoch_, first_sample_;
  bool sharing_ = false;
  Communicator& comm_;
  Strategy* now_;
  Parameters* parameters_ = nullptr;
};

}  // namespace tutti

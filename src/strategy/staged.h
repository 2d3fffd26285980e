// SPDX-License-Identifier: Apache-2.0
// staged.h -- one strategy before an epoch, another from it on: parallelizationStartEpoch, where every rank first
// trains on all data alone.
#pragma once

#include <memory>
#include <utility>

#include "strategy/local.h"

namespace tutti {

class Staged : public Strategy {
 public:
  // `first_epoch` of the second strategy counts from 0.
  Staged(std::unique_ptr<Strategy> before, std::unique_ptr<Strategy> after, std::int64_t first_epoch,
         Communicator& comm)
      : before_(std::move(before)),
        after_(std::move(after)),
        first_epoch_(first_epoch),
        comm_(comm),
        now_(before_.get()) {}

  void start(Parameters& parameters) override {
    parameters_ = &parameters;
    before_->start(parameters);
    after_->start(parameters);
  }
  void begin_epoch(std::int64_t epoch) override {
    // Ranks that trained alone agree, unless their processors differ.
    if (epoch == first_epoch_) broadcast_weights(comm_, *parameters_);
    now_ = epoch < first_epoch_ ? before_.get() : after_.get();
    now_->begin_epoch(epoch);
  }
  void begin_step(std::int64_t columns, GlobalSink& global) override { now_->begin_step(columns, global); }
  void piece_ready(std::size_t piece) override { now_->piece_ready(piece); }
  void finish_gradients(Tally& tally) override { now_->finish_gradients(tally); }
  void exchange_weights(std::int64_t global_samples) override { now_->exchange_weights(global_samples); }
  void settle(GlobalSink& global) override { now_->settle(global); }
  Tally take_tally_of_others() override { return now_->take_tally_of_others(); }
  void end_epoch(GlobalSink& global) override { now_->end_epoch(global); }
  void show_common_weights() override { now_->show_common_weights(); }
  void take_back_weights() override { now_->take_back_weights(); }
  // Ranks that work through the same data have the same optimizer state anyway.
  bool steps_alone() const override { return before_->steps_alone() || after_->steps_alone(); }
  Tally take_pending_tally() override { return now_->take_pending_tally(); }
  bool shares_data(std::int64_t epoch) const override {
    return epoch < first_epoch_ ? before_->shares_data(epoch) : after_->shares_data(epoch);
  }
  void archive(Archive& a) override {
    before_->archive(a);
    after_->archive(a);
  }
  void archive_common(Archive& a) override {
    before_->archive_common(a);
    after_->archive_common(a);
  }
  std::string advice(std::int64_t samples) const override { return after_->advice(samples); }
  ExchangeStats take_stats() override { return now_->take_stats(); }
  std::string describe() const override {
    return before_->describe() + " before epoch " + std::to_string(first_epoch_ + 1) + ", then " + after_->describe();
  }
  std::string loop_text(std::int64_t epoch) const override {
    return (epoch < first_epoch_ ? before_ : after_)->loop_text(epoch);
  }

 private:
  std::unique_ptr<Strategy> before_, after_;
  std::int64_t first_epoch_;
  Communicator& comm_;
  Strategy* now_;
  Parameters* parameters_ = nullptr;
};

}  // namespace tutti

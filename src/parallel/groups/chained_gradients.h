// SPDX-License-Identifier: Apache-2.0
// chained_gradients.h -- feeds the sums of one gradient exchange into the next: groups within groups with weights
// exchanged in between.
#pragma once

#include <memory>
#include <utility>

#include "parallel/groups/level_archive.h"
#include "tutti/gradient_exchange.h"

namespace tutti {

class ChainedGradients final : public GradientExchange, ReducedGradientSink {
 public:
  ChainedGradients(std::unique_ptr<GradientExchange> first, std::unique_ptr<GradientExchange> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  void start(Parameters& p) override {
    parameters_ = &p;
    first_->start(p);
    second_->start(p);
  }
  void begin_epoch(std::int64_t epoch) override {
    first_->begin_epoch(epoch);
    second_->begin_epoch(epoch);
  }
  void begin_step(const StepInfo& step, ReducedGradientSink& sink) override {
    second_->begin_step(step, sink);
    first_->begin_step(step, *this);
  }
  bool follows_device() const override { return first_->follows_device(); }
  void chunk_ready(std::size_t chunk) override { first_->chunk_ready(chunk); }
  void chunks_ready(std::span<const std::size_t> chunks) override { first_->chunks_ready(chunks); }
  void finish_step() override {
    first_->finish_step();
    second_->finish_step();
    count_spent();
  }
  void drain(ReducedGradientSink& sink) override {
    first_->drain(*this);
    second_->drain(sink);
    count_spent();
  }
  void archive(Archive& a) override {
    LevelArchive first(a, "inside/"), second(a, "between/");
    second_->archive(second);
    first_->archive(first);
  }

 private:
  void on_reduced(std::size_t chunk, std::int64_t) override {
    if (!second_->follows_device()) parameters_->gradients.memory().synchronize();
    second_->chunk_ready(chunk);
  }
  void count_spent() {
    stats_ += first_->exchange_stats_and_reset();
    stats_ += second_->exchange_stats_and_reset();
  }

  std::unique_ptr<GradientExchange> first_, second_;
  Parameters* parameters_ = nullptr;
};

}  // namespace tutti

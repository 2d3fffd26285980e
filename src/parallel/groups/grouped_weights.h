// SPDX-License-Identifier: Apache-2.0
// grouped_weights.h -- two strategies one above the other, of which the upper exchanges weights. Below it the ranks of
// a group train together, by gradients or by weights of their own; their first rank takes part in the upper exchange
// for all of them. Or, the other way round, the ranks below are peers in different groups and each group exchanges
// weights.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/metrics_all_reduce.h"
#include "parallel/groups/group_parts.h"
#include "parallel/groups/group_work_queue.h"
#include "tutti/strategy.h"

namespace tutti {

struct WeightLevels {
  std::unique_ptr<Communicator> lower_ranks, upper_ranks;
  std::unique_ptr<Communicator> tells;  // the lower ranks once more, for their first one's words; only if `free`
  std::unique_ptr<Strategy> lower;
  std::unique_ptr<Strategy> upper;  // null on ranks that others act for
  bool leaders_act = true;          // for all `lower_ranks`; otherwise every rank acts for itself
  bool counts = true;               // the metrics that this rank sees is to be counted, not a copy of another one's
  bool free = false;                // the upper exchange waits for no other group; settling it moves weights
  int workers = 0, servers = 0;     // in that exchange: groups, and ranks that only serve
  bool runs_behind = false;    // the lower strategy updates one minibatch delayed; told where the upper one is free
  bool updates_above = false;  // gradients are applied by the upper strategy, not by the ranks
  std::string state;           // whose state it is, where the name of the method does not say it
  std::string text;            // about the groups
};

class GroupedWeights : public Strategy {
 public:
  GroupedWeights(WeightLevels levels, Communicator& all);

  void bind(const OptimizerSource& optimizers) override {
    if (levels_.upper) levels_.upper->bind(optimizers);
  }
  void start(Parameters&) override;
  void begin_epoch(std::int64_t epoch) override;
  std::int64_t step_columns(std::int64_t samples, std::int64_t columns, std::int64_t global_columns) override;
  void begin_step(std::int64_t columns, ReducedGradientSink& global) override;
  bool follows_device() const override { return levels_.lower->follows_device(); }
  void chunk_ready(std::size_t chunk) override { levels_.lower->chunk_ready(chunk); }
  void chunks_ready(std::span<const std::size_t> chunks) override { levels_.lower->chunks_ready(chunks); }
  void finish_gradients(StepMetrics&) override;
  bool takes_deferred_metrics() const override {
    return levels_.lower->takes_deferred_metrics() && (!levels_.upper || levels_.upper->takes_deferred_metrics());
  }
  void finish_deferred(StepMetrics&) override;
  void exchange_weights(std::int64_t global_samples) override;
  void drain(ReducedGradientSink& global) override;
  StepMetrics pending_metrics_and_reset() override { return std::exchange(late_, {}); }
  StepMetrics metrics_of_others_and_reset() override { return std::exchange(others_, {}); }
  void end_epoch(ReducedGradientSink& global) override;
  void show_common_weights() override;
  void take_back_weights() override;
  void adopt_common_weights(std::span<const float> before) override;
  std::int64_t weight_moves() const override { return moves_; }
  bool counts_once() const override { return levels_.counts; }
  bool steps_alone() const override { return true; }
  bool joins_step(std::int64_t samples) override { return !levels_.upper || levels_.upper->joins_step(samples); }
  Share share(int rank, int ranks) const override {
    const int workers = ranks - levels_.servers;
    return {rank < workers ? rank : -1, workers};
  }
  WorkQueue* work_queue() override { return work_queue_.get(); }
  Share share_of_units(int, int) const override {
    return {0, levels_.workers, work_queue_->part(), work_queue_->parts()};
  }
  std::string state_name() const override { return levels_.state; }
  void archive(Archive&) override;
  void archive_common(Archive&) override;
  std::string advice(std::int64_t samples) const override;
  ExchangeStats exchange_stats_and_reset() override;
  std::string describe() const override;
  std::string loop_text(std::int64_t epoch) const override;

 private:
  struct FromLower : ReducedGradientSink {
    explicit FromLower(GroupedWeights& o) : owner(o) {}
    void on_reduced(std::size_t chunk, std::int64_t columns) override {
      owner.lower_ready(std::span(&chunk, 1), columns);
    }
    void on_reduced(std::span<const std::size_t> chunks, std::int64_t columns) override {
      owner.lower_ready(chunks, columns);
    }
    void reset_momentum() override { owner.sink_->reset_momentum(); }
    GroupedWeights& owner;
  };
  struct FromUpper : ReducedGradientSink {
    explicit FromUpper(GroupedWeights& o) : owner(o) {}
    void on_reduced(std::size_t chunk, std::int64_t) override { owner.sink_->on_reduced(chunk, owner.columns_); }
    void on_reduced(std::span<const std::size_t> chunks, std::int64_t) override {
      owner.sink_->on_reduced(chunks, owner.columns_);
    }
    void reset_momentum() override {
      owner.resets_ = true;
      owner.sink_->reset_momentum();
    }
    StepRates rates() const override { return owner.sink_->rates(); }
    GroupedWeights& owner;
  };

  // Strategies of both levels may have left work in the queue of a device.
  void synchronize() const { parameters_->weights.memory().synchronize(); }
  void let_upper_see() const {
    if (!levels_.upper->follows_device()) synchronize();
  }
  bool lower_has_weights() const { return levels_.lower->steps_alone(); }
  bool broadcasts() const { return levels_.leaders_act && levels_.lower_ranks->size() > 1; }
  void lower_ready(std::span<const std::size_t> chunks, std::int64_t columns);
  // `act` is what the upper strategy does, on ranks that take part; the others get what comes of it.
  template <class Act>
  void raise(const Act& act);
  template <class Act>
  void raise_from_lower(const Act& act);  // where that has weights
  void let_lower_adopt();
  void tell(SleepingBroadcast::Words& words);
  void pass_weights_on();
  void begin_work_queue();
  StepMetrics metrics_of_all(const StepMetrics& mine);
  bool upper_may_move(std::int64_t global_samples);

  WeightLevels levels_;
  std::unique_ptr<SleepingBroadcast> patient_;  // where the first rank may wait for servers
  Communicator& all_;
  Parameters* parameters_ = nullptr;
  std::unique_ptr<GroupWorkQueue> work_queue_;  // where groups go each their own way through the data
  std::vector<std::int64_t> sizes_;             // samples and columns of this step, by lower rank
  // Where the lower strategy has weights: what it had in common before they were moved, and by how much they were.
  FloatBuffer before_, move_;
  bool adopted_ = false;
  bool updated_ = false;  // the lower strategy has delivered gradients
  FromLower from_lower_{*this};
  FromUpper from_upper_{*this};
  ReducedGradientSink* sink_ = nullptr;
  std::int64_t columns_ = 0;        // of the gradients that are being applied
  std::int64_t lower_samples_ = 0;  // of this step, of all lower ranks
  std::int64_t moves_ = 0;
  bool resets_ = false;  // the upper strategy has asked for it

  MetricsAllReduce metrics_;
  bool tallied_ = true;
  StepMetrics mine_, nothing_, late_, others_;  // mine: since the last drain()
  double passing_ = 0;                          // seconds
  std::int64_t passed_on_ = 0;                  // values, to others of the group
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// grouped_gradients.h -- gradients summed within groups by one strategy, and the groups' sums over the groups by
// another: one bit between nodes over a sum in full within, for instance. All ranks make the same update.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "parallel/groups/group_parts.h"
#include "parallel/groups/inter_group_columns.h"
#include "tutti/strategy.h"

namespace tutti {

class GroupedGradients : public Strategy {
 public:
  // `between` exists on the first `inter_group_ranks` ranks of every group.
  GroupedGradients(GroupParts parts, int inter_group_ranks);

  void start(Parameters&) override;
  void begin_epoch(std::int64_t epoch) override;
  void begin_step(std::int64_t columns, ReducedGradientSink& global) override;
  bool follows_device() const override { return parts_.inside->follows_device(); }
  void chunk_ready(std::size_t chunk) override;
  void chunks_ready(std::span<const std::size_t> chunks) override;
  void finish_gradients(StepMetrics&) override;
  bool takes_deferred_metrics() const override {
    return parts_.inside->takes_deferred_metrics() && (!parts_.between || parts_.between->takes_deferred_metrics());
  }
  void finish_deferred(StepMetrics&) override;
  void drain(ReducedGradientSink& global) override;
  StepMetrics pending_metrics_and_reset() override { return std::exchange(late_, {}); }
  bool sums_contributions() const override { return parts_.contributes; }
  bool sums_on_devices() const override {
    return parts_.inside->sums_on_devices() || (parts_.between && parts_.between->sums_on_devices());
  }
  void end_epoch(ReducedGradientSink& global) override;
  void archive(Archive&) override;
  void archive_common(Archive&) override;
  std::string advice(std::int64_t samples) const override;
  ExchangeStats exchange_stats_and_reset() override;
  std::string describe() const override;
  std::string loop_text(std::int64_t epoch) const override;

 private:
  struct FromLevel : ReducedGradientSink {
    explicit FromLevel(GroupedGradients& o) : owner(o) {}
    void reset_momentum() override { owner.sink_->reset_momentum(); }
    GroupedGradients& owner;
  };
  // A group sums gradients; what they contribute to something else is made of the group's sum.
  struct FromInside : FromLevel {
    using FromLevel::FromLevel;
    void on_reduced(std::size_t chunk, std::int64_t columns) override { owner.group_sum(chunk, columns); }
    Summed summed(std::int64_t columns) const override;
  };
  struct FromBetween : FromLevel {
    using FromLevel::FromLevel;
    void on_reduced(std::size_t chunk, std::int64_t columns) override { owner.world_sum(chunk, columns); }
    Summed summed(std::int64_t columns) const override { return owner.sink_->summed(columns); }
    const float* mask() const override { return owner.own_mask(); }
  };

  void group_sum(std::size_t chunk, std::int64_t columns);
  void world_sum(std::size_t chunk, std::int64_t columns);
  const float* own_mask();
  void open(std::int64_t columns);
  void feed();
  void deliver_run();
  void deliver_what_is_there();
  void deliver_rest(StepMetrics&);

  GroupParts parts_;
  int inter_group_ranks_;
  Parameters* parameters_ = nullptr;
  std::vector<std::size_t> chunks_;  // their numbers
  std::unique_ptr<InterGroupColumns> columns_;
  LeaderBroadcast broadcast_;
  FromInside from_inside_{*this};
  FromBetween from_between_{*this};

  ReducedGradientSink* sink_ = nullptr;
  std::int64_t columns_of_step_ = 0;     // between the groups
  bool contributes_ = false;             // in it
  const float* whole_mask_ = nullptr;    // which mask_ has been made of, in this epoch
  FloatBuffer mask_;                     // at the carried columns
  bool open_ = false;                    // a step between the groups is in flight
  std::size_t summed_ = 0, fed_ = 0;     // chunks that the group has summed, and that have been given on
  std::size_t sent_ = 0, next_run_ = 0;  // chunks with their sum over the groups, and the run to be delivered next
  std::int64_t sent_columns_ = 0;
  StepMetrics late_;
};

}  // namespace tutti

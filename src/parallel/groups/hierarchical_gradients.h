// SPDX-License-Identifier: Apache-2.0
// hierarchical_gradients.h -- sums gradients inside groups with one exchange and the groups' sums with another, for
// example in 32 bits inside nodes and in 1 bit between them. All ranks make the same update.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collective/inter_group_columns.h"
#include "tutti/gradient_exchange.h"

namespace tutti {

class HierarchicalGradients final : public GradientExchange {
 public:
  // `inside` sums the gradients of a group. The first `inter_group_ranks` ranks of the group exchange the sums
  // `between` groups, each its own columns. `between` is null on all other ranks.
  struct Levels {
    Communicator* group = nullptr;  // for messages about sums inside the group
    std::unique_ptr<GradientExchange> inside, between;
    int groups = 1, inter_group_ranks = 1;
    bool between_delayed = false;  // equal on all ranks
    bool contributes = false;      // the operand that the optimizer wants instead of gradients is summed between groups
  };
  explicit HierarchicalGradients(Levels levels) : levels_(std::move(levels)) {}

  void start(Parameters&) override;
  void begin_epoch(std::int64_t epoch) override;
  void begin_step(const StepInfo&, ReducedGradientSink&) override;
  bool follows_device() const override { return levels_.inside->follows_device(); }
  void chunk_ready(std::size_t chunk) override;
  void chunks_ready(std::span<const std::size_t> chunks) override;
  void finish_step() override;
  void drain(ReducedGradientSink&) override;
  void archive(Archive&) override;

 private:
  // A group sums gradients; contributions are computed from the group's sum.
  struct FromInside final : ReducedGradientSink {
    explicit FromInside(HierarchicalGradients& o) : owner(o) {}
    void on_reduced(std::size_t chunk, std::int64_t columns) override { owner.group_sum(chunk, columns); }
    Summed summed(std::int64_t columns) const override;
    HierarchicalGradients& owner;
  };
  struct FromBetween final : ReducedGradientSink {
    explicit FromBetween(HierarchicalGradients& o) : owner(o) {}
    void on_reduced(std::size_t chunk, std::int64_t columns) override { owner.world_sum(chunk, columns); }
    Summed summed(std::int64_t columns) const override { return owner.sink_->summed(columns); }
    const float* mask() const override { return owner.own_mask(); }
    HierarchicalGradients& owner;
  };

  void group_sum(std::size_t chunk, std::int64_t columns);
  void world_sum(std::size_t chunk, std::int64_t columns);
  const float* own_mask();
  void open(std::int64_t columns);
  void feed();
  void deliver_run();
  void deliver_what_is_there();
  void deliver_rest(bool delivered);
  void finish_open_step();
  void count_spent();

  Levels levels_;
  Parameters* parameters_ = nullptr;
  std::vector<std::size_t> chunks_;  // indices of all chunks
  std::unique_ptr<InterGroupColumns> columns_;
  FromInside from_inside_{*this};
  FromBetween from_between_{*this};

  ReducedGradientSink* sink_ = nullptr;
  StepInfo step_;
  std::int64_t columns_of_step_ = 0;     // between the groups
  bool contributes_ = false;             // in it
  const float* whole_mask_ = nullptr;    // the mask that mask_ was made from, in this epoch
  FloatBuffer mask_;                     // for the columns of this rank
  bool open_ = false;                    // a step between the groups is in flight
  std::size_t summed_ = 0, fed_ = 0;     // chunks summed by the group, and chunks passed on
  std::size_t sent_ = 0, next_run_ = 0;  // chunks whose sum over the groups has been sent, and the next run to deliver
  std::int64_t sent_columns_ = 0;
  std::optional<std::int64_t> in_flight_;  // delayed between groups: columns of the step not delivered yet
};

}  // namespace tutti

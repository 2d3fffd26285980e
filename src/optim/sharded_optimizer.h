// SPDX-License-Identifier: Apache-2.0
// sharded_optimizer.h -- shardOptimizer = true: every rank keeps the optimizer's state of one range of the weights and
// updates only that range; GatherWeights (src/parallel/hybrid) then brings the weights together. Source: Rajbhandari et
// al., "ZeRO" (2020), stage 1.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/optimizer.h"

namespace tutti {

// The ranges of the flat weights that the ranks update: of about equal size, in whole columns, or in whole parameters
// where the optimizer needs these. By rank, where its range begins; the last entry is the end. Weights with a shard
// (model parallelism) are not divided again.
std::vector<std::size_t> optimizer_ranges(const Parameters&, const Optimizer&, int ranks);

class ShardedOptimizer final : public Optimizer {
 public:
  using Make = std::function<std::unique_ptr<Optimizer>()>;
  // An optimizer that works on single parameters (Optimizer::works_on_parameters).
  ShardedOptimizer(const Make& make, Communicator& ranks) : ranks_(ranks), divided_(make()), parts_(make()) {}

  void bind(Parameters&) override;
  void begin_step(const StepScalars& s) override { divided_->begin_step(s), parts_->begin_step(s); }
  void update(std::size_t chunk) override;
  void reset_momentum() override { divided_->reset_momentum(), parts_->reset_momentum(); }
  // Of what this rank holds.
  void archive(Archive&) override;
  bool works_on_parts() const override { return divided_->works_on_parts(); }
  std::string describe() const override;

  // What the state of this rank belongs to: the slices of its range, and those with a shard.
  const Parameters& held() const { return held_; }

 private:
  void list_rows(const GradientChunk&);

  Communicator& ranks_;
  std::unique_ptr<Optimizer> divided_, parts_;  // of the range, and of weights with a shard
  Parameters* whole_ = nullptr;
  Parameters range_, shards_, held_;   // held_: only slices
  std::vector<std::size_t> chunk_of_;  // by chunk of all: its number in range_ or shards_, or none
};

}  // namespace tutti

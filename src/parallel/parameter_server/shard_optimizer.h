// SPDX-License-Identifier: Apache-2.0
// shard_optimizer.h -- optimizers at the servers, one per shard. Their state is scattered from the run's optimizer and
// gathered back for checkpoints, which therefore do not depend on the number of ranks.
#pragma once

#include <memory>
#include <vector>

#include "parallel/parameter_server/shard.h"
#include "tutti/optimizer.h"

namespace tutti {

class OptimizerRule final : public ShardRule {
 public:
  explicit OptimizerRule(std::unique_ptr<Optimizer> optimizer) : optimizer_(std::move(optimizer)) {}
  void bind(Parameters& shard) override { optimizer_->bind(shard); }
  void apply(Parameters& shard, const UpdateTerms&) override;
  Optimizer& optimizer() { return *optimizer_; }

 private:
  std::unique_ptr<Optimizer> optimizer_;
};

// The shards that this rank serves, each with an OptimizerRule; the others are null.
void spread_optimizer(Optimizer& of_run, Server&, const std::vector<ServerShard*>& shards);
// Collective.
void collect_optimizer(Optimizer& of_run, Server&, const std::vector<ServerShard*>& shards,
                       const std::vector<ServerShardPlan>& plans, Communicator&, const Parameters& flat);

}  // namespace tutti

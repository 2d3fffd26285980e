// SPDX-License-Identifier: Apache-2.0
// gather_weights.h -- after an update in which every rank has changed one range of the weights
// (optim/sharded_optimizer.h), brings the ranges together on all ranks, in 32 bits.
#pragma once

#include <memory>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/weight_exchange.h"

namespace tutti {

class GatherWeights final : public WeightExchange {
 public:
  // `bounds`: by rank, where its range begins; the last entry is the end.
  GatherWeights(std::vector<std::size_t> bounds, Communicator& ranks) : bounds_(std::move(bounds)), ranks_(ranks) {}
  void start(Parameters&) override;
  WeightChange after_update(const StepInfo&) override;

 private:
  std::vector<std::size_t> bounds_;
  Communicator& ranks_;
  Parameters* parameters_ = nullptr;
  std::vector<std::unique_ptr<Transfer>> transfers_;
};

}  // namespace tutti

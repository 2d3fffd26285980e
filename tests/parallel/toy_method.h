// SPDX-License-Identifier: Apache-2.0
// toy_method.h -- the example of CONTRIBUTING.md, "A new method": after every k-th minibatch all ranks go on with the
// weights of rank 0. This is the one file that such a method needs; its row would be FollowRankZero.
#pragma once

#include <fmt/format.h>

#include <memory>

#include "parallel/local_gradients.h"
#include "parallel/method_context.h"
#include "tutti/config.h"

namespace tutti {

class RankZeroWeights final : public WeightExchange {
 public:
  RankZeroWeights(std::int64_t period, Communicator& comm) : period_(period), comm_(comm) {}

  void start(Parameters& parameters) override { parameters_ = &parameters; }
  bool is_due(const StepInfo&) const override { return (minibatches_ + 1) % period_ == 0; }
  WeightChange after_update(const StepInfo& step) override {
    const bool due = is_due(step);
    ++minibatches_;
    if (due) broadcast_weights(comm_, *parameters_);
    return {.weights_changed = due};
  }
  WeightChange end_epoch() override {
    broadcast_weights(comm_, *parameters_);  // what is saved is the same on all ranks
    return {.weights_changed = true};
  }
  void archive(Archive& a, Section section) override {
    if (section == Section::common) a("minibatches", minibatches_);
  }

 private:
  const std::int64_t period_;
  Communicator& comm_;
  Parameters* parameters_ = nullptr;
  std::int64_t minibatches_ = 0;
};

struct FollowRankZero {
  static constexpr const char* name = "FollowRankZero";
  static constexpr const char* help = "all ranks take the weights of rank 0 every so often";
  std::int64_t period = 10;

  void describe(config::Fields& f) {
    f("period", period, "minibatches between two broadcasts of rank 0's weights");
    if (period < 1) f.problem("period", "period must be at least 1 minibatch");
  }
  MethodTraits traits() const { return {}; }
  ParallelMethod make(const MethodContext& c) const {
    return make_local_sgd(std::make_unique<RankZeroWeights>(period, c.comm),
                          fmt::format("{} on {} ranks, every {} minibatches", name, c.comm.size(), period), c.comm);
  }
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// group_weights.h -- exchanges weights on two levels: between the ranks of a group, if their weights differ, and
// between the groups, where the group leader acts for its group and broadcasts the result.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "parallel/groups/sleeping_broadcast.h"
#include "tutti/parallel_method.h"

namespace tutti {

struct WeightLevels {
  Communicator* group = nullptr;
  std::unique_ptr<WeightExchange> inner;  // null if gradients keep the weights of a group equal
  std::unique_ptr<WeightExchange> outer;  // between the leaders; null on other ranks
  bool inner_streams = false;             // its exchanges are of fragments, so parts may be in flight or older
  // With servers, groups do not wait for each other, and drain() changes weights.
  bool servers = false;
  bool elastic = false;                    // the outer exchange pulls to a center: one more changes the weights
  std::function<WorkQueue*()> work_queue;  // the leader's queue
};

class GroupWeights final : public WeightExchange, Pollable {
 public:
  explicit GroupWeights(WeightLevels levels);

  void start(Parameters&) override;
  void begin_epoch(std::int64_t epoch) override;
  bool is_due(const StepInfo&) const override;
  WeightChange after_update(const StepInfo&) override;
  void drain() override;
  WeightChange end_epoch() override;
  void show(Weights, std::span<const float> changed_from) override;
  void archive(Archive&, Section) override;
  void poll() override;

  WorkQueue* work_queue() const { return work_queue_.get(); }  // set by start()

 private:
  void synchronize() const { parameters_->weights.memory().synchronize(); }
  bool broadcasts() const { return levels_.group->size() > 1; }
  // `act` is the operation of the outer exchange at the leader; its result is broadcast.
  template <class Act>
  WeightChange exchange_outside(const Act& act);
  template <class Act>
  WeightChange exchange_outside_from_inner(const Act& act);
  void show_own(std::span<const float> changed_from);
  void tell(SleepingBroadcast::Words&);
  void broadcast_weights();
  void begin_work_queue();
  std::int64_t samples_of_group(std::int64_t own) const;
  void count_spent();

  WeightLevels levels_;
  std::unique_ptr<Communicator> words_;          // a duplicate of the group's communicator for broadcasts of the leader
  std::unique_ptr<SleepingBroadcast> sleeping_;  // used if the leader may wait for servers
  Parameters* parameters_ = nullptr;
  std::unique_ptr<GroupWorkQueue> work_queue_;
  FloatBuffer before_, move_;  // with `inner`: its common weights before the outer exchange, and their change
  double broadcasting_ = 0;    // seconds
  std::int64_t values_sent_ = 0;
};

}  // namespace tutti

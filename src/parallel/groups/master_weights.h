// SPDX-License-Identifier: Apache-2.0
// master_weights.h -- a hierarchy of masters: the ranks of a group are workers of servers within the group, and the
// weights at these servers are one worker of the servers between the groups. The group leader is the master: between
// two steps of its own it reads the weights of its group, exchanges them, and moves them by what came back (Anderson,
// Spiropulu, Vlimant, "An MPI-Based Python Framework for Distributed Training with Keras", 2017). Nothing else in the
// group waits for that.
#pragma once

#include <functional>
#include <memory>

#include "parallel/groups/sleeping_broadcast.h"
#include "parallel/parameter_server/request_loop.h"
#include "parallel/parameter_server/served_weights.h"
#include "tutti/parallel_method.h"

namespace tutti {

struct MasterLevels {
  Communicator* all = nullptr;
  Communicator* group = nullptr;
  std::unique_ptr<WeightExchange> inner;          // at the servers of the group
  std::function<ServedWeights*()> group_weights;  // at these servers; null on ranks that only serve between the groups
  std::unique_ptr<WeightExchange> outer;          // at the servers between the groups; null but on leaders
  bool outer_waits = false;                       // leaders exchange in step
  StepSkipper* skipper = nullptr;                 // backup workers of the group
  int workers = 1;                                // of the group
  Communicator* step = nullptr;                   // workers of a group that keeps step; null in other groups
  bool works = true;                              // this rank does; otherwise it only serves
  enum class Units { none, of_groups, of_workers };
  Units units = Units::none;  // what the work queue hands out
};

class MasterWeights final : public WeightExchange, public StepSkipper, Pollable {
 public:
  explicit MasterWeights(MasterLevels);  // collective over all ranks

  void start(Parameters&) override;
  void begin_epoch(std::int64_t epoch) override;
  WeightChange after_update(const StepInfo&) override;
  void drain() override;
  WeightChange end_epoch() override;
  void show(Weights, std::span<const float> changed_from) override;
  void archive(Archive&, Section) override;
  void poll() override;
  bool joins_step(std::int64_t samples) override;
  std::int64_t dropped_samples_and_reset() override;

  WorkQueue* work_queue() const;

 private:
  ServedWeights* group_weights() const { return levels_.group_weights ? levels_.group_weights() : nullptr; }
  void plan_work_queue();
  StepInfo step_of_workers(const StepInfo&) const;
  void meet(bool ends_epoch);
  void copy(const FloatBuffer& from, FloatBuffer& to) const;
  void count_spent();

  MasterLevels levels_;
  Parameters* live_ = nullptr;
  Parameters master_;         // of the leader: the weights of the group as a worker of the outer servers
  FloatBuffer group_common_;  // while the common weights are shown: those of the group
  bool begun_ = false;        // master_ is valid
  // Units are handed out by a server of their own, of all ranks that take them.
  std::unique_ptr<Server> queue_server_;
  std::unique_ptr<ServedWorkQueue> units_;
  std::unique_ptr<GroupWorkQueue> units_of_group_;
};

}  // namespace tutti

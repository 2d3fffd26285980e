// SPDX-License-Identifier: Apache-2.0
// client.h -- DataParallelASGD: the common weights are at servers; workers push what they learned and fetch the common
// weights (Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012). This class is the worker;
// the servers are shards (shard.h). If pushes depend on each other, an admission handler decides about them first.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/method_context.h"
#include "parallel/parameter_server/admission.h"
#include "parallel/parameter_server/options.h"
#include "parallel/parameter_server/pending_pushes.h"
#include "parallel/parameter_server/push_client.h"
#include "parallel/parameter_server/served_weights.h"
#include "parallel/parameter_server/shard.h"
#include "tutti/codec.h"
#include "tutti/parallel_method.h"

namespace tutti {

class ServerClient final : public WeightExchange, public StepSkipper {
 public:
  ServerClient(const ServerOptions&, const MethodContext&);
  ~ServerClient() override;

  void start(Parameters&) override;
  void begin_epoch(std::int64_t epoch) override;
  bool is_due(const StepInfo&) const override;
  WeightChange after_update(const StepInfo&) override;
  void drain() override;
  WeightChange end_epoch() override;
  void show(Weights, std::span<const float> changed_from) override;
  void archive(Archive&, Section) override;
  bool joins_step(std::int64_t samples) override;
  std::int64_t dropped_samples_and_reset() override;

  int workers() const { return workers_; }
  bool works() const { return comm_.rank() < workers_; }                   // otherwise this rank only serves
  WorkQueue* work_queue() const { return work_queue_.get(); }              // set by start()
  ServedWeights* served_weights() const { return served_weights_.get(); }  // likewise, if there is a master
  std::string describe() const;
  std::string loop_text(std::int64_t epoch) const;

 private:
  bool pushes_gradients() const { return options_.push == ServerOptions::Push::gradients; }
  void synchronize() const { live_->weights.memory().synchronize(); }
  void build();
  void add_shards();
  void add_admission();
  std::unique_ptr<ShardRule> make_rule() const;
  void make_worker();
  void take_over_residuals(FloatBuffer& of_worker);
  void load_shards();

  std::int64_t columns_to_push(const StepInfo&) const;
  WeightChange sync(const float* gradients, bool fetches);
  bool admit(PushHead&);
  AdmissionResponse request_admission(const AdmissionRequest&);
  template <class Visit>
  void each_shard(const Visit&);
  void push(std::size_t shard, const PushHead&, const float* gradients);
  void take(std::size_t shard, const PushHead&);
  void turn(std::size_t shard, const PushHead&, const float* gradients);
  std::span<const std::byte> wait_for(std::size_t shard, bool counts);
  void count_bytes(std::size_t shard);

  void finish_pushes();
  void share_weights();
  void forget_what_was_pushed();
  void add_up_counts();
  void log_push(const ExchangeStats& before) const;

  ServerOptions options_;
  const std::int64_t print_every_;
  Communicator& comm_;
  const bool has_master_;
  const int servers_, workers_;
  const std::shared_ptr<RunOptimizer> optimizer_;
  Parameters* live_ = nullptr;

  std::unique_ptr<const Codec> codec_;  // of the worker; may be a device codec
  std::vector<ServerShardPlan> plans_;
  std::vector<int> handlers_;         // by shard
  std::vector<ServerShard*> shards_;  // by shard, null if another rank serves it
  AdmissionHandler* admission_ = nullptr;
  int admission_number_ = -1;
  std::unique_ptr<Server> server_;
  std::unique_ptr<PendingPushes> pending_;
  std::unique_ptr<ServedBarrier> barrier_;
  std::unique_ptr<ServedWeights> served_weights_;
  std::unique_ptr<ServedWorkQueue> work_queue_;  // for asynchronous policies

  std::unique_ptr<PushWorker> worker_;  // if this rank is a worker
  const bool accrues_, pipelined_, alone_;
  bool in_flight_ = false;  // pushes whose responses have not been taken

  std::int64_t period_ = 0;
  std::int64_t since_mine_ = 0, since_all_ = 0, since_fetch_ = 0;  // samples since the last push and fetch
  std::int64_t steps_since_ = 0;                                   // minibatches since the last push
  std::int64_t columns_since_ = 0;
  std::int64_t syncs_ = 0;   // pushes of this worker in total
  std::int64_t batch_ = 0;   // policy = sync: the next update
  std::int64_t step_ = 0;    // backup workers: minibatches since the workers were last together
  std::int64_t wanted_ = 0;  // backup workers: the minibatch whose gradients are needed
  float factor_ = 1;         // by which the push counts
  std::int64_t dropped_mine_ = 0, dropped_ = 0, dropped_in_epoch_ = 0;  // samples

  std::int64_t epoch_ = 0;
  StepRates rates_;  // of the last step
  StalenessCounts counts_, all_counts_;
  bool announced_ = false, begun_ = false;
  bool fresh_optimizer_ = true;  // the state of the run's optimizer is newer than that of the servers
  bool collected_ = false;       // they are the same
};

}  // namespace tutti

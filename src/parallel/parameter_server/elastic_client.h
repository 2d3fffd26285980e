// SPDX-License-Identifier: Apache-2.0
// elastic_client.h -- EASGD in which no rank waits for another: the center lies in parts at serving ranks, and a worker
// that has made its steps exchanges with it at once (Zhang, Choromanska, LeCun, NIPS 2015, algorithms 1 and 2).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/local_sgd/asa_options.h"
#include "parallel/method_context.h"
#include "parallel/parameter_server/elastic_handler.h"
#include "parallel/parameter_server/pending_pushes.h"
#include "parallel/parameter_server/request_loop.h"
#include "parallel/parameter_server/served_weights.h"
#include "parallel/sync_point_lines.h"
#include "tutti/parallel_method.h"

namespace tutti {

class ElasticClient final : public WeightExchange {
 public:
  ElasticClient(const EasgdOptions&, const MethodContext&);
  ~ElasticClient() override;

  void start(Parameters&) override;
  void begin_epoch(std::int64_t epoch) override;
  bool is_due(const StepInfo&) const override { return comm_.rank() < workers_ && steps_ + 1 >= options_.period; }
  WeightChange after_update(const StepInfo&) override;
  void drain() override;
  WeightChange end_epoch() override;
  void show(Weights, std::span<const float> changed_from) override;
  void archive(Archive&, Section) override;

  int workers() const { return workers_; }
  WorkQueue* work_queue() const { return work_queue_.get(); }              // set by start()
  ServedWeights* served_weights() const { return served_weights_.get(); }  // likewise, if there is a master
  std::string describe() const;

 private:
  void synchronize() const { live_->weights.memory().synchronize(); }
  void build();
  void change_places();
  void exchange();
  void meet_at_center();
  void load_center();
  void fetch_center();

  const EasgdOptions options_;
  Communicator& comm_;
  const bool has_master_;
  const int workers_;  // ranks 0 to workers_ - 1; those behind serve
  const int servers_;
  const double rate_;
  Parameters* live_ = nullptr;

  std::shared_ptr<const Codec> codec_;  // of the worker, perhaps a device's
  std::vector<ServerShardPlan> plans_;
  std::vector<int> numbers_;               // of the handlers, by part
  std::vector<ElasticHandler*> handlers_;  // by part, null where another rank serves it
  std::unique_ptr<Server> server_;
  std::unique_ptr<PendingPushes> pending_;
  std::unique_ptr<ServedBarrier> barrier_;
  std::unique_ptr<ServedWeights> served_weights_;
  std::unique_ptr<ServedWorkQueue> work_queue_;
  std::unique_ptr<ElasticWorker> worker_;

  FloatBuffer center_;  // as it was when the ranks met last
  bool apart_ = false;  // this rank has weights of its own
  bool shown_ = false;
  bool strangers_ = true;   // handlers and workers know nothing of each other
  std::int64_t steps_ = 0;  // since the last exchange
  SyncPointLines lines_;    // of this rank: the others exchange when they get there
  bool announced_ = false;
};

// Error when the ranks do not suffice, or may not talk beside the main thread.
ParallelMethod make_asynchronous_easgd(const EasgdOptions&, const MethodContext&);

}  // namespace tutti

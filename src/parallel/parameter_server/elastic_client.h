// SPDX-License-Identifier: Apache-2.0
// elastic_client.h -- EASGD in which no rank waits for another: the centre lies in parts at serving ranks, and a worker
// that has made its steps exchanges with it at once (Zhang, Choromanska, LeCun, NIPS 2015, algorithms 1 and 2).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective/metrics_all_reduce.h"
#include "parallel/local_sgd/asa_options.h"
#include "parallel/parameter_server/elastic_handler.h"
#include "parallel/parameter_server/pending_pushes.h"
#include "parallel/parameter_server/request_loop.h"
#include "parallel/sync_point_lines.h"
#include "tutti/strategy.h"

namespace tutti {

class ElasticServer final : public Strategy {
 public:
  ElasticServer(const EasgdOptions&, std::int64_t print_every, Communicator&);
  ~ElasticServer() override;

  void start(Parameters&) override;
  void begin_epoch(std::int64_t epoch) override;
  void begin_step(std::int64_t columns, ReducedGradientSink& global) override { columns_ = columns, global_ = &global; }
  // Gradients are the optimizer's, and weights go to the centre from where they lie.
  bool follows_device() const override { return live_ && !is_host(live_->weights.memory()); }
  void chunk_ready(std::size_t chunk) override { global_->on_reduced(chunk, columns_); }
  void chunks_ready(std::span<const std::size_t> chunks) override { global_->on_reduced(chunks, columns_); }
  void finish_gradients(StepMetrics& metrics) override {
    mine_ += metrics;
    lines_.add(metrics.samples, metrics.samples);
  }
  void exchange_weights(std::int64_t global_samples) override;
  void drain(ReducedGradientSink&) override;
  void end_epoch(ReducedGradientSink&) override;
  StepMetrics metrics_of_others_and_reset() override;
  void show_common_weights() override;
  void take_back_weights() override;
  bool steps_alone() const override { return true; }
  bool skips_steps_together() const override { return true; }
  std::int64_t weight_moves() const override { return moves_; }
  Share share(int rank, int) const override { return {rank < workers_ ? rank : -1, workers_}; }
  WorkQueue* work_queue() override { return work_queue_.get(); }
  void archive(Archive&) override;
  std::string state_name() const override { return "asynchronous EASGD"; }
  ExchangeStats exchange_stats_and_reset() override;
  std::string describe() const override;

 private:
  void synchronize() const { live_->weights.memory().synchronize(); }
  void build();
  void change_places();
  void exchange();
  void meet_at_centre();
  void load_centre();
  void fetch_centre();

  const EasgdOptions options_;
  Communicator& comm_;
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
  std::unique_ptr<ServedWorkQueue> work_queue_;
  std::unique_ptr<ElasticWorker> worker_;

  FloatBuffer centre_;  // as it was when the ranks met last
  bool apart_ = false;  // this rank has weights of its own
  bool shown_ = false;
  bool strangers_ = true;   // handlers and workers know nothing of each other
  std::int64_t steps_ = 0;  // since the last exchange
  std::int64_t columns_ = 0;
  ReducedGradientSink* global_ = nullptr;
  StepMetrics mine_, others_;  // since the last drain(); of the others, not taken yet
  ExchangeStats stats_;
  std::int64_t moves_ = 0;  // exchanges in all
  SyncPointLines lines_;    // of this rank: the others exchange when they get there
  bool announced_ = false;
};

// Error when the ranks do not suffice, or may not talk beside the main thread.
std::unique_ptr<Strategy> make_asynchronous_easgd(const EasgdOptions&, std::int64_t print_every, Communicator&);

}  // namespace tutti

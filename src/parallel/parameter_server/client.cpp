// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/timeline.h"
#include "parallel/local_gradients.h"
#include "parallel/parameter_server/shard_optimizer.h"
#include "parallel/residual.h"
#include "tutti/error.h"
#include "tutti/log.h"
#include "tutti/optimizer.h"

namespace tutti {
namespace {

constexpr int kResidualTag = 32006;

}  // namespace

ServerClient::ServerClient(const ServerOptions& options, const MethodContext& context)
    : options_(options),
      print_every_(context.print_every),
      comm_(context.comm),
      has_master_(context.has_master),
      servers_(options.servers > 0 ? static_cast<int>(options.servers) : comm_.size()),
      workers_(options.servers > 0 ? comm_.size() - servers_ : comm_.size()),
      optimizer_(context.optimizer),
      accrues_(options.push == ServerOptions::Push::gradients && !options.every_minibatch),
      pipelined_(options.pipeline && workers_ > 1),
      alone_(workers_ == 1 && !has_master_ && options.bits.kind == ExchangeBits::Kind::full && !accrues_ &&
             options.push == ServerOptions::Push::deltas) {}

ServerClient::~ServerClient() = default;

void ServerClient::start(Parameters& parameters) {
  if (server_) comm_.barrier();  // a run that was rolled back: nobody asks the old servers any more
  live_ = &parameters;
  worker_.reset();
  pollable_ = nullptr;
  pending_.reset();
  codec_ = make_codec(options_.bits.codec(), parameters.weights.memory(), false);
  build();
  if (works()) make_worker();
  fresh_optimizer_ = true;
  begun_ = in_flight_ = false;
  syncs_ = 0;
}

void ServerClient::make_worker() {
  pending_ = std::make_unique<PendingPushes>(*server_, *codec_);
  pollable_ = pending_.get();  // what has been encoded leaves while the next minibatch is computed
  std::size_t largest = 0;
  for (const ServerShardPlan& plan : plans_) largest = std::max(largest, plan.largest_run);
  worker_ = std::make_unique<PushWorker>(
      PushWorker::Kind{
          .gradients = pushes_gradients(), .accrues = accrues_, .shifted = pipelined_ || options_.fetch_period > 0},
      *live_, *codec_, largest);
}

void ServerClient::build() {
  barrier_.reset();
  work_queue_.reset();
  served_weights_.reset();
  server_ = std::make_unique<Server>(comm_);
  add_shards();
  add_admission();
  const int owner = workers_ < comm_.size() ? workers_ : 0;
  barrier_ = std::make_unique<ServedBarrier>(*server_, owner);
  if (!options_.waits_for_all() && workers_ > 1)
    work_queue_ = std::make_unique<ServedWorkQueue>(*server_, owner, works());
  server_->open();
}

void ServerClient::add_shards() {
  std::vector<int> owners;
  for (int s = 0; s < servers_; ++s) owners.push_back(workers_ < comm_.size() ? workers_ + s : s);
  std::unique_ptr<Optimizer> sample;
  if (pushes_gradients()) sample = optimizer_->make();
  plans_ = plan_shards(*live_, owners, sample && !sample->works_on_parts());
  const int gathers = options_.policy == ServerOptions::Policy::mixed
                          ? static_cast<int>(std::max<std::int64_t>(1, workers_ / options_.soft_sync))
                          : 1;
  const std::shared_ptr<const Codec> of_shards = make_codec(options_.bits.codec());
  handlers_.clear();
  shards_.clear();
  for (const ServerShardPlan& plan : plans_) {
    std::unique_ptr<ServerShard> shard;
    if (plan.owner == comm_.rank())
      shard = std::make_unique<ServerShard>(plan, *live_, of_shards, make_rule(), workers_, gathers);
    shards_.push_back(shard.get());
    handlers_.push_back(server_->add({.owner = plan.owner,
                                      .bytes = plan.bytes(*codec_),
                                      .clients = workers_,
                                      .lane = 0,
                                      .memory = &codec_->memory()},
                                     std::move(shard)));
  }
  if (!has_master_) return;
  std::vector<FloatBuffer*> local;
  for (ServerShard* shard : shards_) local.push_back(shard ? &shard->parameters().weights : nullptr);
  served_weights_ = std::make_unique<ServedWeights>(*server_, plans_, local);
}

void ServerClient::add_admission() {
  admission_ = nullptr;
  admission_number_ = -1;
  if (options_.max_staleness < 0 && options_.backup_workers == 0) return;
  const int owner = workers_ < comm_.size() ? workers_ : 0;
  std::unique_ptr<AdmissionHandler> handler;
  if (comm_.rank() == owner)
    handler = options_.backup_workers > 0 ? make_backup_admission(workers_, options_.backup_workers)
                                          : make_bounded_admission(workers_, options_.max_staleness);
  admission_ = handler.get();
  admission_number_ = server_->add({.owner = owner, .bytes = kAdmissionBytes, .clients = workers_}, std::move(handler));
}

std::unique_ptr<ShardRule> ServerClient::make_rule() const {
  if (pushes_gradients()) return std::make_unique<OptimizerRule>(optimizer_->make());
  return options_.average ? make_mean_rule() : make_sum_rule();
}

void ServerClient::load_shards() {
  synchronize();
  server_->exclusively([&] {
    for (ServerShard* shard : shards_)
      if (shard) shard->load(live_->weights.data());
    if (admission_) admission_->restart();
  });
}

void ServerClient::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  period_ = options_.every_minibatch ? 0 : options_.sync_period.at(static_cast<std::size_t>(epoch));
  if (!std::exchange(announced_, true)) log::line(describe());
  if (pushes_gradients() && std::exchange(fresh_optimizer_, false))
    spread_optimizer(*optimizer_->now, *server_, shards_);
  begun_ = true;
  collected_ = false;
  dropped_in_epoch_ = 0;
  all_counts_ = {};
  load_shards();
  forget_what_was_pushed();
  comm_.barrier();  // all servers have the weights from which workers start
}

// The common weights have just become those of all ranks.
void ServerClient::forget_what_was_pushed() {
  if (worker_) worker_->begin();
  since_mine_ = since_all_ = since_fetch_ = columns_since_ = steps_since_ = 0;
  batch_ = step_ = wanted_ = 0;
  in_flight_ = false;
}

bool ServerClient::joins_step(std::int64_t samples) {
  if (!works()) return false;
  if (step_ >= wanted_) return true;
  ++step_;
  dropped_mine_ += samples;
  return false;
}

bool ServerClient::is_due(const StepInfo& step) const {
  if (options_.backup_workers > 0) return true;
  if (options_.waits_for_all()) return period_ == 0 || since_all_ + step.global_samples >= period_ * workers_;
  const std::int64_t mine = since_mine_ + step.samples;
  return mine > 0 && mine >= period_;
}

// Servers add up the columns of a batch. Where it consists of whole minibatches, their columns are those of one rank
// that packs all of it, and the first worker pushes them for all. Within groups a batch is a part of a minibatch.
std::int64_t ServerClient::columns_to_push(const StepInfo& step) const {
  const bool whole = options_.waits_for_all() && options_.backup_workers == 0 && !has_master_;
  if (!whole) return step.columns;
  return comm_.rank() == 0 ? step.global_columns : 0;
}

WeightChange ServerClient::after_update(const StepInfo& step) {
  const bool due = is_due(step);
  rates_ = step.rates;
  since_mine_ += step.samples;
  since_fetch_ += step.samples;
  columns_since_ += columns_to_push(step);
  since_all_ += step.global_samples;
  ++steps_since_;
  WeightChange change;
  if (options_.backup_workers > 0) {
    change = sync(live_->gradients.data(), true);
  } else if (due) {
    if (accrues_) worker_->accrue();
    change = sync(accrues_ ? worker_->take_accrued() : live_->gradients.data(),
                  options_.fetch_period == 0 || since_fetch_ >= options_.fetch_period);
  } else if (pushes_gradients() && step.samples > 0) {
    // The worker continues with its own updates; the servers get the sum of its gradients.
    worker_->accrue();
    change.apply_gradients = true;
  }
  ++step_;
  return change;
}

// One push and, unless it is pipelined, its response. Each round over the servers starts with this rank's own.
template <class Visit>
void ServerClient::each_shard(const Visit& visit) {
  const auto servers = static_cast<std::size_t>(servers_), first = static_cast<std::size_t>(comm_.rank()) % servers;
  for (std::size_t round = 0; round < plans_.size(); round += servers)
    for (std::size_t i = 0; i < servers; ++i)
      if (const std::size_t shard = round + (first + i) % servers; shard < plans_.size()) visit(shard);
}

WeightChange ServerClient::sync(const float* gradients, bool fetches) {
  const ExchangeStats before = stats_;
  ++syncs_;
  const double factor = options_.young ? options_.young->factor(syncs_) : 1;
  factor_ = static_cast<float>(factor);
  PushHead head;
  head.samples = since_mine_, head.columns = columns_since_;
  head.learning_rate = rates_.learning_rate * factor, head.momentum_per_sample = rates_.momentum_per_sample;
  head.fetches = fetches;
  head.replaces = alone_ && factor == 1;
  head.late = pipelined_;
  const bool dropped = !admit(head);
  if (dropped) {
    head.pushes = 0, head.fetches = 1;
    dropped_mine_ += since_mine_;
  }
  if (pipelined_ && fetches) {
    each_shard([&](std::size_t s) { turn(s, head, gradients); });
    in_flight_ = true;
  } else {
    each_shard([&](std::size_t s) { push(s, head, gradients); });
    each_shard([&](std::size_t s) { take(s, head); });
  }
  since_mine_ = since_all_ = columns_since_ = steps_since_ = 0;
  if (fetches) since_fetch_ = 0;
  ++stats_.exchanges;
  log_push(before);
  return {.weights_changed = fetches, .dropped = dropped};
}

// Whether the push counts, and which others it forms a batch with.
bool ServerClient::admit(PushHead& head) {
  head.apart = 0;
  if (options_.backup_workers > 0) {
    const AdmissionResponse a = request_admission({step_, since_mine_, 0});
    wanted_ = a.step;
    head.batch = a.batch >= 0 ? a.batch : a.step;
    head.batch_size = static_cast<std::int32_t>(a.size);
    return a.batch >= 0;
  }
  if (options_.max_staleness >= 0) {
    const AdmissionResponse a = request_admission({0, since_mine_, 0});
    counts_.add(a.staleness);
    head.batch = a.batch;
    head.batch_size = static_cast<std::int32_t>(a.size);
  } else if (options_.waits_for_all()) {
    head.batch = batch_++;
    head.batch_size = workers_;
  } else {
    head.apart = 1;
  }
  return true;
}

AdmissionResponse ServerClient::request_admission(const AdmissionRequest& request) {
  const WorkTimer watch(stats_.wait, Work::wait);
  std::memcpy(server_->message(admission_number_).data(), &request, sizeof request);
  server_->request(admission_number_, sizeof(AdmissionResponse));
  AdmissionResponse response;
  std::memcpy(&response, server_->wait(admission_number_).data(), sizeof response);
  return response;
}

void ServerClient::push(std::size_t shard, const PushHead& head, const float* gradients) {
  {
    const WorkTimer encoding(stats_.encode, Work::encode);
    std::byte* out = server_->message(handlers_[shard]).data();
    std::memcpy(out, &head, sizeof head);
    out += kHeadBytes;
    if (head.pushes)
      for (const ServerShardRun& run : plans_[shard].runs) {
        worker_->write(run, head, factor_, gradients, out);
        out += codec_->bytes(run.rows, run.columns);
      }
  }
  pending_->request(handlers_[shard], head.fetches ? plans_[shard].bytes(*codec_) : kHeadBytes);
  count_bytes(shard);
}

std::span<const std::byte> ServerClient::wait_for(std::size_t shard, bool counts) {
  const WorkTimer watch(stats_.wait, Work::wait);
  const auto bytes = pending_->wait(handlers_[shard]);
  ResponseHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (counts && shard == 0 && options_.max_staleness < 0) counts_.add(head.staleness);
  return bytes.subspan(kHeadBytes);
}

void ServerClient::take(std::size_t shard, const PushHead& head) {
  const std::byte* in = wait_for(shard, head.pushes).data();
  if (!head.fetches) return;
  const WorkTimer watch(stats_.decode, Work::decode);
  for (const ServerShardRun& run : plans_[shard].runs) {
    worker_->take(run, in);
    in += codec_->bytes(run.rows, run.columns);
  }
}

// Pipelined: takes the response of the previous push and pushes again.
void ServerClient::turn(std::size_t shard, const PushHead& head, const float* gradients) {
  const std::byte* in = in_flight_ ? wait_for(shard, true).data() : nullptr;
  {
    const WorkTimer encoding(stats_.encode, Work::encode);
    std::byte* out = server_->message(handlers_[shard]).data();
    std::memcpy(out, &head, sizeof head);
    std::size_t at = kHeadBytes;
    for (const ServerShardRun& run : plans_[shard].runs) {
      worker_->turn(run, head, factor_, gradients, in ? in + (at - kHeadBytes) : nullptr, out + at);
      at += codec_->bytes(run.rows, run.columns);
    }
  }
  pending_->request(handlers_[shard], plans_[shard].bytes(*codec_));
  count_bytes(shard);
}

void ServerClient::count_bytes(std::size_t shard) {
  if (!shards_[shard]) count_message(stats_, plans_[shard].bytes(*codec_), plans_[shard].values);
}

void ServerClient::drain() {
  if (works()) finish_pushes();
  barrier_->wait();
  server_->exclusively([&] {
    for (ServerShard* shard : shards_) {
      if (!shard) continue;
      shard->flush();
      stats_ += shard->responses_to_others_and_reset();
    }
  });
  share_weights();
  load_shards();
  forget_what_was_pushed();
  collected_ = false;
  add_up_counts();
}

// Sends everything that this worker has learned to the servers.
void ServerClient::finish_pushes() {
  if (std::exchange(in_flight_, false)) each_shard([&](std::size_t s) { wait_for(s, true); });
  const bool left = options_.waits_for_all() ? steps_since_ > 0 : since_mine_ > 0;
  if (left && options_.backup_workers == 0) sync(worker_->take_accrued(), false);
  if (options_.max_staleness >= 0) request_admission({0, 0, 1});
}

void ServerClient::share_weights() {
  const WorkTimer watch(stats_.wait, Work::wait);
  synchronize();
  server_->exclusively([&] {
    for (const ServerShard* shard : shards_)
      if (shard) shard->store(live_->weights.data());
  });
  broadcast_shards(comm_, plans_, live_->weights.span(), stats_);
}

void ServerClient::add_up_counts() {
  counts_.add_up(comm_);
  all_counts_ += std::exchange(counts_, {});
  comm_.all_reduce_sum(std::span(&dropped_mine_, 1));
  dropped_in_epoch_ += dropped_mine_;
  dropped_ += std::exchange(dropped_mine_, 0);
}

void ServerClient::log_push(const ExchangeStats& before) const {
  if (print_every_ == 0 || syncs_ % print_every_ != 0) return;
  const double wait = stats_.wait - before.wait, work = stats_.encode + stats_.decode - before.encode - before.decode;
  log::line(fmt::format("\t\t(parameter server stats) push {}: {:.6g} seconds, {:.6g} of them waiting", syncs_,
                        wait + work, wait));
  log::record("exchange", {{"seconds", wait + work}, {"wait_seconds", wait}});
}

std::int64_t ServerClient::dropped_samples_and_reset() { return std::exchange(dropped_, 0); }

WeightChange ServerClient::end_epoch() {
  if (!options_.waits_for_all() || options_.max_staleness >= 0)
    log::line(fmt::format("Staleness in epoch {}: {}", epoch_ + 1, all_counts_.text()));
  if (options_.backup_workers > 0)
    log::line(fmt::format("Dropped in epoch {}: {} samples whose gradients would have come too late", epoch_ + 1,
                          dropped_in_epoch_));
  return {};
}

void ServerClient::show(Weights which, std::span<const float>) {
  if (which == Weights::own || !pushes_gradients() || !begun_ || std::exchange(collected_, true)) return;
  collect_optimizer(*optimizer_->now, *server_, shards_, plans_, comm_, *live_);
}

void ServerClient::archive(Archive& a, Section section) {
  if (section == Section::common) return;
  synchronize();
  a("DataParallelASGD.pushes", syncs_);
  if (a.loading()) fresh_optimizer_ = true;
  bool lossy = worker_ && codec_->lossy();
  a("DataParallelASGD.quantised", lossy);
  std::span<float> residual;
  if (worker_) residual = worker_->residual().span();
  if (a.loading()) std::ranges::fill(residual, 0.0f);
  FloatBuffer of_worker;
  if (lossy && residual.empty()) of_worker = FloatBuffer(live_->size()), residual = of_worker.span();
  if (lossy) archive_residual(a, "DataParallelASGD.residual", residual);
  if (a.loading()) take_over_residuals(of_worker);
}

// Residuals of ranks that were workers and now only serve pass to the first worker.
void ServerClient::take_over_residuals(FloatBuffer& of_worker) {
  if (!codec_->lossy() || workers_ == comm_.size()) return;
  const bool serves = comm_.rank() >= workers_;
  if (!serves && comm_.rank() > 0) return;
  if (of_worker.size() == 0) of_worker = FloatBuffer(live_->size());
  const auto bytes = std::as_writable_bytes(of_worker.span());
  if (serves) return comm_.send(0, kResidualTag, bytes)->wait();
  float* const residual = worker_->residual().data();
  for (int server = workers_; server < comm_.size(); ++server) {
    comm_.receive(server, kResidualTag, bytes)->wait();
    for (std::size_t i = 0; i < of_worker.size(); ++i) residual[i] += of_worker.data()[i];
  }
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "parallel/local_gradients.h"
#include "parallel/parameter_server/shard_optimizer.h"
#include "parallel/residual.h"
#include "tutti/error.h"
#include "tutti/log.h"
#include "tutti/optimizer.h"

namespace tutti {

ParameterServer::ParameterServer(const ServerOptions& options, std::int64_t print_every, Communicator& comm)
    : options_(options),
      print_every_(print_every),
      comm_(comm),
      servers_(options.servers > 0 ? static_cast<int>(options.servers) : comm.size()),
      workers_(options.servers > 0 ? comm.size() - servers_ : comm.size()),
      accrues_(options.push == ServerOptions::Push::gradients && !options.every_minibatch),
      pipelined_(options.pipeline && workers_ > 1),
      alone_(workers_ == 1 && options.bits.kind == ExchangeBits::Kind::full && !accrues_ &&
             options.push == ServerOptions::Push::deltas) {}

ParameterServer::~ParameterServer() = default;

Strategy::Share ParameterServer::share(int rank, int) const { return {rank < workers_ ? rank : -1, workers_}; }

void ParameterServer::start(Parameters& parameters) {
  if (server_) comm_.barrier();  // a run that was rolled back: nobody asks the old servers any more
  live_ = &parameters;
  broadcast_weights(comm_, parameters);
  chunks_ = all_chunks(parameters);
  worker_.reset();
  pending_.reset();
  codec_ = make_codec(options_.bits.codec(), parameters.weights.memory(), false);
  build();
  if (works()) make_worker();
  fresh_optimizer_ = true;
  begun_ = in_flight_ = false;
  syncs_ = 0;
}

void ParameterServer::make_worker() {
  pending_ = std::make_unique<PendingPushes>(*server_, *codec_);
  std::size_t largest = 0;
  for (const ServerShardPlan& plan : plans_) largest = std::max(largest, plan.largest_run);
  worker_ = std::make_unique<PushWorker>(
      PushWorker::Kind{
          .gradients = pushes_gradients(), .accrues = accrues_, .shifted = pipelined_ || options_.fetch_period > 0},
      *live_, *codec_, largest);
}

void ParameterServer::build() {
  barrier_.reset();
  work_queue_.reset();
  server_ = std::make_unique<Server>(comm_);
  add_shards();
  add_admission();
  const int owner = workers_ < comm_.size() ? workers_ : 0;
  barrier_ = std::make_unique<ServedBarrier>(*server_, owner);
  if (!waits_for_all() && workers_ > 1) work_queue_ = std::make_unique<ServedWorkQueue>(*server_, owner, workers_);
  server_->open();
}

void ParameterServer::add_shards() {
  std::vector<int> owners;
  for (int s = 0; s < servers_; ++s) owners.push_back(workers_ < comm_.size() ? workers_ + s : s);
  std::unique_ptr<Optimizer> sample;
  if (pushes_gradients()) sample = optimizers_.make();
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
}

void ParameterServer::add_admission() {
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

std::unique_ptr<ShardRule> ParameterServer::make_rule() const {
  if (pushes_gradients()) return std::make_unique<OptimizerRule>(optimizers_.make());
  return options_.average ? make_mean_rule() : make_sum_rule();
}

void ParameterServer::load_shards() {
  synchronize();
  server_->exclusively([&] {
    for (ServerShard* shard : shards_)
      if (shard) shard->load(live_->weights.data());
    if (admission_) admission_->restart();
  });
}

void ParameterServer::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  period_ = options_.every_minibatch ? 0 : options_.sync_period.at(static_cast<std::size_t>(epoch));
  if (!std::exchange(announced_, true)) log::line(describe());
  if (pushes_gradients() && std::exchange(fresh_optimizer_, false))
    spread_optimizer(optimizers_.of_run(), *server_, shards_);
  begun_ = true;
  collected_ = false;
  dropped_in_epoch_ = 0;
  all_counts_ = {};
  load_shards();
  forget_what_was_pushed();
  comm_.barrier();  // all servers have the weights from which workers start
}

// Where the common weights have just become those of all ranks.
void ParameterServer::forget_what_was_pushed() {
  if (worker_) worker_->begin();
  since_mine_ = since_all_ = since_fetch_ = columns_since_ = 0;
  batch_ = step_ = wanted_ = 0;
  in_flight_ = false;
}

bool ParameterServer::joins_step(std::int64_t samples) {
  if (!works()) return false;
  if (step_ >= wanted_) return true;
  ++step_;
  dropped_mine_ += samples;
  return false;
}

// What has been encoded since the last push leaves while the next minibatch is computed.
void ParameterServer::begin_step(std::int64_t columns, ReducedGradientSink& global) {
  columns_ = columns, global_ = &global;
  if (pending_) pending_->advance();
}

void ParameterServer::chunks_ready(std::span<const std::size_t> chunks) {
  if (!pushes_gradients()) global_->on_reduced(chunks, columns_);
  if (pending_) pending_->advance();
}

void ParameterServer::finish_gradients(StepMetrics& metrics) {
  step_metrics_ = metrics;
  since_mine_ += metrics.samples;
  since_fetch_ += metrics.samples;
  columns_since_ += columns_;
  if (options_.backup_workers == 0) return;
  sync(live_->gradients.data(), true);  // now, so that what is dropped is not reported
  if (dropped_now_) clear(metrics);
}

bool ParameterServer::due() const {
  if (waits_for_all()) return period_ == 0 || since_all_ >= period_ * workers_;
  return since_mine_ > 0 && since_mine_ >= period_;
}

void ParameterServer::exchange_weights(std::int64_t global_samples) {
  since_all_ += global_samples;
  if (options_.backup_workers > 0) {
    // Has been exchanged.
  } else if (due()) {
    if (accrues_) worker_->accrue();
    sync(accrues_ ? worker_->take_accrued() : live_->gradients.data(),
         options_.fetch_period == 0 || since_fetch_ >= options_.fetch_period);
  } else if (pushes_gradients() && step_metrics_.samples > 0) {
    // The worker goes on alone with its own updates; the servers get the sum.
    worker_->accrue();
    global_->on_reduced(chunks_, columns_);
  }
  ++step_;
  if (!std::exchange(dropped_now_, false)) mine_ += step_metrics_;
}

// One push, and unless it is pipelined its response. Rounds over the servers begin with this rank's own.
template <class Visit>
void ParameterServer::each_shard(const Visit& visit) {
  const auto servers = static_cast<std::size_t>(servers_), first = static_cast<std::size_t>(comm_.rank()) % servers;
  for (std::size_t round = 0; round < plans_.size(); round += servers)
    for (std::size_t i = 0; i < servers; ++i)
      if (const std::size_t shard = round + (first + i) % servers; shard < plans_.size()) visit(shard);
}

void ParameterServer::sync(const float* gradients, bool fetches) {
  const ExchangeStats before = stats_;
  ++syncs_;
  const double factor = options_.young ? options_.young->factor(syncs_) : 1;
  factor_ = static_cast<float>(factor);
  PushHead head;
  head.samples = since_mine_, head.columns = columns_since_;
  const StepRates rates = global_->rates();
  head.learning_rate = rates.learning_rate * factor, head.momentum_per_sample = rates.momentum_per_sample;
  head.fetches = fetches;
  head.replaces = alone_ && factor == 1;
  head.late = pipelined_;
  dropped_now_ = !admit(head);
  if (dropped_now_) {
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
  since_mine_ = since_all_ = columns_since_ = 0;
  if (fetches) since_fetch_ = 0, ++moves_;
  ++stats_.exchanges;
  log_push(before);
}

// Whether the push counts, and with which others together.
bool ParameterServer::admit(PushHead& head) {
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
  } else if (waits_for_all()) {
    head.batch = batch_++;
    head.batch_size = workers_;
  } else {
    head.apart = 1;
  }
  return true;
}

AdmissionResponse ParameterServer::request_admission(const AdmissionRequest& request) {
  const auto start = Clock::now();
  std::memcpy(server_->message(admission_number_).data(), &request, sizeof request);
  server_->request(admission_number_, sizeof(AdmissionResponse));
  AdmissionResponse response;
  std::memcpy(&response, server_->wait(admission_number_).data(), sizeof response);
  stats_.wait += seconds_since(start);
  return response;
}

void ParameterServer::push(std::size_t shard, const PushHead& head, const float* gradients) {
  const auto start = Clock::now();
  std::byte* out = server_->message(handlers_[shard]).data();
  std::memcpy(out, &head, sizeof head);
  out += kHeadBytes;
  if (head.pushes)
    for (const ServerShardRun& run : plans_[shard].runs) {
      worker_->write(run, head, factor_, gradients, out);
      out += codec_->bytes(run.rows, run.columns);
    }
  stats_.encode += seconds_since(start);
  pending_->request(handlers_[shard], head.fetches ? plans_[shard].bytes(*codec_) : kHeadBytes);
  count_bytes(shard);
}

std::span<const std::byte> ParameterServer::wait_for(std::size_t shard, bool counts) {
  const auto start = Clock::now();
  const auto bytes = pending_->wait(handlers_[shard]);
  stats_.wait += seconds_since(start);
  ResponseHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (counts && shard == 0 && options_.max_staleness < 0) counts_.add(head.staleness);
  return bytes.subspan(kHeadBytes);
}

void ParameterServer::take(std::size_t shard, const PushHead& head) {
  const std::byte* in = wait_for(shard, head.pushes).data();
  if (!head.fetches) return;
  const auto start = Clock::now();
  for (const ServerShardRun& run : plans_[shard].runs) {
    worker_->take(run, in);
    in += codec_->bytes(run.rows, run.columns);
  }
  stats_.decode += seconds_since(start);
}

// Pipelined: takes the response of the push before and pushes again.
void ParameterServer::turn(std::size_t shard, const PushHead& head, const float* gradients) {
  const std::byte* in = in_flight_ ? wait_for(shard, true).data() : nullptr;
  const auto start = Clock::now();
  std::byte* out = server_->message(handlers_[shard]).data();
  std::memcpy(out, &head, sizeof head);
  std::size_t at = kHeadBytes;
  for (const ServerShardRun& run : plans_[shard].runs) {
    worker_->turn(run, head, factor_, gradients, in ? in + (at - kHeadBytes) : nullptr, out + at);
    at += codec_->bytes(run.rows, run.columns);
  }
  stats_.encode += seconds_since(start);
  pending_->request(handlers_[shard], plans_[shard].bytes(*codec_));
  count_bytes(shard);
}

void ParameterServer::count_bytes(std::size_t shard) {
  if (shards_[shard]) return;
  stats_.bytes_sent += static_cast<std::int64_t>(plans_[shard].bytes(*codec_));
  stats_.values_sent += static_cast<std::int64_t>(plans_[shard].values);
}

void ParameterServer::drain(ReducedGradientSink& global) {
  if (works()) finish_pushes(global);
  barrier_->wait();
  server_->exclusively([&] {
    for (ServerShard* shard : shards_)
      if (shard) shard->flush();
  });
  share_weights();
  load_shards();
  forget_what_was_pushed();
  collected_ = false;
  others_ += metrics_of_others(comm_, mine_);
  clear(mine_);
  add_up_counts();
}

// All that this worker has learned goes to the servers.
void ParameterServer::finish_pushes(ReducedGradientSink& global) {
  global_ = &global;
  if (std::exchange(in_flight_, false)) each_shard([&](std::size_t s) { wait_for(s, true); });
  const bool left = waits_for_all() ? since_all_ > 0 : since_mine_ > 0;
  if (left && options_.backup_workers == 0) {
    sync(worker_->take_accrued(), false);
  }
  if (options_.max_staleness >= 0) request_admission({0, 0, 1});
}

void ParameterServer::share_weights() {
  const auto start = Clock::now();
  synchronize();
  server_->exclusively([&] {
    for (const ServerShard* shard : shards_)
      if (shard) shard->store(live_->weights.data());
  });
  for (const ServerShardPlan& plan : plans_) {
    for (const ServerShardRun& run : plan.runs)
      comm_.broadcast(plan.owner, std::as_writable_bytes(live_->weights.span().subspan(run.offset, run.size())));
    if (plan.owner != comm_.rank()) continue;
    const auto copies = static_cast<std::int64_t>(comm_.size() - 1);
    stats_.bytes_sent += copies * static_cast<std::int64_t>(plan.values * sizeof(float));
    stats_.values_sent += copies * static_cast<std::int64_t>(plan.values);
  }
  stats_.wait += seconds_since(start);
}

void ParameterServer::add_up_counts() {
  counts_.add_up(comm_);
  all_counts_ += std::exchange(counts_, {});
  comm_.all_reduce_sum(std::span(&dropped_mine_, 1));
  dropped_in_epoch_ += dropped_mine_;
  dropped_ += std::exchange(dropped_mine_, 0);
}

void ParameterServer::log_push(const ExchangeStats& before) const {
  if (print_every_ == 0 || syncs_ % print_every_ != 0) return;
  const double wait = stats_.wait - before.wait, work = stats_.encode + stats_.decode - before.encode - before.decode;
  log::line(fmt::format("\t\t(parameter server stats) push {}: {:.6g} seconds, {:.6g} of them waiting", syncs_,
                        wait + work, wait));
}

StepMetrics ParameterServer::metrics_of_others_and_reset() { return std::exchange(others_, {}); }
std::int64_t ParameterServer::dropped_samples_and_reset() { return std::exchange(dropped_, 0); }

void ParameterServer::end_epoch(ReducedGradientSink&) {
  if (!waits_for_all() || options_.max_staleness >= 0)
    log::line(fmt::format("Staleness in epoch {}: {}", epoch_ + 1, all_counts_.text()));
  if (options_.backup_workers > 0)
    log::line(fmt::format("Dropped in epoch {}: {} samples whose gradients would have come too late", epoch_ + 1,
                          dropped_in_epoch_));
}

void ParameterServer::show_common_weights() {
  if (!pushes_gradients() || !begun_ || std::exchange(collected_, true)) return;
  collect_optimizer(optimizers_.of_run(), *server_, shards_, plans_, comm_, *live_);
}

void ParameterServer::archive(Archive& a) {
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

// What ranks owe that were workers and only serve now, the first worker owes from here on.
void ParameterServer::take_over_residuals(FloatBuffer& of_worker) {
  if (!codec_->lossy() || workers_ == comm_.size()) return;
  if (of_worker.size() == 0) of_worker = FloatBuffer(live_->size());
  for (int server = workers_; server < comm_.size(); ++server) {
    comm_.broadcast(server, std::as_writable_bytes(of_worker.span()));
    if (comm_.rank() != 0) continue;
    float* const residual = worker_->residual().data();
    for (std::size_t i = 0; i < of_worker.size(); ++i) residual[i] += of_worker.data()[i];
  }
}

ExchangeStats ParameterServer::exchange_stats_and_reset() { return std::exchange(stats_, {}); }

std::string ParameterServer::describe() const {
  std::string text =
      fmt::format("DataParallelASGD with {} worker{} and {} server{}{}, ", workers_, workers_ == 1 ? "" : "s", servers_,
                  servers_ == 1 ? "" : "s", options_.servers > 0 ? " of their own" : " beside them");
  text += pushes_gradients() ? "gradients pushed" : options_.average ? "weights averaged" : "deltas pushed";
  text += options_.every_minibatch
              ? " after every minibatch"
              : fmt::format(" every {} samples of {}", options_.sync_period.at(static_cast<std::size_t>(epoch_)),
                            waits_for_all() ? "each worker" : "a worker");
  text += fmt::format(" in {}", make_codec(options_.bits.codec())->name());
  switch (options_.policy) {
    case ServerOptions::Policy::async:
      text += options_.max_staleness >= 0
                  ? fmt::format(", asynchronously, at most {} pushes stale", options_.max_staleness)
                  : ", asynchronously";
      break;
    case ServerOptions::Policy::sync:
      text += options_.backup_workers > 0 ? fmt::format(", synchronously, {} of them backup", options_.backup_workers)
                                          : ", synchronously";
      break;
    case ServerOptions::Policy::mixed:
      text += fmt::format(", {} pushes to an update", std::max<std::int64_t>(1, workers_ / options_.soft_sync));
      break;
  }
  if (pipelined_) text += ", fetched one push late";
  return text;
}

std::string ParameterServer::loop_text(std::int64_t epoch) const {
  return fmt::format(", DataParallelASGD training (myRank = {}, numNodes = {}, SamplesSyncToServer = {}){}",
                     comm_.rank(), comm_.size(),
                     options_.every_minibatch ? 0 : options_.sync_period.at(static_cast<std::size_t>(epoch)),
                     pipelined_ ? ", BufferedAsyncGradientAggregation is ENABLED" : "");
}

void StalenessCounts::add(std::int64_t staleness) {
  ++bins[std::min(static_cast<std::size_t>(staleness), kBins - 1)];
  ++pushes;
  sum += staleness;
  largest = std::max(largest, staleness);
}

StalenessCounts& StalenessCounts::operator+=(const StalenessCounts& o) {
  for (std::size_t i = 0; i < kBins; ++i) bins[i] += o.bins[i];
  pushes += o.pushes, sum += o.sum, largest = std::max(largest, o.largest);
  return *this;
}

void StalenessCounts::add_up(Communicator& comm) {
  comm.all_reduce_sum(std::span(bins));
  comm.all_reduce_sum(std::span(&pushes, 1));
  comm.all_reduce_sum(std::span(&sum, 1));
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::as_bytes(std::span(&largest, 1)), std::as_writable_bytes(std::span(all)));
  largest = *std::max_element(all.begin(), all.end());
}

std::string StalenessCounts::text() const {
  std::string text =
      fmt::format("mean {:.2f}, max {}; {} pushes",
                  static_cast<double>(sum) / std::max<double>(1, static_cast<double>(pushes)), largest, pushes);
  const char* sign = ": ";
  for (std::size_t i = 0; i < kBins; ++i)
    if (bins[i] > 0)
      text += fmt::format("{}{}{}: {}", std::exchange(sign, ", "), i, i + 1 == kBins ? "+" : "", bins[i]);
  return text;
}

std::unique_ptr<Strategy> make_parameter_server(const ServerOptions& o, std::int64_t print_every, Communicator& comm) {
  if (o.servers > 0 && o.servers >= comm.size())
    throw ConfigError({},
                      fmt::format("servers = {} leaves no worker among {} rank{}", o.servers, comm.size(),
                                  comm.size() == 1 ? "" : "s"),
                      "start more ranks, or servers = 0, where ranks serve beside their work");
  const std::int64_t workers = comm.size() - o.servers;
  if (o.backup_workers > 0 && o.backup_workers >= workers)
    throw ConfigError({},
                      fmt::format("backupWorkers = {} leaves none of {} worker{} to wait for", o.backup_workers,
                                  workers, workers == 1 ? "" : "s"),
                      fmt::format("backupWorkers = {} or less, or more ranks", workers - 1));
  if (o.policy == ServerOptions::Policy::mixed && workers % o.soft_sync != 0) {
    std::string possible;
    for (std::int64_t n = 1; n <= workers; ++n)
      if (workers % n == 0) possible += fmt::format("{}{}", possible.empty() ? "" : ", ", n);
    throw ConfigError({},
                      fmt::format("softSync = {} does not divide {} worker{}: every update is made of "
                                  "workers/softSync pushes",
                                  o.soft_sync, workers, workers == 1 ? "" : "s"),
                      fmt::format("softSync = {}", possible));
  }
  return std::make_unique<ParameterServer>(o, print_every, comm);
}

}  // namespace tutti

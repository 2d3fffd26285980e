// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/elastic_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "base/timeline.h"
#include "parallel/residual.h"
#include "tutti/log.h"

namespace tutti {
namespace {

// Seconds since `from`, which is set to now, for this work.
double lap(Clock::time_point& from, Work work) {
  const auto now = Clock::now();
  if (Timeline* to = detail::recorded_thread) to->add(work, from, now);
  return std::chrono::duration<double>(now - std::exchange(from, now)).count();
}

}  // namespace

ElasticClient::ElasticClient(const EasgdOptions& options, const MethodContext& context)
    : options_(options),
      comm_(context.comm),
      has_master_(context.has_master),
      workers_(comm_.size() - static_cast<int>(options.servers)),
      servers_(options.servers > 0 ? static_cast<int>(options.servers) : comm_.size()),
      rate_(options.rate(workers_)),
      lines_(false, context.print_every) {}

ElasticClient::~ElasticClient() = default;

void ElasticClient::start(Parameters& parameters) {
  if (server_) comm_.barrier();  // nobody asks the old handlers any more
  live_ = &parameters;
  codec_ = make_codec(options_.bits.codec(), parameters.weights.memory(), false);
  build();
  center_ = FloatBuffer(parameters.size());
  steps_ = 0;
  apart_ = shown_ = false;
  strangers_ = true;
}

void ElasticClient::build() {
  work_queue_.reset();
  served_weights_.reset();
  barrier_.reset();
  pending_.reset();
  server_ = std::make_unique<Server>(comm_);
  pending_ = std::make_unique<PendingPushes>(*server_, *codec_);
  const std::shared_ptr<const Codec> codec_of_handlers = make_codec(options_.bits.codec());
  std::vector<int> owners;
  for (int s = 0; s < servers_; ++s) owners.push_back(workers_ < comm_.size() ? workers_ + s : s);
  plans_ = plan_shards(*live_, owners, false);
  handlers_.clear();
  numbers_.clear();
  std::size_t largest = 0;
  for (const ServerShardPlan& plan : plans_) {
    std::unique_ptr<ElasticHandler> handler;
    if (plan.owner == comm_.rank())
      handler = std::make_unique<ElasticHandler>(plan, codec_of_handlers, rate_, workers_);
    handlers_.push_back(handler.get());
    numbers_.push_back(server_->add({.owner = plan.owner,
                                     .bytes = elastic_bytes(plan, *codec_),
                                     .clients = workers_,
                                     .lane = 0,
                                     .memory = &codec_->memory()},
                                    std::move(handler)));
    largest = std::max(largest, plan.largest_run);
  }
  if (has_master_) {
    std::vector<FloatBuffer*> local;
    for (ElasticHandler* handler : handlers_) local.push_back(handler ? &handler->center() : nullptr);
    served_weights_ = std::make_unique<ServedWeights>(*server_, plans_, local);
  }
  barrier_ = std::make_unique<ServedBarrier>(*server_, owners[0]);
  if (options_.division == EasgdOptions::Division::work_queue)
    work_queue_ = std::make_unique<ServedWorkQueue>(*server_, owners[0], comm_.rank() < workers_);
  server_->open();
  worker_ = std::make_unique<ElasticWorker>(codec_, rate_, live_->weights, largest);
}

void ElasticClient::begin_epoch(std::int64_t) {
  synchronize();
  // A rank that has not trained yet accepts the current weights, whoever wrote them.
  if (!apart_) std::copy_n(live_->weights.data(), live_->size(), center_.data());
  if (!std::exchange(announced_, true)) log::line(describe());
  load_center();
  barrier_->wait();
  lines_.begin_epoch();
}

void ElasticClient::load_center() {
  // The known values of both sides are valid while both remember them.
  const bool anew = std::exchange(strangers_, false);
  const float* center = center_.data();
  server_->exclusively([&] {
    for (ElasticHandler* handler : handlers_)
      if (handler) anew ? handler->start(center) : handler->load(center);
  });
  anew ? worker_->start(center) : worker_->load(center);
}

WeightChange ElasticClient::after_update(const StepInfo& step) {
  if (comm_.rank() >= workers_) return {};
  const bool due = is_due(step);
  lines_.add(step.samples, step.samples);
  apart_ = true;
  ++steps_;
  if (!due) return {};
  exchange();
  return {.weights_changed = true};
}

// Sends all parts, each as soon as it is encoded. Waits only for the serving threads, not for other workers.
void ElasticClient::exchange() {
  assert(!shown_);
  const auto start = Clock::now();
  auto at = start;
  float* weights = live_->weights.data();
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const std::size_t bytes = elastic_bytes(plans_[i], *codec_);
    worker_->write(plans_[i], weights, server_->message(numbers_[i]).data());
    stats_.encode += lap(at, Work::encode);
    pending_->request(numbers_[i], bytes);
    stats_.wait += lap(at, Work::wait);
    if (!handlers_[i]) count_message(stats_, bytes, plans_[i].values);
  }
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const auto response = pending_->wait(numbers_[i]);
    stats_.wait += lap(at, Work::wait);
    worker_->take(plans_[i], response.data(), weights);
    stats_.decode += lap(at, Work::decode);
  }
  ++stats_.exchanges;
  steps_ = 0;
  lines_.exchanged(seconds_since(start), 1);
}

void ElasticClient::meet_at_center() {
  synchronize();
  barrier_->wait();  // asleep, while the last ones still work
  fetch_center();
  load_center();
  if (!apart_) std::copy_n(center_.data(), live_->size(), live_->weights.data());
  barrier_->wait();  // before anybody moves a center that another rank is about to load
}

void ElasticClient::drain() { meet_at_center(); }

// The center is the model: what the workers have learned since their last exchange is added before it is saved.
WeightChange ElasticClient::end_epoch() {
  const bool exchanges = comm_.rank() < workers_ && steps_ > 0;
  if (exchanges) exchange();
  meet_at_center();
  return {.weights_changed = exchanges || !apart_};
}

void ElasticClient::fetch_center() {
  server_->exclusively([&] {
    for (ElasticHandler* handler : handlers_) {
      if (!handler) continue;
      handler->store(center_.data());
      stats_ += handler->responses_to_others_and_reset();
    }
  });
  broadcast_shards(comm_, plans_, center_.span(), stats_);
}

void ElasticClient::show(Weights which, std::span<const float>) {
  assert(shown_ == (which == Weights::own));
  shown_ = which == Weights::common;
  change_places();
}

void ElasticClient::change_places() {
  synchronize();
  if (apart_) std::swap_ranges(center_.data(), center_.data() + center_.size(), live_->weights.data());
}

// Saved while the center is shown; this rank's own weights are in center_.
void ElasticClient::archive(Archive& a, Section section) {
  if (section == Section::common) return;
  assert(a.loading() ? !shown_ : shown_ || !apart_);
  synchronize();
  if (a.loading()) {
    std::copy_n(live_->weights.data(), live_->size(), center_.data());
    strangers_ = true;
  }
  a("elastic.apart", apart_);
  a("elastic.steps", steps_);
  const std::string loss = gone_name(kOwnWeights);
  bool loses = apart_;
  if (a.has(loss)) a(loss, loses);
  if (comm_.rank() >= workers_) apart_ = false;  // was a worker when this was saved
  if (!apart_) return;
  FloatBuffer& own = a.loading() ? live_->weights : center_;
  for (const Slice& s : live_->slices) {
    const std::string name = own_name("elastic.weights/" + s.name);
    if (a.has(name)) a(name, own.span().subspan(s.offset, s.size()));
  }
}

std::string ElasticClient::describe() const {
  return fmt::format(
      "EASGD on {} worker{}, asynchronous, an exchange every {} minibatches in {}: moving rate {:g}, {}", workers_,
      workers_ == 1 ? "" : "s", options_.period, make_codec(options_.bits.codec())->name(), rate_,
      workers_ < comm_.size() ? fmt::format("the center on {} rank{} more", servers_, servers_ == 1 ? "" : "s")
                              : std::string("the center beside the workers"));
}

}  // namespace tutti

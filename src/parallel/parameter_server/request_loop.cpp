// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/request_loop.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "base/activity.h"
#include "base/nap.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr int kMostHandlers = 16000;  // two tags each
constexpr int kDriveTag = 32766;
constexpr std::int64_t kBehindAll = std::numeric_limits<std::int64_t>::max() / 2;

}  // namespace

Server::Server(Communicator& comm) : comm_(comm.split(0)), me_(comm.rank()) {
  if (comm.size() > 1 && !comm.threads_may_talk())
    throw Error(
        "starting a parameter server: this MPI library does not let threads talk beside the main thread "
        "(MPI_THREAD_MULTIPLE). fix: use a library that does, or a parallelizationMethod without servers");
}

Server::~Server() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

int Server::clients(const Post& p) const { return p.plan.clients > 0 ? p.plan.clients : comm_->size(); }

int Server::add(const HandlerPlan& plan, std::unique_ptr<RequestHandler> handler) {
  assert(!thread_.joinable() && (plan.owner == me_) == (handler != nullptr));
  const int number = static_cast<int>(handlers_.size());
  if (number >= kMostHandlers) throw Error("starting a parameter server: too many parts of the weights");
  Post post;
  post.plan = plan;
  post.handler = std::move(handler);
  if (plan.owner == me_) {
    const auto same = std::find_if(lanes_.begin(), lanes_.end(),
                                   [&](const Lane& l) { return plan.lane >= 0 && l.name == plan.lane; });
    post.lane = static_cast<int>(same - lanes_.begin());
    if (same == lanes_.end())
      lanes_.push_back({plan.lane, {}, std::vector<std::size_t>(static_cast<std::size_t>(comm_->size()))});
    lanes_[static_cast<std::size_t>(post.lane)].handlers.push_back(number);
  }
  handlers_.push_back(std::move(post));
  return number;
}

void Server::plan_owned(Post& p, int number) {
  p.places.resize(static_cast<std::size_t>(clients(p)));
  p.waiting.reserve(p.places.size());
  for (int c = 0; c < clients(p); ++c) {
    Place& place = p.places[static_cast<std::size_t>(c)];
    place.message = MessageBytes(p.plan.bytes, c == me_ ? *p.plan.memory : host_memory());
    if (c == me_) continue;
    place.receive = comm_->plan_receive(c, 2 * number, place.message.span());
    place.send = comm_->plan_send(c, 2 * number + 1, place.message.span());
    place.receive->start();
  }
}

void Server::plan_asking(Post& p, int number) {
  p.out = MessageBytes(p.plan.bytes, *p.plan.memory);
  p.in = MessageBytes(p.plan.bytes, *p.plan.memory);
  p.send = comm_->plan_send(p.plan.owner, 2 * number, p.out.span());
  p.receive = comm_->plan_receive(p.plan.owner, 2 * number + 1, p.in.span());
}

void Server::open() {
  for (std::size_t i = 0; i < handlers_.size(); ++i) {
    Post& p = handlers_[i];
    if (p.plan.owner == me_)
      plan_owned(p, static_cast<int>(i));
    else if (me_ < clients(p))
      plan_asking(p, static_cast<int>(i));
  }
  std::size_t places = 0;
  for (const Post& p : handlers_) places += p.places.size();
  leaving_.reserve(places);
  if (comm_->size() == 1) return;
  // The messages to poll: responses being sent, one request per lane and client, drive_, and the response that a thread
  // waits for.
  const std::size_t most = places + lanes_.size() * static_cast<std::size_t>(comm_->size()) + 2;
  poller_ = comm_->plan_poller(most);
  messages_.reserve(most);
  if (lanes_.empty()) {
    drive_ = comm_->plan_receive(me_, kDriveTag, {&nothing_, 1});
    drive_->start();
  }
  thread_ = std::thread([this] { run(); });
}

void Server::run() {
  try {
    for (Nap nap; !stop_;)
      if (look(nullptr))
        nap.woken();
      else
        // A thread that waits for a response polls by itself and serves requests meanwhile.
        nap.nothing_happened(std::chrono::microseconds(asking_ > 0 && waiting_ == 0 ? 100 : 1000));
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    comm_->fail(failure_);
  }
}

// Returns whether there were requests; also polls `response`, if any.
bool Server::look(Transfer* response) {
  const std::unique_lock looking(looking_, std::try_to_lock);
  if (!looking) {  // another thread serves
    if (response) response->done();
    return false;
  }
  choose_messages(response);
  poller_->poll(messages_);
  const std::lock_guard lock(mutex_);
  bool found = listen_again();
  for (Lane& lane : lanes_)
    for (int c = 0; c < comm_->size(); ++c) found = look_at(lane, c) || found;
  return found;
}

// They do not change until the poll ends: only polls receive messages.
void Server::choose_messages(Transfer* response) {
  const std::lock_guard lock(mutex_);
  messages_.clear();
  for (const auto& [handler, client] : leaving_)
    messages_.push_back(post(handler).places[static_cast<std::size_t>(client)].send.get());
  for (const Lane& lane : lanes_)
    for (int c = 0; c < comm_->size(); ++c) {
      const Post& p = post(lane.handlers[lane.next[static_cast<std::size_t>(c)]]);
      if (c == me_ || c >= clients(p)) continue;
      const Place& place = p.places[static_cast<std::size_t>(c)];
      if (!place.waits && !place.leaves) messages_.push_back(place.receive.get());
    }
  if (drive_) messages_.push_back(drive_.get());
  if (response) messages_.push_back(response);
}

// Request and response share memory, so the next request may be received only after the response has been sent.
bool Server::listen_again() {
  const auto left = std::remove_if(leaving_.begin(), leaving_.end(), [&](const std::pair<int, int>& at) {
    Place& place = post(at.first).places[static_cast<std::size_t>(at.second)];
    if (!place.send->complete()) return false;
    place.leaves = false;
    place.receive->start();
    return true;
  });
  const bool any = left != leaving_.end();
  leaving_.erase(left, leaving_.end());
  return any;
}

bool Server::look_at(Lane& lane, int client) {
  bool found = false;
  std::size_t& next = lane.next[static_cast<std::size_t>(client)];
  for (;;) {
    Post& p = post(lane.handlers[next]);
    if (client == me_ || client >= clients(p)) return found;
    Place& place = p.places[static_cast<std::size_t>(client)];
    if (place.waits || place.leaves || !place.receive->complete()) return found;
    found = place.waits = true;
    p.waiting.push_back(client);
    respond_to_waiting(lane.handlers[next]);
    next = (next + 1) % lane.handlers.size();
  }
}

// In order of arrival, until no waiting request gets a response.
void Server::respond_to_waiting(int handler) {
  Post& p = post(handler);
  for (std::size_t i = 0; i < p.waiting.size();) {
    const int client = p.waiting[i];
    const std::size_t bytes = p.handler->handle(client, p.places[static_cast<std::size_t>(client)].message.span());
    if (bytes == 0) {
      ++i;
      continue;
    }
    p.waiting.erase(p.waiting.begin() + static_cast<std::ptrdiff_t>(i));
    deliver(handler, client, bytes);
    i = 0;
  }
}

void Server::deliver(int handler, int client, std::size_t bytes) {
  Place& place = post(handler).places[static_cast<std::size_t>(client)];
  place.waits = false;
  if (client == me_) {
    place.response_bytes = bytes;
    return;
  }
  place.leaves = true;
  place.send->start(bytes);
  leaving_.emplace_back(handler, client);
}

void Server::exclusively(const std::function<void()>& work) {
  const std::lock_guard lock(mutex_);
  work();
  for (std::size_t i = 0; i < handlers_.size(); ++i)
    if (!handlers_[i].waiting.empty()) respond_to_waiting(static_cast<int>(i));
}

std::span<std::byte> Server::message(int handler) {
  Post& p = post(handler);
  return owns(handler) ? p.places[static_cast<std::size_t>(me_)].message.span() : p.out.span();
}

void Server::request(int handler, std::size_t response_bytes) {
  Post& p = post(handler);
  assert(!p.in_flight && response_bytes > 0 && response_bytes <= p.plan.bytes);
  p.in_flight = true;
  p.response_bytes = response_bytes;
  if (!owns(handler)) {
    ++asking_;
    p.send->wait();  // has left, for its response came
    p.receive->start(response_bytes);
    p.send->start();
    return;
  }
  const std::lock_guard lock(mutex_);
  Place& place = p.places[static_cast<std::size_t>(me_)];
  place.waits = true;
  place.response_bytes = 0;
  p.waiting.push_back(me_);
  respond_to_waiting(handler);
}

void Server::check_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

bool Server::arrived(const Post& p) {
  if (p.receive) return p.receive->complete();
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return !p.places[static_cast<std::size_t>(me_)].waits;
}

bool Server::responded(int handler) {
  Post& p = post(handler);
  if (!p.in_flight) return true;
  if (p.receive) p.receive->done();
  if (!arrived(p)) return false;
  if (p.receive) --asking_;
  p.in_flight = false;
  return true;
}

std::span<const std::byte> Server::wait(int handler, const char* what) {
  Post& p = post(handler);
  const Waiting waiting(what ? what : "a server's response", what ? -1 : comm_->world_rank(p.plan.owner));
  ++waiting_;
  for (Nap nap; p.in_flight && !arrived(p);)
    if (poller_ && look(p.receive.get()))
      nap.woken();
    else if (!arrived(p)) {
      check_failure();
      nap.nothing_happened();
    }
  --waiting_;
  responded(handler);
  return (owns(handler) ? p.places[static_cast<std::size_t>(me_)].message : p.in).span().first(p.response_bytes);
}

std::size_t CounterHandler::handle(int, std::span<std::byte> message) {
  const std::int64_t number = next_ < end_ ? next_++ : -1;
  std::memcpy(message.data(), &number, sizeof number);
  return sizeof number;
}

ServedCounter::ServedCounter(Server& server, int owner) : server_(server) {
  std::unique_ptr<CounterHandler> handler;
  if (server.rank() == owner) handler = std::make_unique<CounterHandler>();
  handler_ = handler.get();
  number_ = server.add({.owner = owner, .bytes = CounterHandler::kBytes}, std::move(handler));
}

void ServedCounter::restart(std::int64_t next, std::int64_t end) {
  if (handler_) server_.exclusively([&] { handler_->restart(next, end); });
}

std::int64_t ServedCounter::take() {
  server_.request(number_, CounterHandler::kBytes);
  std::int64_t number = -1;
  std::memcpy(&number, server_.wait(number_).data(), sizeof number);
  return number;
}

namespace {

class BarrierHandler : public RequestHandler {
 public:
  explicit BarrierHandler(int ranks) : here_(static_cast<std::size_t>(ranks)) {}
  std::size_t handle(int client, std::span<std::byte>) override {
    bool& here = here_[static_cast<std::size_t>(client)].value;
    if (leaving_ == 0) {
      if (!here) here = true, ++arrived_;
      if (arrived_ < static_cast<int>(here_.size())) return 0;
      leaving_ = std::exchange(arrived_, 0);
    }
    if (!here) return 0;  // of the next barrier, before this one has ended
    here = false;
    --leaving_;
    return 1;
  }

 private:
  struct Seat {
    bool value = false;
  };
  std::vector<Seat> here_;
  int arrived_ = 0, leaving_ = 0;
};

}  // namespace

ServedBarrier::ServedBarrier(Server& server, int owner) : server_(server) {
  std::unique_ptr<RequestHandler> handler;
  if (server.rank() == owner) handler = std::make_unique<BarrierHandler>(server.ranks());
  number_ = server.add({.owner = owner, .bytes = 1}, std::move(handler));
}

void ServedBarrier::wait() {
  server_.request(number_, 1);
  server_.wait(number_, "all ranks (barrier)");
}

ServedWorkQueue::ServedWorkQueue(Server& server, int owner, bool works)
    : next_unit_(server, owner), barrier_(server, owner), works_(works) {}

void ServedWorkQueue::start_range() {
  barrier_.wait();
  next_unit_.restart(0, kBehindAll);
  barrier_.wait();
}

std::int64_t ServedWorkQueue::next() { return works_ ? next_unit_.take() : kBehindAll; }

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "strategy/server.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "base/nap.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr int kMostDesks = 16000;  // two tags each
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

int Server::add(const DeskPlan& plan, std::unique_ptr<Desk> desk) {
  assert(!thread_.joinable() && (plan.owner == me_) == (desk != nullptr));
  const int number = static_cast<int>(desks_.size());
  if (number >= kMostDesks) throw Error("starting a parameter server: too many parts of the weights");
  Post post;
  post.plan = plan;
  post.desk = std::move(desk);
  if (plan.owner == me_) {
    const auto same = std::find_if(lanes_.begin(), lanes_.end(),
                                   [&](const Lane& l) { return plan.lane >= 0 && l.name == plan.lane; });
    post.lane = static_cast<int>(same - lanes_.begin());
    if (same == lanes_.end())
      lanes_.push_back({plan.lane, {}, std::vector<std::size_t>(static_cast<std::size_t>(comm_->size()))});
    lanes_[static_cast<std::size_t>(post.lane)].desks.push_back(number);
  }
  desks_.push_back(std::move(post));
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
  for (std::size_t i = 0; i < desks_.size(); ++i) {
    Post& p = desks_[i];
    if (p.plan.owner == me_)
      plan_owned(p, static_cast<int>(i));
    else if (me_ < clients(p))
      plan_asking(p, static_cast<int>(i));
  }
  std::size_t places = 0;
  for (const Post& p : desks_) places += p.places.size();
  leaving_.reserve(places);
  if (comm_->size() == 1) return;
  // Answers on their way out, one request per lane and client, drive_, and the answer that a thread waits for.
  const std::size_t most = places + lanes_.size() * static_cast<std::size_t>(comm_->size()) + 2;
  watch_ = comm_->plan_watch(most);
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
        // A thread that waits for an answer looks by itself, and serves others meanwhile.
        nap.nothing_happened(std::chrono::microseconds(asking_ > 0 && waiting_ == 0 ? 100 : 1000));
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    comm_->fail(failure_);
  }
}

// Whether there were requests; `answer`, if any, is looked at as well.
bool Server::look(Transfer* answer) {
  const std::unique_lock looking(looking_, std::try_to_lock);
  if (!looking) {  // another thread serves
    if (answer) answer->done();
    return false;
  }
  choose_messages(answer);
  watch_->look(messages_);
  const std::lock_guard lock(mutex_);
  bool found = listen_again();
  for (Lane& lane : lanes_)
    for (int c = 0; c < comm_->size(); ++c) found = look_at(lane, c) || found;
  return found;
}

// They stay as they are until the end of the look: only looks take in what has come.
void Server::choose_messages(Transfer* answer) {
  const std::lock_guard lock(mutex_);
  messages_.clear();
  for (const auto& [desk, client] : leaving_)
    messages_.push_back(post(desk).places[static_cast<std::size_t>(client)].send.get());
  for (const Lane& lane : lanes_)
    for (int c = 0; c < comm_->size(); ++c) {
      const Post& p = post(lane.desks[lane.next[static_cast<std::size_t>(c)]]);
      if (c == me_ || c >= clients(p)) continue;
      const Place& place = p.places[static_cast<std::size_t>(c)];
      if (!place.waits && !place.leaves) messages_.push_back(place.receive.get());
    }
  if (drive_) messages_.push_back(drive_.get());
  if (answer) messages_.push_back(answer);
}

// Request and answer share their memory, so the next request is let in when the answer has left.
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
    Post& p = post(lane.desks[next]);
    if (client == me_ || client >= clients(p)) return found;
    Place& place = p.places[static_cast<std::size_t>(client)];
    if (place.waits || place.leaves || !place.receive->complete()) return found;
    found = place.waits = true;
    p.waiting.push_back(client);
    answer_waiting(lane.desks[next]);
    next = (next + 1) % lane.desks.size();
  }
}

// In order of arrival, until nobody gets an answer any more.
void Server::answer_waiting(int desk) {
  Post& p = post(desk);
  for (std::size_t i = 0; i < p.waiting.size();) {
    const int client = p.waiting[i];
    const std::size_t bytes = p.desk->answer(client, p.places[static_cast<std::size_t>(client)].message.span());
    if (bytes == 0) {
      ++i;
      continue;
    }
    p.waiting.erase(p.waiting.begin() + static_cast<std::ptrdiff_t>(i));
    deliver(desk, client, bytes);
    i = 0;
  }
}

void Server::deliver(int desk, int client, std::size_t bytes) {
  Place& place = post(desk).places[static_cast<std::size_t>(client)];
  place.waits = false;
  if (client == me_) {
    place.answered = bytes;
    return;
  }
  place.leaves = true;
  place.send->start(bytes);
  leaving_.emplace_back(desk, client);
}

void Server::exclusively(const std::function<void()>& work) {
  const std::lock_guard lock(mutex_);
  work();
  for (std::size_t i = 0; i < desks_.size(); ++i)
    if (!desks_[i].waiting.empty()) answer_waiting(static_cast<int>(i));
}

std::span<std::byte> Server::message(int desk) {
  Post& p = post(desk);
  return owns(desk) ? p.places[static_cast<std::size_t>(me_)].message.span() : p.out.span();
}

void Server::ask(int desk, std::size_t answer_bytes) {
  Post& p = post(desk);
  assert(!p.under_way && answer_bytes > 0 && answer_bytes <= p.plan.bytes);
  p.under_way = true;
  p.answer_bytes = answer_bytes;
  if (!owns(desk)) {
    ++asking_;
    p.send->wait();  // has left, for its answer came
    p.receive->start(answer_bytes);
    p.send->start();
    return;
  }
  const std::lock_guard lock(mutex_);
  Place& place = p.places[static_cast<std::size_t>(me_)];
  place.waits = true;
  place.answered = 0;
  p.waiting.push_back(me_);
  answer_waiting(desk);
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

bool Server::answered(int desk) {
  Post& p = post(desk);
  if (!p.under_way) return true;
  if (p.receive) p.receive->done();
  if (!arrived(p)) return false;
  if (p.receive) --asking_;
  p.under_way = false;
  return true;
}

std::span<const std::byte> Server::wait(int desk) {
  Post& p = post(desk);
  ++waiting_;
  for (Nap nap; p.under_way && !arrived(p);)
    if (watch_ && look(p.receive.get()))
      nap.woken();
    else if (!arrived(p)) {
      check_failure();
      nap.nothing_happened();
    }
  --waiting_;
  answered(desk);
  return (owns(desk) ? p.places[static_cast<std::size_t>(me_)].message : p.in).span().first(p.answer_bytes);
}

std::size_t TicketDesk::answer(int, std::span<std::byte> message) {
  const std::int64_t number = next_ < end_ ? next_++ : -1;
  std::memcpy(message.data(), &number, sizeof number);
  return sizeof number;
}

Tickets::Tickets(Server& server, int owner) : server_(server) {
  std::unique_ptr<TicketDesk> desk;
  if (server.rank() == owner) desk = std::make_unique<TicketDesk>();
  desk_ = desk.get();
  number_ = server.add({.owner = owner, .bytes = TicketDesk::kBytes}, std::move(desk));
}

void Tickets::restart(std::int64_t next, std::int64_t end) {
  if (desk_) server_.exclusively([&] { desk_->restart(next, end); });
}

std::int64_t Tickets::take() {
  server_.ask(number_, TicketDesk::kBytes);
  std::int64_t number = -1;
  std::memcpy(&number, server_.wait(number_).data(), sizeof number);
  return number;
}

namespace {

class MeetingDesk : public Desk {
 public:
  explicit MeetingDesk(int ranks) : here_(static_cast<std::size_t>(ranks)) {}
  std::size_t answer(int client, std::span<std::byte>) override {
    bool& here = here_[static_cast<std::size_t>(client)].value;
    if (leaving_ == 0) {
      if (!here) here = true, ++arrived_;
      if (arrived_ < static_cast<int>(here_.size())) return 0;
      leaving_ = std::exchange(arrived_, 0);
    }
    if (!here) return 0;  // of the next meeting, before this one has ended
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

Meeting::Meeting(Server& server, int owner) : server_(server) {
  std::unique_ptr<Desk> desk;
  if (server.rank() == owner) desk = std::make_unique<MeetingDesk>(server.ranks());
  number_ = server.add({.owner = owner, .bytes = 1}, std::move(desk));
}

void Meeting::meet() {
  server_.ask(number_, 1);
  server_.wait(number_);
}

ServedLots::ServedLots(Server& server, int owner, int workers)
    : tickets_(server, owner), meeting_(server, owner), works_(server.rank() < workers) {}

void ServedLots::start_range() {
  meeting_.meet();
  tickets_.restart(0, kBehindAll);
  meeting_.meet();
}

std::int64_t ServedLots::next() { return works_ ? tickets_.take() : kBehindAll; }

}  // namespace tutti

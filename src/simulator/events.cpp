// SPDX-License-Identifier: Apache-2.0
#include "simulator/events.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tutti::simulator {

void Agenda::run(const std::function<bool()>& stop) {
  while (!events_.empty() && !(stop && stop())) {
    Act act = std::move(const_cast<Event&>(events_.top()).act);  // it is removed at once
    now_ = events_.top().time;
    events_.pop();
    act();
  }
}

void Core::run(double seconds, Agenda::Act then) {
  progress();
  jobs_.push_back({seconds, std::move(then)});
  busy_ += seconds;
  plan();
}

void Core::progress() {
  const double each = jobs_.empty() ? 0 : (agenda_.now() - since_) / static_cast<double>(jobs_.size());
  for (Job& j : jobs_) j.left -= each;
  since_ = agenda_.now();
}

void Core::plan() {
  const std::uint64_t mine = ++plan_;
  if (jobs_.empty()) return;
  const auto next = std::ranges::min_element(jobs_, {}, &Job::left);
  const double time = agenda_.now() + std::max(0.0, next->left) * static_cast<double>(jobs_.size());
  agenda_.at(time, [this, mine] {
    if (mine != plan_) return;
    progress();
    const auto done = std::ranges::min_element(jobs_, {}, &Job::left);
    Agenda::Act then = std::move(done->then);
    jobs_.erase(done);
    plan();
    then();
  });
}

void Port::send_part(Agenda& agenda, const LinkTimes& link) {
  busy_ = !sending_.empty();
  if (!busy_) return;
  Connection c = std::move(sending_.front());
  sending_.pop_front();
  Port& to = *c.to;
  Message& m = c.messages.front();
  const double part = m.part, leaves = agenda.now() + part / link.bandwidth;
  bytes_out += part;
  Agenda::Act arrived;
  if (--m.left == 0) arrived = std::move(m.arrived), c.messages.pop_front();
  if (!c.messages.empty()) sending_.push_back(std::move(c));
  // Its first byte is there after the latency, its last one not before all of it has left.
  agenda.at(agenda.now() + link.latency, [&agenda, &to, &link, part, leaves, then = std::move(arrived)]() mutable {
    to.in_free_ = std::max(std::max(to.in_free_, agenda.now()) + part / link.bandwidth, leaves + link.latency);
    to.bytes_in += part;
    if (then) agenda.at(to.in_free_, std::move(then));
  });
  agenda.at(leaves, [this, &agenda, &link] { send_part(agenda, link); });
}

void send(Agenda& agenda, Port& from, Port& to, double bytes, const LinkTimes& link, Agenda::Act arrived) {
  auto connection = std::ranges::find(from.sending_, &to, &Port::Connection::to);
  if (connection == from.sending_.end()) connection = from.sending_.insert(connection, {&to, {}});
  const int parts = std::max(1, static_cast<int>(std::ceil(bytes / link.part - 1e-6)));
  connection->messages.push_back({bytes / parts, parts, std::move(arrived)});
  if (!from.busy_) from.send_part(agenda, link);
}

}  // namespace tutti::simulator

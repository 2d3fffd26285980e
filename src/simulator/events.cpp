// SPDX-License-Identifier: Apache-2.0
#include "simulator/events.h"

#include <algorithm>
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

void send(Agenda& agenda, Port& from, Port& to, double bytes, const LinkTimes& link, Agenda::Act arrived) {
  const double begins = std::max(from.out_free, agenda.now());
  from.out_free = begins + bytes / link.bandwidth;
  from.bytes_out += bytes;
  // Its first byte is there after the latency, its last one not before all of it has left.
  agenda.at(begins + link.latency,
            [&agenda, &to, bytes, link, sent = from.out_free, then = std::move(arrived)]() mutable {
              to.in_free = std::max(std::max(to.in_free, agenda.now()) + bytes / link.bandwidth, sent + link.latency);
              to.bytes_in += bytes;
              agenda.at(to.in_free, std::move(then));
            });
}

}  // namespace tutti::simulator

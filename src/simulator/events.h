// SPDX-License-Identifier: Apache-2.0
// events.h -- discrete events: a clock with an agenda, cores that divide their time among jobs, and links that pass
// messages one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

namespace tutti::simulator {

class Agenda {
 public:
  using Act = std::function<void()>;
  double now() const { return now_; }
  void at(double time, Act act) { events_.push({time, number_++, std::move(act)}); }
  // Until nothing is left to do, or `stop` says so.
  void run(const std::function<bool()>& stop = {});

 private:
  struct Event {
    double time;
    std::uint64_t number;  // of events at one time the earlier one comes first
    Act act;
    bool operator<(const Event& o) const { return time != o.time ? time > o.time : number > o.number; }
  };
  std::priority_queue<Event> events_;
  double now_ = 0;
  std::uint64_t number_ = 0;
};

// Jobs on a core progress at the same speed.
class Core {
 public:
  explicit Core(Agenda& agenda) : agenda_(agenda) {}
  void run(double seconds, Agenda::Act then);
  double busy() const { return busy_; }  // seconds of work done

 private:
  struct Job {
    double left;
    Agenda::Act then;
  };
  void progress();
  void plan();

  Agenda& agenda_;
  std::vector<Job> jobs_;
  double since_ = 0, busy_ = 0;
  std::uint64_t plan_ = 0;  // an event of an older plan is void
};

// Both directions of a host's link.
struct Port {
  double out_free = 0, in_free = 0;
  double bytes_out = 0, bytes_in = 0;
};

struct LinkTimes {
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes per second
  double latency = 0;
};
// The message leaves when the ones before it have left, and is received likewise.
void send(Agenda&, Port& from, Port& to, double bytes, const LinkTimes&, Agenda::Act arrived);

}  // namespace tutti::simulator

// SPDX-License-Identifier: Apache-2.0
// events.h -- discrete events: a clock with an agenda, cores that divide their time among jobs, and links on
// which messages to several hosts take turns.
#pragma once

#include <cstdint>
#include <deque>
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

struct LinkTimes {
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes per second
  double latency = 0;
  // A longer message is cut into parts of about this size. A host sends one part to each receiver in turn, as TCP
  // divides a link among connections. Messages to one receiver stay in order.
  double part = std::numeric_limits<double>::infinity();
};

// Both directions of a host's link.
class Port {
 public:
  double bytes_out = 0, bytes_in = 0;

 private:
  struct Message {
    double part = 0;  // bytes
    int left = 1;     // parts
    Agenda::Act arrived;
  };
  struct Connection {
    Port* to = nullptr;
    std::deque<Message> messages;  // one at least
  };
  void send_part(Agenda&, const LinkTimes&);

  std::deque<Connection> sending_;  // the first one is next
  bool busy_ = false;
  double in_free_ = 0;

  friend void send(Agenda&, Port&, Port&, double, const LinkTimes&, Agenda::Act);
};
// Parts are received in the order in which they come. Ports and link must outlive the message.
void send(Agenda&, Port& from, Port& to, double bytes, const LinkTimes&, Agenda::Act arrived);

}  // namespace tutti::simulator

// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/activity.h"
#include "base/clock.h"
#include "base/stop_request.h"
#include "tutti/log.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using Type = WatchMessage::Type;

constexpr auto kBeat = 500ms;
constexpr double kPaused = 3;         // seconds between two looks: this process itself was stopped
constexpr double kLinkPatience = 60;  // seconds until ranks without a connection are named
constexpr auto kLeaving = 1s;         // for the others to leave after a failure

std::mutex limits_mutex;
WatchLimits limits_now;

WatchLimits limits() {
  const std::lock_guard lock(limits_mutex);
  return limits_now;
}

struct Peer {
  WatchLink link;
  WatchedRank seen;
  Clock::time_point heard = Clock::now(), closed_at = {};
  std::int64_t position = -1;
  bool answered = false;  // with its position
};

}  // namespace

void set_watch_limits(const WatchLimits& limits) {
  const std::lock_guard lock(limits_mutex);
  limits_now = limits;
}

// Rank 0 has a peer for every rank, its own included; the others have rank 0.
struct Watchdog::Impl {
  Impl(Communicator& world, Exits how)
      : me(world.rank()), ranks(world.size()), exits(how), wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    const auto hosts = hosts_of(world);
    peers.resize(me == 0 ? static_cast<std::size_t>(ranks) : 1);
    for (std::size_t r = 0; r < peers.size(); ++r)
      peers[r].seen.rank = static_cast<int>(r), peers[r].seen.host = hosts[r];
    myself.rank = me, myself.host = hosts[static_cast<std::size_t>(me)], myself.linked = true;
    if (me == 0 && ranks > 1) listener = std::make_unique<WatchListener>();
    if (listener) address = listener->address();
    if (ranks > 1) world.broadcast(0, std::as_writable_bytes(std::span(&address, 1)));
    thread = std::thread([this] { run(); });
  }
  ~Impl() {
    leaving = true;
    wake_up();
    thread.join();
    close(wake);
  }

  void wake_up() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = write(wake, &one, sizeof one);
  }

  bool end_others() {
    failed_here = true;
    wake_up();
    const auto start = Clock::now();
    while (!alone && Clock::now() - start < kLeaving) std::this_thread::sleep_for(2ms);
    return alone;
  }

  void run() {
    pthread_setname_np(pthread_self(), "watchdog");  // for top -H
    if (me != 0) connect();
    auto next_beat = Clock::now(), last = next_beat;
    while (!leaving) {
      wait(next_beat);
      const auto now = Clock::now();
      if (std::chrono::duration<double>(now - last).count() > kPaused) forgive(now);
      last = now;
      take_connections();
      for (Peer& p : peers) take_messages(p);
      look_at_myself();
      if (now >= next_beat) send_beats(), next_beat = now + kBeat;
      if (failed < 0) watch(), stop_if_asked();
      end_after_failure();
    }
    for (Peer& p : peers) {
      p.link.send(message(Type::bye));
      while (p.link.receive()) {  // unread bytes would make the system reset the connection
      }
    }
  }

  void connect() {
    const auto start = Clock::now();
    while (!leaving && seconds_since(start) < kLinkPatience && !peers[0].link.open()) {
      peers[0].link = connect_to_any(address, me, 1500ms);
      if (!peers[0].link.open()) std::this_thread::sleep_for(100ms);
    }
    peers[0].seen.linked = peers[0].link.open();
    peers[0].heard = Clock::now();
  }

  void wait(Clock::time_point until) {
    std::vector<pollfd> fds{{wake, POLLIN, 0}};
    if (const int fd = stop_request::wake_fd(); fd >= 0 && stop_request::signal() == 0) fds.push_back({fd, POLLIN, 0});
    if (listener && listener->fd() >= 0) fds.push_back({listener->fd(), POLLIN, 0});
    for (const WatchLink& l : strangers) fds.push_back({l.fd(), POLLIN, 0});
    for (const Peer& p : peers)
      if (p.link.open()) fds.push_back({p.link.fd(), POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    poll(fds.data(), fds.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 250)));
    std::uint64_t calls;
    [[maybe_unused]] const auto n = read(wake, &calls, sizeof calls);
  }

  // The whole job may have been stopped and goes on: nobody is to blame.
  void forgive(Clock::time_point now) {
    for (Peer& p : peers) p.heard = now, p.seen.beat.idle_ms = 0;
    progressed = now;
  }

  void take_connections() {
    if (!listener || listener->fd() < 0) return;
    for (WatchLink l = listener->accept(); l.open(); l = listener->accept()) strangers.push_back(std::move(l));
    for (WatchLink& l : strangers) {
      const auto hello = l.receive();
      if (!hello || hello->type != Type::hello || hello->session != address.session) continue;
      if (hello->rank < 1 || hello->rank >= ranks) continue;
      Peer& p = peers[static_cast<std::size_t>(hello->rank)];
      p.link = std::move(l);
      p.link.send(message(Type::welcome));
      p.seen.linked = true, p.seen.closed = false, p.heard = Clock::now();
    }
    std::erase_if(strangers, [](const WatchLink& l) { return !l.open(); });
  }

  void take_messages(Peer& p) {
    while (const auto m = p.link.receive()) {
      p.heard = Clock::now();
      switch (m->type) {
        case Type::beat:
          p.seen.beat = *m;
          break;
        case Type::bye:
          p.seen.done = true;
          break;
        case Type::stop:
          asked_by = static_cast<int>(m->number);
          break;
        case Type::hold: {
          WatchMessage answer = message(Type::position);
          answer.number = stop_request::hold();
          p.link.send(answer);
          break;
        }
        case Type::position:
          p.position = m->number, p.answered = true;
          break;
        case Type::decision:
          decide(m->number, m->signal);
          break;
        case Type::end:
          leave(static_cast<int>(m->number));
        case Type::failed:
          if (failed < 0) failed = m->rank;
          break;
        case Type::leave:
          exits.leaves();
          break;
        default:
          break;
      }
    }
    if (!p.seen.closed && p.seen.linked && !p.link.open()) p.seen.closed = true, p.closed_at = Clock::now();
  }

  void look_at_myself() {
    const Activity& a = activity();
    const std::uint64_t changes = a.changes.load(std::memory_order_relaxed);
    if (changes != seen_changes) seen_changes = changes, progressed = Clock::now();
    WatchMessage& b = myself.beat;
    b = message(Type::beat);
    b.epoch = a.epoch, b.minibatch = a.minibatch, b.peer = a.peer, b.bucket = a.bucket;
    b.waiting = a.waiting, b.training = a.training;
    b.idle_ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - progressed).count();
    std::strncpy(b.doing.data(), a.doing.load(), b.doing.size() - 1);
  }

  void send_beats() {
    for (Peer& p : peers) p.link.send(myself.beat);
  }

  std::vector<WatchedRank> view() {
    std::vector<WatchedRank> all;
    for (Peer& p : peers) {
      if (p.seen.rank == me) {
        all.push_back(myself);
        continue;
      }
      p.seen.silent = seconds_since(p.heard);
      p.seen.closed_for = p.seen.closed ? seconds_since(p.closed_at) : 0;
      p.seen.acknowledged = !p.link.open() || p.link.acknowledged();
      p.seen.why_closed = p.link.why_closed();
      all.push_back(p.seen);
    }
    return all;
  }

  void watch() {
    if (ranks == 1) return;
    const WatchLimits l = limits();
    auto all = view();
    for (WatchedRank& r : all)
      if (me != 0) r.beat.training = false;  // whether it is late is known to rank 0 alone
    // Rank 0 sees all; the others only that rank 0 is gone, and leave it to the launcher and to rank 0 to say why.
    if (const auto v = judge(all, l.stall, me == 0 ? l.closed : 3 * l.closed)) end_run(*v, all);
    if (const auto v = judge(all, l.warn, l.closed + 1e9))
      warn(*v);
    else
      warned = false;
    if (me == 0 && !named_missing && seconds_since(began) > kLinkPatience) name_missing();
  }

  // Not again before it has recovered.
  void warn(const WatchVerdict& v) {
    if (std::exchange(warned, true)) return;
    log::warning_of_rank(
        fmt::format("{}; the run ends when that lasts for stallTimeout = {:g} s", v.text, limits().stall));
  }

  void name_missing() {
    named_missing = true;
    std::string missing;
    for (const Peer& p : peers)
      if (p.seen.rank != 0 && !p.seen.linked) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", p.seen.rank);
    if (!missing.empty())
      log::warning(
          fmt::format("the watchdogs of ranks {} have not connected (a firewall?): if one of them freezes, "
                      "it is named only where all others wait for it, and a signal cannot stop the run in good order",
                      missing));
  }

  [[noreturn]] void end_run(const WatchVerdict& v, const std::vector<WatchedRank>& all) {
    std::string text;
    if (me == 0) {
      for (const WatchedRank& r : all) text += "  " + where_it_is(r) + "\n";
      text = fmt::format("The watchdog ends the run. Where the ranks are:\n{}{}", text, v.text);
    } else {
      text = fmt::format("The watchdog ends the run.\n  {}\n{}", where_it_is(myself), v.text);
    }
    text += fmt::format(
        "\nfix: look after that host and start again: the run goes on from its last checkpoint (exit "
        "code {})",
        static_cast<int>(v.code));
    for (Peer& p : peers) {
      WatchMessage end = message(Type::end);
      end.number = v.code;
      p.link.send(end);
    }
    // Rank 0 is gone, and all others know it: each says where it is, and the first of them ends all.
    std::fwrite((text + "\n").data(), 1, text.size() + 1, stderr);
    std::fflush(nullptr);
    if (me > 1) std::this_thread::sleep_for(1s + std::min(me, 20) * 50ms);
    std::thread([end = exits.ends, code = v.code] { end("", code); }).detach();
    leave(v.code);
  }

  // The launcher ends this process before; where it cannot, nobody else does.
  [[noreturn]] void leave(int code) {
    std::this_thread::sleep_for(3s);
    std::_Exit(code);
  }

  void decide(std::int64_t last, int signal) {
    stop_request::decide(last, signal);
    if (!std::exchange(stopping, true)) stop_since = Clock::now();
  }

  // A signal came to this rank, or rank 0 has heard of one.
  void stop_if_asked() {
    if (const int signal = stop_request::signal(); signal != 0 && !std::exchange(told, true)) {
      stop_since = Clock::now(), stopping = true;
      asked_by = signal;
      WatchMessage stop = message(Type::stop);
      stop.number = signal;
      if (me != 0) peers[0].link.send(stop);
    }
    if (me == 0 && asked_by != 0) agree();
    if (stopping && seconds_since(stop_since) > limits().grace) out_of_grace();
  }

  void agree() {
    if (stop_request::decided()) return;
    for (const Peer& p : peers)
      if (p.seen.rank != 0 && !p.seen.linked && !p.seen.done) return;
    if (!std::exchange(holding, true)) {
      peers[0].position = stop_request::hold(), peers[0].answered = true;
      for (Peer& p : peers) p.link.send(message(Type::hold));
    }
    std::int64_t last = -1;
    for (const Peer& p : peers) {
      if (!p.answered && !p.seen.done) return;
      last = std::max(last, p.position);
    }
    WatchMessage decision = message(Type::decision);
    decision.number = last, decision.signal = asked_by;
    for (Peer& p : peers) p.link.send(decision);
    decide(last, asked_by);
  }

  [[noreturn]] void out_of_grace() {
    const std::string text = fmt::format(
        "graceSeconds = {:g} have passed since the signal: ended without another checkpoint; start again to "
        "go on from the last one (exit code {})",
        limits().grace, static_cast<int>(kPreempted));
    std::fwrite((text + "\n").data(), 1, text.size() + 1, stderr);
    std::fflush(nullptr);
    std::thread([end = exits.ends] { end("", kPreempted); }).detach();
    leave(kPreempted);
  }

  // A failed rank tells rank 0, which tells the others. Rank 0 leaves when all are gone, and the failed rank is alone
  // when rank 0 is gone.
  void end_after_failure() {
    if (failed_here && failed < 0) {
      failed = me;
      if (me != 0) peers[0].link.send(message(Type::failed));
    }
    if (failed < 0) return;
    if (me != 0) {
      alone = peers[0].seen.closed;
      return;
    }
    const auto is_other = [this](const Peer& p) { return p.seen.rank != 0 && p.seen.rank != failed; };
    if (!std::exchange(told_to_leave, true))
      for (Peer& p : peers)
        if (is_other(p)) p.link.send(message(Type::leave));
    if (std::any_of(peers.begin(), peers.end(), [&](const Peer& p) { return is_other(p) && !p.seen.closed; })) return;
    if (failed != 0) exits.leaves();
    alone = true;
  }

  WatchMessage message(Type type) const {
    WatchMessage m;
    m.session = address.session, m.type = type, m.rank = me;
    return m;
  }

  const int me, ranks;
  const Exits exits;
  const int wake;
  WatchAddress address;
  std::unique_ptr<WatchListener> listener;
  std::vector<WatchLink> strangers;
  std::vector<Peer> peers;
  WatchedRank myself;
  std::uint64_t seen_changes = 0;
  Clock::time_point progressed = Clock::now(), stop_since = {};
  const Clock::time_point began = Clock::now();
  int asked_by = 0;
  int failed = -1;  // the rank that has failed, as rank 0 and it know
  bool warned = false, named_missing = false, told = false, holding = false, stopping = false, told_to_leave = false;
  std::atomic<bool> leaving{false}, failed_here{false}, alone{false};
  std::thread thread;
};

Watchdog::Watchdog(Communicator& world, Exits exits) : impl_(std::make_unique<Impl>(world, exits)) {}
Watchdog::~Watchdog() = default;
bool Watchdog::end_others() { return impl_->end_others(); }

}  // namespace tutti

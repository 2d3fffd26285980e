// SPDX-License-Identifier: Apache-2.0
#include "launch/supervisor.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/exit_codes.h"
#include "base/launcher.h"
#include "launch/cause.h"
#include "launch/hosts.h"
#include "launch/mpiexec_line.h"
#include "launch/process.h"
#include "launch/traps.h"

namespace tutti::launch {
namespace {

using namespace std::chrono_literals;

constexpr double kSoon = 10;          // seconds: an attempt that ends earlier did not get far
constexpr double kHangs = 6;          // after the end was announced, or without ranks, until mpiexec is killed
constexpr double kLookForHosts = 10;  // between two looks whether a host is back
constexpr double kLookAtStart = 20;   // between two looks whether the hosts are there while an attempt starts
constexpr double kRest = 60;          // that a host which failed twice in a row is left out

std::atomic<int> signals{0}, last_signal{0};
void on_signal(int number) { last_signal = number, ++signals; }

void say(const std::string& text) {
  const std::string line = fmt::format("launch {:%H:%M:%S}: {}\n", local_time(), text);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

struct HostState {
  Host host;
  std::string own_name = {};  // messages of the run have it; "" = not known yet
  bool away = false;
  int failures = 0;  // in a row
  int missed = 0;    // looks at the start of an attempt in a row
  Clock::time_point since = {};
};

struct Attempt {
  std::string text;  // one line of the story
};

class Supervisor {
 public:
  explicit Supervisor(Options options) : o_(std::move(options)) {
    for (const Host& h : o_.hosts) hosts_.push_back({h});
    if (o_.ranks == 0 && o_.hosts.empty()) o_.ranks = default_ranks(cores_here());
    check_min_ranks(o_);
    if (o_.min_ranks == 0) o_.min_ranks = o_.ranks;
  }

  int run() {
    for (;;) {
      if (!choose_hosts()) return kPreempted;
      int code = attempt();
      // Its ranks may not all have been ready for the signal: it was their end.
      if (ended_early_ || (asked_ && code == 128 + SIGUSR1)) code = kPreempted;
      const Judgement verdict = judge(code);
      tell(code, verdict);
      if (verdict.next != Next::start_again) return finish(code, verdict);
      if (!planned_ && ++restarts_ > o_.restarts) return finish(code, {Next::give_up, restarts_left()});
    }
  }

 private:
  std::string restarts_left() const {
    return o_.restarts == 0 ? "it is not started again without --restarts"
                            : fmt::format("all {} restarts are used up", o_.restarts);
  }

  // The hosts of the next attempt; waits until there are enough. False if a signal came.
  bool choose_hosts() {
    for (bool told = false; signals == 0; std::this_thread::sleep_for(2s)) {
      used_.clear();
      int slots = 0;
      for (HostState& h : hosts_) {
        if (attempts_ > 0 || hosts_.size() > 1) look_at(h);
        if (h.away) continue;
        used_.push_back(h.host);
        slots += h.host.slots;
      }
      ranks_ = hosts_.empty() ? o_.ranks : std::min(o_.ranks, slots);
      if (ranks_ >= o_.min_ranks) return true;
      if (!std::exchange(told, true))
        say(fmt::format("{} ranks at least are wanted and the hosts at hand take {}: waiting for {}", o_.min_ranks,
                        ranks_, away()));
    }
    return false;
  }

  // A host that failed twice in a row rests, where enough others are left.
  void look_at(HostState& h) {
    const bool rests = h.failures >= 2 && seconds_since(h.since) < kRest && ranks_without(h) >= o_.min_ranks;
    const bool away = rests || !is_reachable(h.host.name, o_, &h.own_name);
    if (away != h.away)
      say(away ? fmt::format("host {} is left out: {}", h.host.name,
                             rests ? "it failed twice in a row" : unreachable_text(h.host.name))
               : fmt::format("host {} is back", h.host.name));
    if (h.away && !away) h.failures = 0;
    h.away = away;
  }

  int ranks_without(const HostState& without) const {
    int slots = 0;
    for (const HostState& h : hosts_)
      if (&h != &without && !h.away) slots += h.host.slots;
    return std::min(slots, o_.ranks);
  }

  std::string away() const {
    std::string names;
    for (const HostState& h : hosts_)
      if (h.away) names += (names.empty() ? "" : ", ") + h.host.name;
    return names;
  }

  MpiexecLine line_of_attempt() {
    MpiexecLine line = mpiexec_line(o_, ranks_, used_);
    if (!begun_.empty()) line.variables.emplace_back(launcher::kBegun, begun_);
    line.variables.emplace_back(
        launcher::kStory,
        story_.empty() ? "attempt 1" : fmt::format("attempt {}; before: {}", attempts_, story_.back()));
    return line;
  }

  int attempt() {
    ++attempts_;
    for (HostState& h : hosts_) h.missed = 0;
    cause_ = {}, planned_ = trains_ = connected_ = asked_ = ended_early_ = false, passed_on_ = 0;
    const MpiexecLine line = line_of_attempt();
    if (attempts_ == 1)
      for (const std::string& note : line.notes) say(note);
    say(fmt::format("attempt {} on {} rank{}{}{}: {}", attempts_, ranks_, ranks_ == 1 ? "" : "s",
                    used_.empty() ? "" : " of " + launch::to_string(used_), away().empty() ? "" : " without " + away(),
                    to_string(line)));
    start_ = Clock::now();
    Process process(line.words, Process::Output::lines, line.variables, Process::kInstallMpi,
                    Process::Terminate::blocked);
    bool had_ranks = false;
    auto alone_since = start_, ending_since = start_, next_look = start_ + 2s;
    while (process.running()) {
      process.read(100, [&](bool error, const std::string& text) { pass_on(error, text); });
      pass_signals(process);
      if (!cause_.ending) ending_since = Clock::now();
      if (seconds_since(ending_since) > kHangs) end_hanging(process, "it was to end");
      if (Clock::now() < next_look) continue;
      next_look = Clock::now() + 1s;
      const bool ranks = process.has_children();
      had_ranks = had_ranks || ranks;
      if (ranks || !had_ranks) alone_since = Clock::now();
      if (seconds_since(alone_since) > kHangs) end_hanging(process, "all its ranks have ended");
      const auto before = Clock::now();
      take_hosts_back(process);
      look_at_start(process);
      const auto looked = Clock::now() - before;  // meanwhile nothing was read
      alone_since += looked, ending_since += looked;
    }
    process.read(0, [&](bool error, const std::string& text) { pass_on(error, text); });
    return process.exit_code();
  }

  // Whether the line is for the launcher alone.
  bool hears(const std::string& line) {  // mpiexec may put a rank or a time in front
    const bool trains = line.ends_with(launcher::kTrains);
    if (line.ends_with(launcher::kConnected)) return connected_ = true;
    if (trains || line.ends_with(launcher::kTrained)) return trains_ = trains, true;
    const auto at = line.find(launcher::kFromScratch);
    if (at == line.npos) return false;
    begun_ += (begun_.empty() ? "" : "\n") + line.substr(at + launcher::kFromScratch.size());
    return true;
  }

  void pass_on(bool error, const std::string& text) {
    if (hears(text.substr(0, text.find_last_not_of("\r\n") + 1))) return;
    std::FILE* const to = error ? stderr : stdout;
    std::fwrite(text.data(), 1, text.size(), to);
    std::fflush(to);
    note_cause(text, cause_);
  }

  // Open MPI passes SIGUSR1 on, while SIGTERM makes it kill the ranks after a second.
  void pass_signals(Process& process) {
    for (; passed_on_ < signals; ++passed_on_) {
      if (passed_on_ == 0 && trains_) {
        say(fmt::format("signal {}: the run makes a checkpoint and ends; a second signal ends it at once",
                        last_signal.load()));
        ask_to_end(process);
      } else if (passed_on_ == 0) {
        say(fmt::format("signal {}: ended at once, as no training is under way", last_signal.load()));
        ended_early_ = process.running();
        process.kill_tree();
      } else {
        process.kill_tree();
      }
    }
  }

  // Once: a second signal would end the run without a checkpoint.
  void ask_to_end(Process& process) {
    if (!std::exchange(asked_, true)) process.send(SIGUSR1);
  }

  void end_hanging(Process& process, const char* why) {
    say(fmt::format("mpiexec hangs, though {}: killed", why));
    if (cause_.text.empty()) cause_.text = "mpiexec hung";
    process.kill_tree();
  }

  // mpiexec and MPI_Init wait for a host that is cut off, and the watchdogs are connected after that. The checks take
  // at most a tenth of the time; one that fails may be due to a busy host.
  void look_at_start(Process& process) {
    if (connected_ || cause_.ending || seconds_since(std::max(looked_, start_)) < std::max(kLookAtStart, 10 * took_))
      return;
    const auto began = Clock::now();
    const HostState* lost = nullptr;
    for (HostState& h : hosts_) {
      if (signals > passed_on_) return;
      if (h.away) continue;
      h.missed = is_reachable(h.host.name, o_) ? 0 : h.missed + 1;
      if (h.missed >= 2) lost = &h;
    }
    looked_ = Clock::now(), took_ = seconds_since(began);
    process.read(0, [&](bool error, const std::string& text) { pass_on(error, text); });
    if (!lost || connected_ || !process.running()) return;
    cause_ = {fmt::format("host {} cannot be reached", lost->host.name), lost->host.name, true};
    say(fmt::format("{} while the run starts: killed", cause_.text));
    process.kill_tree();
  }

  // While a host is away: once it is back, the run saves its state and goes on with all ranks.
  void take_hosts_back(Process& process) {
    if (planned_ || !trains_ || away().empty() || seconds_since(looked_) < kLookForHosts ||
        seconds_since(start_) < kLookForHosts)
      return;
    looked_ = Clock::now();
    for (HostState& h : hosts_) {
      if (!h.away) continue;
      if (h.failures >= 2 && seconds_since(h.since) < kRest) continue;
      if (!is_reachable(h.host.name, o_, &h.own_name)) continue;
      planned_ = true;
      say(fmt::format("host {} is back: the run makes a checkpoint and goes on with it", h.host.name));
      ask_to_end(process);
      return;
    }
  }

  Judgement judge(int code) {
    const bool soon = seconds_since(start_) < kSoon;
    alike_ = soon && code == last_code_ ? alike_ + 1 : 1;
    last_code_ = soon ? code : -1;
    for (HostState& h : hosts_) {
      if (h.away) continue;  // had no part in this attempt
      const bool named = is_same_host(cause_.host, h.host.name) || is_same_host(cause_.host, h.own_name);
      const bool failed = code != kDone && code != kPreempted && named;
      h.failures = failed ? h.failures + 1 : 0;
      if (failed) h.since = Clock::now();
    }
    if (code != kPreempted) planned_ = false;
    // The first configuration mistake is one; later it is the lock of an attempt that has not ended on another host.
    if (code == kWrongConfiguration && attempts_ > 1 && alike_ == 1) return {Next::start_again, "refused to start"};
    return judge_exit(code, signals > 0, alike_);
  }

  void tell(int code, const Judgement& verdict) {
    std::string why = verdict.text;
    if (planned_)
      why = "stopped to take a host back";
    else if (code != kDone && code != kPreempted && !cause_.text.empty())
      why = cause_.text;
    const std::string line = fmt::format("attempt {} on {} ranks, {:.0f} s, exit code {}: {}", attempts_, ranks_,
                                         seconds_since(start_), code, why);
    say(line);
    story_.push_back(line);
  }

  int finish(int code, const Judgement& verdict) {
    if (verdict.next == Next::give_up) say(fmt::format("given up: {}", verdict.text));
    if (story_.size() > 1) {
      say(fmt::format("the story of {} attempts:", story_.size()));
      for (const std::string& line : story_) say("  " + line);
    }
    return code;
  }

  Options o_;
  std::vector<HostState> hosts_;
  std::vector<Host> used_;
  std::vector<std::string> story_;
  std::string begun_;  // models, a line each
  Cause cause_;
  Clock::time_point start_ = {}, looked_ = {};
  double took_ = 0;  // the last look at start, seconds
  int ranks_ = 0, attempts_ = 0, restarts_ = 0, passed_on_ = 0, alike_ = 0, last_code_ = -1;
  bool planned_ = false;      // asked to end, to take hosts back
  bool connected_ = false;    // the watchdogs of this attempt
  bool trains_ = false;       // SIGUSR1 ends the attempt with a checkpoint
  bool asked_ = false;        // SIGUSR1 was sent
  bool ended_early_ = false;  // killed because of a signal while it did not train
};

}  // namespace

int run(int argc, const char* const* argv) {
  try {
    Options o = parse({argv, argv + argc}, true);
    if (o.help) return std::fputs(usage().c_str(), stdout), 0;
    if (!o.answer.empty()) return answer_probe(o.answer);
    struct sigaction action {};
    action.sa_handler = on_signal;
    for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaction(number, &action, nullptr);
    return Supervisor(std::move(o)).run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return kWrongConfiguration;
  }
}

}  // namespace tutti::launch

// SPDX-License-Identifier: Apache-2.0
#include "sweep/runner.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/exit_codes.h"
#include "base/host.h"
#include "launch/process.h"
#include "sweep/result.h"

namespace tutti::sweep {
namespace {

namespace fs = std::filesystem;
using launch::Process;

std::atomic<int> signals{0};
void count_signal(int) { ++signals; }

// Whether a training was stopped in good order; elsewhere a signal ends a run with the same code.
bool has_saved(const std::string& log) {
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);)
    if (line.find("Stopped by SIG") != line.npos) return true;
  return false;
}

void say(const std::string& text) {
  const std::string line = fmt::format("sweep {:%H:%M:%S}: {}\n", local_time(), text);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

std::string settings_text(const Run& run) {
  std::string text;
  for (const auto& [key, value] : run.values) {
    const auto dot = key.rfind('.');
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", dot == key.npos ? key : key.substr(dot + 1), value);
  }
  return text;
}

// The cores of this process, divided among as many runs as there are at once.
std::vector<cpu_set_t> divide_cores(const Plan& plan) {
  cpu_set_t mine;
  sched_getaffinity(0, sizeof mine, &mine);
  std::vector<int> cores;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &mine)) cores.push_back(c);
  const auto most = std::max<std::size_t>(1, cores.size() / static_cast<std::size_t>(plan.ranks));
  const auto slots = plan.parallel > 0 ? static_cast<std::size_t>(plan.parallel) : most;
  std::vector<cpu_set_t> sets(slots);
  for (std::size_t s = 0; s < slots; ++s) {
    CPU_ZERO(&sets[s]);
    // More runs than cores share them.
    const std::size_t each = std::max<std::size_t>(1, cores.size() / slots);
    for (std::size_t k = 0; k < each; ++k) CPU_SET(cores[(s * each + k) % cores.size()], &sets[s]);
  }
  return sets;
}

// A lock that the processes of a run inherit, and so hold as long as one of them lives, whatever becomes of this one.
class RunLock {
 public:
  explicit RunLock(const std::string& folder)
      : folder_(folder), fd_(open((folder + "/.lock").c_str(), O_RDWR | O_CREAT, 0666)) {}
  ~RunLock() {
    if (fd_ >= 0) close(fd_);
  }
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  // False if another process holds it. Throws Error if it cannot be asked for.
  bool held() const {
    if (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0) return true;
    if (fd_ >= 0 && errno == EWOULDBLOCK) return false;
    throw Error(fmt::format("sweep: '{}/.lock' cannot be locked: {}\nfix: name an output on another file system",
                            folder_, std::strerror(errno)));
  }

 private:
  const std::string folder_;
  int fd_;
};

// A run under way.
struct Active {
  Job job;
  const Run* run = nullptr;
  std::size_t slot = 0;
  std::unique_ptr<Process> process = {};
  Clock::time_point start = {};
  bool whole = true;  // nothing is left to do after it
  std::ofstream output = {};
  std::string error = {}, last = {};  // lines of its output: the first error; the last line that is no fix
};

class Pool {
 public:
  Pool(const Plan& plan, const std::vector<Run>& runs) : plan_(plan), runs_(runs), cores_(divide_cores(plan)) {
    for (std::size_t s = 0; s < cores_.size(); ++s) free_.push_back(cores_.size() - 1 - s);
  }

  bool carry_out(const std::vector<Job>& jobs) {
    std::deque<Job> open;
    for (const Job& job : jobs)
      if (!is_done(plan_, runs_, job)) open.push_back(job);
    if (open.size() < jobs.size())
      say(fmt::format("{} of {} runs were done before", jobs.size() - open.size(), jobs.size()));
    const auto ends = [&] { return signals > 0 || wrong_; };
    while (!active_.empty() || (!open.empty() && !ends())) {
      for (std::size_t tries = open.size(); !ends() && tries > 0 && !free_.empty(); --tries) {
        const Job job = open.front();
        open.pop_front();
        if (!begin(job)) open.push_back(job);
      }
      if (active_.empty() && !open.empty()) usleep(100'000);  // what a killed sweep left behind is ending
      if (ends() && !stopping_) stop_all();
      if (signals > 1)
        for (Active& a : active_) a.process->kill_tree();
      for (Active& a : active_) look_at(a);
      std::erase_if(active_, [](const Active& a) { return !a.process; });
    }
    if (wrong_) throw *wrong_;
    return signals == 0 && !stopped_;
  }

 private:
  // False while the run of an earlier sweep that was killed still saves its state.
  bool begin(const Job& job) {
    fs::create_directories(runs_[job.run].folder);
    const RunLock lock(runs_[job.run].folder);
    if (!lock.held()) return false;
    Active a{.job = job, .run = &runs_[job.run], .slot = free_.back(), .start = Clock::now()};
    std::vector<std::string> words{launch::own_path()};
    if (plan_.ranks > 1)
      for (const std::string& w : {std::string("launch"), std::string("-n"), std::to_string(plan_.ranks)})
        words.push_back(w);
    std::error_code ignored;
    fs::remove(a.run->folder + "/ended", ignored);  // of a run that failed before
    RunWords more = words_of(plan_, *a.run, job.until);
    words.insert(words.end(), more.words.begin(), more.words.end());
    a.whole = more.whole;
    write_file(a.run->folder + "/command",
               [&](std::ostream& out) { out << fmt::format("{}\n", fmt::join(words, "\n")); });
    cpu_set_t before;
    sched_getaffinity(0, sizeof before, &before);
    sched_setaffinity(0, sizeof before, &cores_[a.slot]);  // inherited by the run
    try {
      a.process = std::make_unique<Process>(words, Process::Output::lines);
    } catch (...) {
      sched_setaffinity(0, sizeof before, &before);
      throw;
    }
    sched_setaffinity(0, sizeof before, &before);
    a.output.open(a.run->output());
    free_.pop_back();
    say(fmt::format("{} begins ({}): {}", a.run->name,
                    job.until > 0 ? fmt::format("to epoch {}", job.until) : "to the end", settings_text(*a.run)));
    active_.push_back(std::move(a));
    return true;
  }

  void stop_all() {
    say(fmt::format("stops: {} runs save their state; the same command goes on later", active_.size()));
    for (Active& a : active_) a.process->send(SIGTERM);
    stopping_ = true;
  }

  void look_at(Active& a) {
    const auto keep = [&](bool, const std::string& line) {
      a.output << line;
      if (line.find_first_not_of(" \r\n") == line.npos) return;
      const std::string text = line.substr(0, line.find_last_not_of("\r\n") + 1);
      if (a.error.empty() && text.find("error: ") != text.npos) a.error = text;
      if (!text.starts_with("fix: ")) a.last = text;
    };
    const bool running = a.process->running();
    a.process->read(running ? 50 / static_cast<int>(active_.size()) + 1 : 0, keep);
    a.output.flush();
    if (!running) end(a);
  }

  void end(Active& a) {
    const int code = a.process->exit_code();
    const double seconds = seconds_since(a.start), all_seconds = add_seconds(*a.run, seconds);
    a.process.reset();
    free_.push_back(a.slot);
    const LogResult log = read_log(a.run->log());
    if (code == kPreempted && has_saved(a.run->log()))
      return stopped_ = true, say(fmt::format("{} has saved its state", a.run->name));
    // Outside of a training, or before it had a handler of signals.
    if (stopping_ && (code == kPreempted || code == 128 + SIGTERM || code == 128 + SIGINT))
      return stopped_ = true, say(fmt::format("{} was stopped before it began to train", a.run->name));
    if (signals > 1 && code != kDone) return say(fmt::format("{} was killed", a.run->name));
    if (code != kDone) {
      write_ended(*a.run, {code, all_seconds});
      return say(fmt::format("{} failed with code {}: {}; see {}{}", a.run->name, code,
                             a.error.empty() ? a.last : a.error, a.run->output(),
                             fs::exists(a.run->log()) ? " and " + a.run->log() : ""));
    }
    if (a.whole) write_ended(*a.run, {code, all_seconds});
    try {
      check_objective(plan_, *a.run, log);
    } catch (const ConfigError& e) {
      wrong_ = e;  // the others save their state
      return;
    }
    const auto s = score(log, plan_.objective, a.job.until);
    say(fmt::format("{} {} in {:.1f} s{}", a.run->name, a.whole ? "ends" : "pauses", seconds,
                    s ? fmt::format(": {} {:.6g}", s->name, s->value) : ""));
  }

  const Plan& plan_;
  const std::vector<Run>& runs_;
  std::vector<cpu_set_t> cores_;
  std::vector<std::size_t> free_;
  std::vector<Active> active_;
  std::optional<ConfigError> wrong_;
  bool stopping_ = false;  // runs under way have got SIGTERM
  bool stopped_ = false;   // a run was stopped, and goes on when the sweep is started again
};

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = count_signal;
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaction(number, &action, nullptr);
}

bool is_done(const Plan& plan, const std::vector<Run>& runs, const Job& job) {
  const Run& run = runs[job.run];
  if (const auto ended = read_ended(run)) return ended->code == kDone;
  if (job.until == 0) return false;
  const LogResult log = read_log(run.log());
  const auto early = log.ended_early.find(log.training);
  if (early != log.ended_early.end() && early->second >= job.until) return true;
  const int epochs = finished_epochs(log);
  return epochs >= job.until || (epochs > 0 && epochs >= words_of(plan, run, job.until).epochs);
}

bool run_here(const Plan& plan, const std::vector<Run>& runs, const std::vector<Job>& jobs) {
  return Pool(plan, runs).carry_out(jobs);
}

bool run_in_slurm(const Plan& plan, const std::vector<Run>& runs, const std::vector<Job>& jobs) {
  std::vector<std::size_t> open;
  for (const Job& job : jobs)
    if (!is_done(plan, runs, job)) open.push_back(job.run);
  if (open.empty()) return true;
  const std::string script = plan.output + "/array.sh";
  fs::create_directories(plan.output);
  write_file(script, [&](std::ostream& out) {
    out << "#!/bin/sh\n#SBATCH --job-name=sweep\n#SBATCH --output=" << plan.output
        << "/slurm-%a.out\n#SBATCH --ntasks=" << plan.ranks << "\n#SBATCH --signal=B:USR1@60\n";
    for (const std::string& option : plan.slurm) out << "#SBATCH " << option << "\n";
    out << fmt::format("exec '{}' sweep '{}' --only \"$SLURM_ARRAY_TASK_ID\"{}\n", launch::own_path(), plan.file,
                       jobs[0].until > 0 ? fmt::format(" --until {}", jobs[0].until) : "");
  });
  const std::string array =
      fmt::format("{}{}", fmt::join(open, ","), plan.parallel > 0 ? fmt::format("%{}", plan.parallel) : "");
  say(fmt::format("{} runs as an array of Slurm: sbatch --wait --array={} {}", open.size(), array, script));
  Process process({"sbatch", "--wait", "--array=" + array, script}, Process::Output::lines, {},
                  "run this where Slurm's commands are installed, or leave out --slurm");
  bool submitted = false;
  const auto pass_on = [&](bool, const std::string& line) {
    submitted = submitted || line.starts_with("Submitted batch job");
    std::fputs(line.c_str(), stderr);
  };
  while (process.running() && signals == 0) process.read(200, pass_on);
  process.read(0, pass_on);
  if (signals > 0) return false;
  if (!submitted && process.exit_code() != 0)
    throw Error(
        fmt::format("sweep: sbatch ended with code {} and submitted nothing\nfix: see its message above, and "
                    "the list 'slurm' of the sweep",
                    process.exit_code()));
  const auto left = std::ranges::count_if(
      jobs, [&](const Job& job) { return !is_done(plan, runs, job) && !read_ended(runs[job.run]); });
  if (left > 0)
    say(fmt::format("the array has ended, but {} of its runs have not: start the same command again to continue them",
                    left));
  return left == 0;
}

}  // namespace tutti::sweep

// SPDX-License-Identifier: Apache-2.0
#include "base/stop_request.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <limits>
#include <mutex>

#include "base/activity.h"

namespace tutti {
namespace {

constexpr std::array<int, 3> kSignals = {SIGTERM, SIGINT, SIGUSR1};
// One request may arrive twice: as the same signal, from a launcher and a terminal, or as a scheduler's SIGTERM to all
// processes of a job and as SIGUSR1 from trainer launch, which may just be waiting for a host. Nanoseconds.
constexpr std::int64_t kSameSignal = 50'000'000, kOtherSignal = 10'000'000'000;

std::atomic<int> got{0}, fd{-1}, decided_by{0}, code_when_saved{-1}, code_outside{0};
std::atomic<bool> says_outside{false};
std::atomic<std::int64_t> got_at{0};
std::array<struct sigaction, kSignals.size()> before;

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> asked{-1};  // by the training thread
std::atomic<std::int64_t> last{kNever};
std::atomic<bool> holding{false};
std::mutex mutex;
std::condition_variable released;

std::int64_t now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

void on_signal(int number) {
  const int saved = errno;
  std::int64_t none = 0;
  if (got_at.compare_exchange_strong(none, now())) {
    got = number;
    const std::uint64_t one = 1;
    if (const int wake = fd.load(); wake >= 0) [[maybe_unused]]
      const auto n = write(wake, &one, sizeof one);
  } else if (const int code = code_when_saved; code >= 0) {
    _exit(code);
  } else if (now() - got_at > (number == got ? kSameSignal : kOtherSignal)) {
    constexpr char text[] = "A second signal: ended at once, without a checkpoint.\n";
    [[maybe_unused]] const auto n = write(STDERR_FILENO, text, sizeof text - 1);
    _exit(128 + number);
  }
  errno = saved;
}

void end_on_signal(int) {
  constexpr char text[] = "Stopped by a signal outside of a training: there is nothing to save.\n";
  if (says_outside) [[maybe_unused]]
    const auto n = write(STDERR_FILENO, text, sizeof text - 1);
  _exit(code_outside);
}

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : kSignals) sigaddset(&signals, number);
  return signals;
}

// Shells start background commands with SIGINT ignored: it stays so.
void handle(int number, void (*handler)(int), struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  action.sa_mask = stop_signals();
  sigaction(number, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
}

// Blocks or unblocks the signals in this thread and in OpenMP's threads. While they are blocked, a thread that existed
// before takes them: the watchdog's. The matrix products of oneDNN 2.6 for AVX-512 use the stack pointer as a data
// pointer, and a signal handler that interrupts them overwrites the data.
void mask_in_computing_threads(int how) {
  const sigset_t signals = stop_signals();
#pragma omp parallel
  pthread_sigmask(how, &signals, nullptr);
}

}  // namespace

void end_on_signals(int exit_code, bool says) {
  code_outside = exit_code, says_outside = says;
  struct sigaction ignored {};
  for (const int number : kSignals) handle(number, end_on_signal, ignored);
  // A launcher may have them blocked (launch::Process), and leave them so for its ranks.
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

// What was asked and decided in the training before stays: it stops this one, too.
StopSignals::StopSignals() {
  mask_in_computing_threads(SIG_BLOCK);
  fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  for (std::size_t i = 0; i < kSignals.size(); ++i) handle(kSignals[i], on_signal, before[i]);
}

// A run that stops has one way to end: the same signal may come again, passed on by a launcher.
StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size() && decided_by == 0; ++i) sigaction(kSignals[i], &before[i], nullptr);
  mask_in_computing_threads(SIG_UNBLOCK);
  if (const int wake = fd.exchange(-1); wake >= 0) close(wake);
}

namespace stop_request {

int signal() { return got; }
int deciding_signal() { return decided_by; }
int wake_fd() { return fd; }
bool decided() { return last != kNever; }
void state_saved(int exit_code) { code_when_saved = exit_code; }

// The store and the load must not change places: either the watchdog sees the position, or this thread sees the hold.
bool admits(std::int64_t position) {
  asked.store(position);
  if (holding.load()) {
    const Waiting waiting("the decision where to stop");
    std::unique_lock lock(mutex);
    released.wait(lock, [] { return !holding.load(); });
  }
  return position <= last.load();
}

std::int64_t hold() {
  holding.store(true);
  return asked.load();
}

void decide(std::int64_t last_position, int signal) {
  {
    const std::lock_guard lock(mutex);
    if (decided_by == 0) last = last_position, decided_by = signal;
    holding = false;
  }
  released.notify_all();
}

void release() {
  {
    const std::lock_guard lock(mutex);
    holding = false;
  }
  released.notify_all();
}

}  // namespace stop_request
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "reader/hdf5/crash_guard.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "tutti/error.h"

namespace tutti::reader {
namespace {

constexpr std::array<int, 4> kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
constexpr unsigned kPatience = 30;  // seconds; a slow disk is no damage

thread_local const char* reading = nullptr;
std::array<struct sigaction, kCrashes.size()> before;

// Only what may be called in a handler.
void on_crash(int number) {
  for (std::size_t i = 0; i < kCrashes.size(); ++i)
    if (kCrashes[i] == number) sigaction(number, &before[i], nullptr);
  if (!reading) return;
  const auto say = [](const char* text) {
    [[maybe_unused]] const auto n = write(STDERR_FILENO, text, std::strlen(text));
  };
  say("The HDF5 library crashed while it read '");
  say(reading);
  say("': the file is damaged.\nfix: write that file again, or remove it from the list\n");
}  // and the instruction runs once more

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_handler = on_crash;
    action.sa_flags = SA_NODEFER;
    for (std::size_t i = 0; i < kCrashes.size(); ++i) sigaction(kCrashes[i], &action, &before[i]);
  });
}

using Version = std::tuple<off_t, time_t, long>;

// The signal that ends a child that runs it; 0 = none of a crash.
int crash_of(const std::function<void()>& look) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : kCrashes) signal(number, SIG_DFL);
    alarm(kPatience);
    try {
      look();
    } catch (...) {  // what is wrong without a crash, the reader itself says
    }
    _exit(0);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child < 0 || !WIFSIGNALED(status)) return 0;
  return std::ranges::find(kCrashes, WTERMSIG(status)) == kCrashes.end() ? 0 : WTERMSIG(status);
}

}  // namespace

void try_in_child(const std::string& path, const std::function<void()>& look) {
  struct Tried {
    Version version;
    int crash = 0;
  };
  static std::mutex mutex;
  static std::map<std::string, Tried> known;
  struct stat s {};
  if (stat(path.c_str(), &s) != 0) return;  // opening it says why
  const Version version(s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
  const std::lock_guard lock(mutex);
  const auto [at, added] = known.emplace(path, Tried{version});
  if (added || at->second.version != version) at->second = {version, crash_of(look)};
  if (at->second.crash != 0)
    throw Error(
        fmt::format("the HDF5 library crashes on '{}' (signal {}): the file is damaged\nfix: write that file "
                    "again, or remove it from the list",
                    path, at->second.crash));
}

CrashGuard::CrashGuard(const char* path) : outer_(reading) {
  install();
  reading = path;
}

CrashGuard::~CrashGuard() { reading = outer_; }

}  // namespace tutti::reader

// SPDX-License-Identifier: Apache-2.0
#include "base/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tutti {
namespace {

// Set for every rank by Open MPI, PRRTE and the PMI of other launchers.
bool is_launched() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

std::filesystem::path link_of(pid_t process, const char* what) {
  std::error_code unreadable;  // of another user, or gone
  return std::filesystem::read_symlink(fmt::format("/proc/{}/{}", process, what), unreadable);
}

// 0 if it is unknown. "pid (name) state parent ...", where the name may hold anything.
pid_t parent_of(pid_t process) {
  std::ifstream in(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(in, line);
  const auto end = line.rfind(") ");
  return end == line.npos || end + 4 > line.size() ? 0 : std::atoi(line.c_str() + end + 4);
}

// -1 if stderr of the process is no terminal. Opened anew, so that O_NONBLOCK holds for this process alone.
int open_terminal_of(pid_t process) {
  const std::string path = link_of(process, "fd/2").string();
  if (!path.starts_with("/dev/")) return -1;
  const int fd = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || isatty(fd) == 1) return fd;
  ::close(fd);
  return -1;
}

bool draws(const char* kind) { return !kind || std::string_view(kind) != "dumb"; }

}  // namespace

Terminal::Terminal() {
  if (!draws(std::getenv("TERM"))) return;
  if (isatty(STDERR_FILENO) == 1) {
    fd_ = STDERR_FILENO;
    return;
  }
  if (!is_launched()) return;
  const pid_t launcher = getppid();
  fd_ = open_terminal_of(launcher);
  if (const pid_t above = fd_ < 0 ? parent_of(launcher) : 0;
      above > 0 && link_of(above, "exe") == link_of(getpid(), "exe") && !link_of(above, "exe").empty())
    fd_ = open_terminal_of(above);
  owned_ = fd_ >= 0;
}

Terminal::~Terminal() {
  if (owned_) ::close(fd_);
}

int Terminal::columns() const {
  winsize size{};
  return fd_ >= 0 && ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void Terminal::write(std::string_view text) const {
  if (fd_ < 0) return;
  sigset_t stop, before;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTTOU);
  pthread_sigmask(SIG_BLOCK, &stop, &before);
  [[maybe_unused]] const ssize_t written = ::write(fd_, text.data(), text.size());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// The kernel's record lock (fcntl) decides. It ends with the process, also on NFS, where it excludes other hosts. On
// file systems without such locks the contents of the file decide: the lock is held if its process is alive or on
// another host.
#include "train/model_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/host.h"
#include "base/write_root.h"
#include "train/file.h"
#include "tutti/error.h"

namespace tutti {
namespace {

struct Owner {
  std::string host, pid, started;
  std::string text() const {
    if (pid.empty()) return "another run";
    return fmt::format("process {} on {}, started {}", pid, host, started);
  }
};

// "host NAME", "pid N" and "started TIME", a line each.
Owner read_owner(const std::string& path) {
  Owner owner;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("host ")) owner.host = line.substr(5);
    if (line.starts_with("pid ")) owner.pid = line.substr(4);
    if (line.starts_with("started ")) owner.started = line.substr(8);
  }
  return owner;
}

void write_owner(int fd, const std::string& path) {
  const std::string text =
      fmt::format("host {}\npid {}\nstarted {:%Y-%m-%d %H:%M:%S}\n", host_name(), ::getpid(), local_time());
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    throw Error(fmt::format("writing '{}': {}", path, std::strerror(errno)));
}

// Without kernel locks. A process that cannot be queried is assumed to be alive.
bool seems_to_run(const Owner& owner) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(owner.pid.data(), owner.pid.data() + owner.pid.size(), pid);
  if (error != std::errc() || pid <= 0) return false;
  if (owner.host != host_name()) return true;
  return pid != ::getpid() && (::kill(pid, 0) == 0 || errno == EPERM);
}

bool same_file(int fd, const std::string& path) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

enum class Attempt { locked, held, unsupported };

// A lock of the open file, not of the process: closing another descriptor of this process does not release it.
Attempt lock_whole_file(int fd) {
  struct flock whole {};
  whole.l_type = F_WRLCK, whole.l_whence = SEEK_SET;
  if (::fcntl(fd, F_OFD_SETLK, &whole) == 0) return Attempt::locked;
  return errno == EAGAIN || errno == EACCES ? Attempt::held : Attempt::unsupported;
}

}  // namespace

ModelLock::ModelLock(const std::string& model_path, std::chrono::milliseconds patience) : path_(model_path + ".lock") {
  require_in_write_root(path_);
  create_directories(directory_of(model_path));
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!try_lock()) {
    if (std::chrono::steady_clock::now() >= end)
      throw Error(fmt::format(
          "another run works on the model '{}': {}\nfix: wait until it has ended, or choose another modelPath "
          "(the lock is '{}')",
          model_path, read_owner(path_).text(), path_));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

bool ModelLock::try_lock() {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) throw Error(fmt::format("creating '{}': {}", path_, std::strerror(errno)));
  const Attempt attempt = lock_whole_file(fd);
  const bool held = attempt == Attempt::held || (attempt == Attempt::unsupported && seems_to_run(read_owner(path_)));
  // The previous owner may have removed the file between open and lock.
  if (held || !same_file(fd, path_)) {
    ::close(fd);
    return false;
  }
  fd_ = fd;
  write_owner(fd_, path_);
  return true;
}

ModelLock::ModelLock(ModelLock&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

ModelLock::~ModelLock() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());  // while the lock is held: whoever opens the file now finds that it has no name
  ::close(fd_);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "launch/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "tutti/error.h"

namespace tutti::launch {
namespace {

// By parent.
std::multimap<pid_t, pid_t> all_children() {
  std::multimap<pid_t, pid_t> children;
  DIR* const proc = opendir("/proc");
  if (!proc) return children;
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    std::ifstream in(fmt::format("/proc/{}/stat", pid));
    std::string line;
    std::getline(in, line);
    const auto name_end = line.rfind(')');  // the name may hold anything
    if (name_end == line.npos || name_end + 4 >= line.size() || line[name_end + 2] == 'Z') continue;
    children.emplace(std::atoi(line.c_str() + name_end + 4), pid);
  }
  closedir(proc);
  return children;
}

void add_tree(const std::multimap<pid_t, pid_t>& children, pid_t root, std::vector<pid_t>& tree) {
  tree.push_back(root);
  const auto [first, last] = children.equal_range(root);
  for (auto at = first; at != last; ++at) add_tree(children, at->second, tree);
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

std::string own_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t n = readlink("/proc/self/exe", path.data(), path.size() - 1);
  return n > 0 ? std::string(path.data(), static_cast<std::size_t>(n)) : "trainer";
}

Process::Process(const std::vector<std::string>& words, Output output,
                 const std::vector<std::pair<std::string, std::string>>& variables, const char* fix,
                 Terminate terminate) {
  int out[2] = {-1, -1}, err[2] = {-1, -1}, started[2] = {-1, -1};
  const bool lines = output == Output::lines;
  if ((lines && (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)) || pipe2(started, O_CLOEXEC) != 0)
    throw Error(fmt::format("launch: pipes for '{}': {}", words[0], std::strerror(errno)));
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    const bool blocked = terminate == Terminate::blocked;
    prctl(PR_SET_PDEATHSIG, blocked ? SIGINT : SIGTERM);
    setpgid(0, 0);  // a terminal's Ctrl-C reaches only this program, which passes it on
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    const int null = ::open("/dev/null", O_RDWR);
    dup2(null, 0), dup2(lines ? out[1] : null, 1), dup2(lines ? err[1] : null, 2);
    sigset_t mask;
    sigemptyset(&mask);
    if (blocked) sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    // What this program ignores (SIGXFSZ) would stay ignored in the other one.
    for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGXFSZ}) signal(number, SIG_DFL);
    execvp(argv[0], argv.data());
    const int why = errno;
    [[maybe_unused]] const auto n = write(started[1], &why, sizeof why);
    _exit(127);
  }
  for (const int fd : {out[1], err[1], started[1]})
    if (fd >= 0) close(fd);
  int why = 0;
  const bool failed = pid_ < 0 || ::read(started[0], &why, sizeof why) == sizeof why;
  close(started[0]);
  fds_[0] = out[0], fds_[1] = err[0];
  for (const int fd : fds_)
    if (fd >= 0) fcntl(fd, F_SETFL, O_NONBLOCK);
  if (!failed) return;
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  ended_ = true;
  throw Error(fmt::format("launch: cannot start '{}': {}\nfix: {}", words[0], std::strerror(why ? why : EAGAIN), fix));
}

Process::~Process() {
  if (running()) kill_tree();
  for (const int fd : fds_)
    if (fd >= 0) close(fd);
}

bool Process::running() {
  if (ended_ || pid_ <= 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  ended_ = true, code_ = code_of(status);
  return false;
}

void Process::drain(int which, const std::function<void(bool, const std::string&)>& use, bool all) {
  std::array<char, 16384> buffer;
  std::string& rest = rest_[which];
  for (ssize_t n; (n = ::read(fds_[which], buffer.data(), buffer.size())) > 0;)
    rest.append(buffer.data(), static_cast<std::size_t>(n));
  for (auto end = rest.find_first_of("\n\r"); end != rest.npos; end = rest.find_first_of("\n\r")) {
    use(which == 1, rest.substr(0, end + 1));
    rest.erase(0, end + 1);
  }
  if (all && !rest.empty()) use(which == 1, std::exchange(rest, {}));
}

void Process::read(int milliseconds, const std::function<void(bool, const std::string&)>& use) {
  const bool alive = running();
  std::array<pollfd, 2> fds{pollfd{fds_[0], POLLIN, 0}, pollfd{fds_[1], POLLIN, 0}};
  if (alive) poll(fds.data(), fds.size(), milliseconds);
  for (int which = 0; which < 2; ++which) drain(which, use, !alive);
  // Both pipes may be closed long before the process ends.
  if (alive && (fds[0].revents & POLLHUP) != 0 && (fds[1].revents & POLLHUP) != 0) usleep(20'000);
}

void Process::send(int signal) {
  if (running()) kill(pid_, signal);
}

bool Process::has_children() const { return all_children().count(pid_) > 0; }

// Those that have moved to a group of their own, too.
void Process::kill_tree() {
  if (!running()) return;
  kill(pid_, SIGSTOP);  // starts no more of them
  std::vector<pid_t> tree;
  add_tree(all_children(), pid_, tree);
  for (const pid_t pid : tree) kill(pid, SIGKILL);
  int status = 0;
  pid_t ended = -1;
  do ended = waitpid(pid_, &status, 0);
  while (ended < 0 && errno == EINTR);
  if (ended == pid_) code_ = code_of(status);
  ended_ = true;
}

}  // namespace tutti::launch

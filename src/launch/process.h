// SPDX-License-Identifier: Apache-2.0
// process.h -- a child process whose output is read line by line, and all that it has started.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::launch {

class Process {
 public:
  static constexpr const char* kInstallMpi =
      "install Open MPI (apt-get install openmpi-bin), or name the program with --mpiexec or --agent";
  enum class Output { none, lines };
  // Whether SIGTERM reaches the program. It makes mpiexec kill its ranks before they can save, and a scheduler sends it
  // to every process of a job: so it is blocked for mpiexec. Open MPI 4.1 keeps it blocked and unblocks it for the
  // ranks.
  enum class Terminate { reaches, blocked };
  // Throws Error with the fix if the program cannot be started. `variables`: set in its environment.
  Process(const std::vector<std::string>& words, Output,
          const std::vector<std::pair<std::string, std::string>>& variables = {}, const char* fix = kInstallMpi,
          Terminate = Terminate::reaches);
  ~Process();  // kills what still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  bool running();
  int exit_code() const { return code_; }  // 128 + signal if a signal ended it
  // Reads what is there, waiting up to so many milliseconds: calls use(is_stderr, line with its end).
  void read(int milliseconds, const std::function<void(bool, const std::string&)>& use);
  void send(int signal);
  bool has_children() const;
  void kill_tree();

 private:
  void drain(int which, const std::function<void(bool, const std::string&)>& use, bool all);

  pid_t pid_ = -1;
  bool ended_ = false;
  int code_ = 0;
  int fds_[2] = {-1, -1};  // stdout, stderr
  std::string rest_[2];
};

std::string own_path();  // of this program

}  // namespace tutti::launch

// SPDX-License-Identifier: Apache-2.0
// terminal.h -- the terminal on which the user watches this run. Under mpiexec a rank's stderr is a pipe that mpiexec
// reads, so the terminal is that of mpiexec itself, if it runs on this host. Used by the log only.
#pragma once

#include <string_view>

namespace tutti {

class Terminal {
 public:
  // Looks for it: stderr of this process; else, under a launcher, stderr of the parent process; else that of
  // `trainer launch` above it. Never the terminal of a process whose stderr the user has redirected.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool present() const { return fd_ >= 0; }
  // Lines on stderr reach it a little later, through the launcher.
  bool of_launcher() const { return owned_; }
  int columns() const;  // 80 if unknown
  // Never stops this process, as writing to a terminal from the background otherwise may. A launcher's terminal that is
  // held (Ctrl-S) loses the text instead of making the run wait.
  void write(std::string_view) const;

 private:
  int fd_ = -1;
  bool owned_ = false;
};

}  // namespace tutti

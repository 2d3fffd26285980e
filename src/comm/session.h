// SPDX-License-Identifier: Apache-2.0
// session.h -- initialises and finalises MPI; created once, first thing in main. A process without a launcher does not
// use MPI and gets a world of size 1, so it starts at once and needs no daemon.
#pragma once

#include <memory>
#include <string>

#include "tutti/communicator.h"

namespace tutti {

class Watchdog;

// What the environment variables that launchers set for every rank tell before MPI is initialised. `present`: an MPI
// launcher (mpiexec, srun with PMI) started this process.
struct Launcher {
  bool present = false;
  int ranks = 1;  // 1 when the launcher does not say
};
Launcher find_launcher();

// "Open MPI v4.1.4"; works without a session.
std::string mpi_library();

class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  Communicator& world() { return *world_; }
  // This rank has failed. Prints "[rank R on HOST] text" (a single process prints only the text) and ends every rank
  // with this exit code. Failures of all ranks are reported by rank 0 alone.
  [[noreturn]] void fail(const std::string& text, int code = 1);
  // All ranks are done and exit with the same code. If it is not 0, they end here, so that the launcher prints nothing
  // after their messages. If that is impossible, the call returns, and main returns the code.
  void end(int code);

 private:
  bool uses_mpi_ = false;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Watchdog> watchdog_;
};

// The whole of MPI_COMM_WORLD. Messages are split into parts of at most `largest_message` bytes; tests of long messages
// pass less.
std::unique_ptr<Communicator> make_world_communicator(std::size_t largest_message = std::size_t{1} << 30);

// Called by one failing rank: prints "[rank R on HOST] text" and ends every rank, whatever it does. MPI must be
// initialised.
[[noreturn]] void abort_all(const std::string& text, int code);

}  // namespace tutti

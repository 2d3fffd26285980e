// SPDX-License-Identifier: Apache-2.0
// How launchers stay silent, as measured with Open MPI 4.1 (ORTE) and 5 (PRRTE). The former remarks upon every exit
// code but 0, and not upon PMIx_Abort, to which MPI_Abort adds its own text. The latter remarks upon aborts, and upon
// an exit code only while other ranks are running.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "comm/end_job.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/session.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;

// Asks the launcher to end all ranks with this exit code. Returns false, and does nothing, where the MPI library has
// not loaded PMIx.
bool abort_through_pmix(int code) {
  // int PMIx_Abort(int status, const char msg[], pmix_proc_t procs[], size_t nprocs); no procs = the whole job
  using Abort = int (*)(int, const char*, void*, std::size_t);
  void* const library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return false;
  const auto abort = reinterpret_cast<Abort>(dlsym(library, "PMIx_Abort"));
  return abort && abort(code, nullptr, nullptr, 0) == 0;
}

// 0 of other libraries.
int major_of_open_mpi() {
  constexpr std::string_view name = "Open MPI v";
  const std::string library = mpi_library();
  return library.starts_with(name) ? std::atoi(library.c_str() + name.size()) : 0;
}

bool alive(pid_t pid) { return kill(pid, 0) == 0; }

// Of the other ranks on this host.
std::vector<pid_t> neighbours(Communicator& world) {
  const pid_t mine = getpid();
  std::vector<pid_t> all(static_cast<std::size_t>(world.size())), near;
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  const auto hosts = hosts_of(world);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] != mine && hosts[r] == world.host()) near.push_back(all[r]);
  return near;
}

// Rank 0 leaves last, and alone with its exit code.
[[noreturn]] void leave_one_after_the_other(Communicator& world, int code) {
  const int rank = world.rank();
  const std::vector<pid_t> others = neighbours(world);
  const bool elsewhere = others.size() + 1 < static_cast<std::size_t>(world.size());
  alarm(5);  // whatever MPI_Finalize waits for
  MPI_Finalize();
  if (rank != 0) std::_Exit(0);
  for (int i = 0; i < 100; ++i) {
    bool any = false;
    for (const pid_t pid : others) any = any || alive(pid);
    if (!any) break;
    std::this_thread::sleep_for(5ms);
  }
  std::this_thread::sleep_for(elsewhere ? 200ms : 20ms);  // until the launcher knows
  std::_Exit(code);
}

}  // namespace

void abort_all(const std::string& text, int code) {
  int ranks = 1, rank = 0, length = 0;
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Get_processor_name(host, &length);
  const std::string line = ranks > 1 ? fmt::format("[rank {} on {}] {}\n", rank, host, text) : text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call: lines of several ranks do not mix
  std::fflush(nullptr);
  if (!abort_through_pmix(code)) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

void end_all(Communicator& world, int code) {
  std::fflush(nullptr);
  world.barrier();
  const int open_mpi = major_of_open_mpi();
  if (open_mpi >= 5) leave_one_after_the_other(world, code);
  if (open_mpi > 0 && abort_through_pmix(code)) std::_Exit(code);
}

bool all_come_soon() {
  MPI_Request all_here = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &all_here) != MPI_SUCCESS) return false;
  for (int i = 0; i < 30; ++i) {
    int done = 0;
    if (MPI_Test(&all_here, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (done) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Recognises MPI launchers; starts and ends MPI, and jobs such that the program's own message is the last output.
// Launchers and MPI_Abort would otherwise print their own texts about exit codes. How launchers stay silent, as
// measured with Open MPI 4.1 (ORTE) and 5 (PRRTE): the former remarks upon every exit code but 0, and not upon
// PMIx_Abort, to which MPI_Abort adds its own text. The latter remarks upon aborts, and upon an exit code only while
// other ranks are running: a failed rank ends last, after the others have left as if all were well.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "comm/session.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "base/activity.h"
#include "base/shared_memory_space.h"
#include "comm/agreement.h"
#include "comm/threads.h"
#include "comm/watchdog.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;

// For Open MPI; values set by the user are kept.
// - It writes long messages over TCP into the receiver's memory, after asking for the address; between two ranks whose
//   messages cross, the link idles meanwhile. Sent in fragments, the same messages fill it.
// - Where /dev/shm is too small for its shared memory it warns and sends over TCP. Temporary files do as well.
// - On one host it looks for InfiniPath devices for .2 s although ob1 is what it takes in the end.
void choose_transport() {
  setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0);
  const char* const all = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char* const here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  constexpr std::uint64_t segment = 5 << 20;  // bytes of each rank
  const std::uint64_t needed = segment * static_cast<std::uint64_t>(here ? std::max(1, std::atoi(here)) : 1);
  std::error_code none;
  const auto files = std::filesystem::temp_directory_path(none);
  if (here && free_shared_memory() < needed && !none && std::filesystem::space(files, none).available > needed && !none)
    setenv("OMPI_MCA_btl_vader_backing_directory", files.c_str(), 0);
  if (all && here && std::string_view(all) == here) setenv("OMPI_MCA_pml", "ob1", 0);
}

constexpr auto kFinalize = 10s;  // much longer than any that returns

bool is_up() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized == 0;
}

// A function of PMIx, or null where the MPI library has not loaded it.
template <class Function>
Function* pmix_function(const char* name) {
  void* const library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);
  return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

// Asks the launcher to end all ranks with this exit code. Returns false, and does nothing, without PMIx.
bool abort_through_pmix(int code) {
  // int PMIx_Abort(int status, const char msg[], pmix_proc_t procs[], size_t nprocs); no procs = the whole job
  const auto abort = pmix_function<int(int, const char*, void*, std::size_t)>("PMIx_Abort");
  return abort && abort(code, nullptr, nullptr, 0) == 0;
}

// Ends this rank, whatever its other threads do. The launcher counts it as done, as it has left PMIx.
[[noreturn]] void leave_with(int code) {
  alarm(5);
  std::fflush(nullptr);
  // int PMIx_Finalize(const pmix_info_t info[], size_t ninfo); MPI has initialised it several times
  const auto initialized = pmix_function<int()>("PMIx_Initialized");
  const auto finalize = pmix_function<int(const void*, std::size_t)>("PMIx_Finalize");
  for (int i = 0; initialized && finalize && initialized() != 0 && i < 10; ++i) finalize(nullptr, 0);
  std::_Exit(code);
}
void leave() { leave_with(0); }

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
  const auto all = from_all(world, mine);
  const auto hosts = hosts_of(world);
  std::vector<pid_t> near;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] != mine && hosts[r] == world.host()) near.push_back(all[r]);
  return near;
}

// Rank 0 leaves last, and alone with its exit code.
[[noreturn]] void leave_one_after_the_other(Communicator& world, int code) {
  const int rank = world.rank();
  const std::vector<pid_t> others = neighbours(world);
  const bool elsewhere = others.size() + 1 < static_cast<std::size_t>(world.size());
  if (rank != 0) leave();
  for (int i = 0; i < 100; ++i) {
    bool any = false;
    for (const pid_t pid : others) any = any || alive(pid);
    if (!any) break;
    std::this_thread::sleep_for(5ms);
  }
  std::this_thread::sleep_for(elsewhere ? 200ms : 20ms);  // until the launcher knows
  leave_with(code);
}

// Collective; the last call of a rank. Ends all ranks with this exit code (not 0), without MPI_Finalize: after an
// error, threads of the run may still use MPI. Returns if this MPI library cannot end without a message of the
// launcher.
void end_all(Communicator& world, int code) {
  std::fflush(nullptr);
  world.barrier();
  const int open_mpi = major_of_open_mpi();
  if (open_mpi >= 5) leave_one_after_the_other(world, code);
  if (open_mpi > 0 && abort_through_pmix(code)) std::_Exit(code);
}

// Non-blocking barrier on MPI_COMM_WORLD: true if all ranks arrive within 150 ms. Call at most once per process.
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

// Open MPI 4.1 sometimes never returns from MPI_Finalize, on all ranks, after all work is done and on disk. The process
// then ends with its result. To exit without PMIx would count as a failure.
void limit_finalize() {
  std::thread([] {
    std::this_thread::sleep_for(kFinalize);
    std::fflush(nullptr);
    abort_through_pmix(0);
    std::_Exit(0);
  }).detach();
}

}  // namespace

Launcher find_launcher() {
  Launcher found;
  // Open MPI, MVAPICH, and PMI of MPICH, Intel MPI and Slurm. A batch script of Slurm alone sets none of them.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* text = std::getenv(name)) {
      found.present = true;
      if (const int n = std::atoi(text); n > 0) found.ranks = n;
      return found;
    }
  for (const char* name : {"PMIX_RANK", "PMI_RANK", "PMI_FD"})
    if (std::getenv(name)) found.present = true;
  return found;
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

namespace {

// "[rank R on HOST] text" for stderr; a single process prints only the text.
void print_failure(const std::string& text) {
  int ranks = 1, rank = 0, length = 0;
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Get_processor_name(host, &length);
  std::string line;
  if (!text.empty()) line = ranks > 1 ? fmt::format("[rank {} on {}] {}\n", rank, host, text) : text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call: lines of several ranks do not mix
  std::fflush(nullptr);
}

}  // namespace

void abort_all(const std::string& text, int code) {
  print_failure(text);
  if (!abort_through_pmix(code)) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

MpiSession::MpiSession(int* argc, char*** argv) : uses_mpi_(find_launcher().present) {
  if (!uses_mpi_) {
    world_ = make_solo_communicator();
    watchdog_ = std::make_unique<Watchdog>(
        *world_, Watchdog::Exits{[](const std::string&, int code) { std::_Exit(code); }, [] { std::_Exit(0); }});
    return;
  }
  choose_transport();
  int provided = 0;
  // Parameter servers communicate outside the main thread. A library that does not support that runs all other methods.
  if (MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    throw Error("MPI failed while starting MPI");
  if (provided < MPI_THREAD_FUNNELED) throw Error("MPI failed while starting: it does not allow threads beside MPI");
  world_ = make_world_communicator();
  watchdog_ = std::make_unique<Watchdog>(*world_, Watchdog::Exits{abort_all, leave});
}

MpiSession::~MpiSession() {
  watchdog_.reset();
  world_.reset();
  if (!uses_mpi_ || !is_up()) return;
  limit_finalize();
  MPI_Finalize();
}

void MpiSession::fail(const std::string& text, int code) {
  if (!uses_mpi_ || !is_up()) {
    watchdog_.reset();
    std::fwrite((text + "\n").data(), 1, text.size() + 1, stderr);
    std::fflush(nullptr);
    std::_Exit(code);
  }
  const int rank = world_->rank();
  if (all_come_soon()) {
    watchdog_.reset();
    if (rank == 0) std::fprintf(stderr, "%s\n", text.c_str());
    end_all(*world_, code);
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }
  // A failure on several ranks is reported by the first of them, which ends the others before they report it.
  std::this_thread::sleep_for(std::min(rank, 20) * 50ms);
  print_failure(text);
  if (major_of_open_mpi() >= 5 && watchdog_ && watchdog_->end_others()) {
    std::this_thread::sleep_for(200ms);  // until the launcher knows
    leave_with(code);
  }
  abort_all("", code);
}

void MpiSession::end(int code) {
  std::fflush(nullptr);
  watchdog_.reset();
  if (uses_mpi_ && code != 0) end_all(*world_, code);
}

}  // namespace tutti

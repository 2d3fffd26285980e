// SPDX-License-Identifier: Apache-2.0
// Starting and ending MPI.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "comm/session.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "comm/end_job.h"
#include "comm/threads.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// Open MPI writes long messages over TCP into the receiver's memory, after asking for the address; between two ranks
// whose messages cross, the link idles meanwhile. Sent in fragments, the same messages fill it. A value set by the user
// is kept.
void choose_transport() { setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0); }

bool is_up() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized == 0;
}

}  // namespace

MpiSession::MpiSession(int* argc, char*** argv) : uses_mpi_(find_launcher().present) {
  if (!uses_mpi_) {
    world_ = make_solo_communicator();
    return;
  }
  choose_transport();
  int provided = 0;
  // Parameter servers communicate outside the main thread. A library that does not support that runs all other methods.
  if (MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    throw Error("MPI failed while starting MPI");
  if (provided < MPI_THREAD_FUNNELED) throw Error("MPI failed while starting: it does not allow threads beside MPI");
  world_ = make_world_communicator();
}

MpiSession::~MpiSession() {
  world_.reset();
  if (uses_mpi_ && is_up()) MPI_Finalize();
}

void MpiSession::fail(const std::string& text, int code) {
  if (!uses_mpi_ || !is_up()) {
    std::fwrite((text + "\n").data(), 1, text.size() + 1, stderr);
    std::fflush(nullptr);
    std::_Exit(code);
  }
  const int rank = world_->rank();
  if (all_come_soon()) {
    if (rank == 0) std::fprintf(stderr, "%s\n", text.c_str());
    end_all(*world_, code);
    world_.reset();
    MPI_Finalize();
    std::_Exit(code);
  }
  // A failure on several ranks is reported by the first of them, which ends the others before they report it.
  std::this_thread::sleep_for(std::chrono::milliseconds(std::min(rank, 20) * 50));
  abort_all(text, code);
}

void MpiSession::end(int code) {
  std::fflush(nullptr);
  if (uses_mpi_ && code != 0) end_all(*world_, code);
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace tutti

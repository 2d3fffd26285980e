// SPDX-License-Identifier: Apache-2.0
// The stand-in of NCCL: ranks are threads of one process. A call of all ranks meets on the host, then the sum lies in
// the stream of each, behind what was queued before; whichever stream comes to it first drives the others up to there.
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "queue.h"

namespace {

struct UniqueId {
  char internal[128];
};

struct Round {
  std::vector<std::vector<float>> given;  // by rank, once its stream has come so far
  std::vector<cudaStream_t> streams;
  std::vector<bool> here;
};

struct World {
  std::mutex mutex;
  std::condition_variable all_here;
  int ranks = 0, arrived = 0;
  std::uint64_t meeting = 0;
  std::shared_ptr<Round> round, met;

  // Waits for the calls of all ranks; what they share.
  std::shared_ptr<Round> meet(int rank, cudaStream_t stream) {
    std::unique_lock lock(mutex);
    if (!round) {
      round = std::make_shared<Round>();
      round->given.resize(static_cast<std::size_t>(ranks)), round->streams.resize(static_cast<std::size_t>(ranks));
      round->here.resize(static_cast<std::size_t>(ranks));
    }
    const std::shared_ptr<Round> mine = round;
    mine->streams[static_cast<std::size_t>(rank)] = stream;
    const std::uint64_t now = meeting;
    if (++arrived == ranks) {
      arrived = 0, ++meeting;
      round.reset();
      all_here.notify_all();
    } else {
      all_here.wait(lock, [&] { return meeting != now; });
    }
    return mine;
  }
};

std::mutex worlds_mutex;
std::map<int, std::shared_ptr<World>> worlds;

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank;
};

extern "C" {

int ncclGetVersion(int* version) {
  *version = 10203;
  return 0;
}
const char* ncclGetErrorString(int status) { return status == 0 ? "no error" : "the stand-in was called wrongly"; }
int ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> next = 1;
  const int number = next++;
  std::memcpy(id->internal, &number, sizeof number);
  return 0;
}
int ncclCommInitRank(ncclComm** comm, int ranks, UniqueId id, int rank) {
  int number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  if (number == 0 || rank < 0 || rank >= ranks) return 4;
  const std::lock_guard lock(worlds_mutex);
  auto& world = worlds[number];
  if (!world) world = std::make_shared<World>();
  world->ranks = ranks;
  *comm = new ncclComm{world, rank};
  return 0;
}
int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int operation, ncclComm* comm,
                  cudaStream_t stream) {
  if (type != 7 || operation != 0 || !stream) return 4;
  const std::shared_ptr<Round> round = comm->world->meet(comm->rank, stream);
  const auto rank = static_cast<std::size_t>(comm->rank);
  cuda_double::enqueue(stream, [=] {
    const auto* values = static_cast<const float*>(from);
    round->given[rank].assign(values, values + count);
    round->here[rank] = true;
  });
  cuda_double::enqueue(stream, [=] {
    auto* sums = static_cast<float*>(to);
    for (std::size_t r = 0; r < round->given.size(); ++r) {
      cuda_double::drive(round->streams[r], [&] { return static_cast<bool>(round->here[r]); });
      for (std::size_t i = 0; i < count; ++i) sums[i] = (r == 0 ? 0.0f : sums[i]) + round->given[r][i];
    }
  });
  // Nobody may come to the sum before all have queued their part.
  comm->world->meet(comm->rank, stream);
  return 0;
}
int ncclCommGetAsyncError(ncclComm*, int* state) {
  *state = 0;
  return 0;
}
int ncclCommDestroy(ncclComm* comm) {
  delete comm;
  return 0;
}
int ncclCommAbort(ncclComm* comm) { return ncclCommDestroy(comm); }

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// the emulator of NCCL: ranks are threads of one process. A call returns at once, as NCCL's does; its sum lies in the
// stream of each rank, behind what was queued before, and waits there until all ranks have come to theirs. Calls that
// do not fit each other are refused. A rank that aborts leaves the others an asynchronous error, and their streams
// waiting until they abort as well.
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "queue.h"

struct ncclComm;

namespace {

constexpr int invalid_argument = 4, invalid_usage = 5, remote_error = 6;

struct UniqueId {
  char internal[128];
};

// One sum: what the ranks have called for, and given once their streams have come so far.
struct Round {
  struct Rank {
    cudaStream_t stream = nullptr;
    bool here = false;
    std::vector<float> given;
  };
  std::size_t count = 0, left = 0;  // ranks that have not got the sum
  std::vector<Rank> ranks;
};

struct World {
  std::mutex mutex;
  int size = 0;
  std::atomic<bool> failed = false;
  std::map<std::uint64_t, std::shared_ptr<Round>> rounds;  // by number of the call
};

std::mutex worlds_mutex;
std::map<int, std::shared_ptr<World>> worlds;

// Whether the streams of all ranks have come to the round.
bool complete(World& world, Round& round) {
  for (Round::Rank& rank : round.ranks) {
    cudaStream_t stream = nullptr;
    {
      const std::lock_guard lock(world.mutex);
      stream = rank.stream;
    }
    if (world.failed && !rank.here) return false;
    if (!stream || !cuda_emulator::drive(stream, [&] { return rank.here; })) return false;
  }
  return true;
}

struct Call {
  const void* from;
  void* to;
  std::size_t count;
  ncclComm* comm;
  cudaStream_t stream;
};
thread_local int group_depth = 0;
thread_local std::vector<Call> group;

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  std::size_t rank;
  std::uint64_t calls = 0;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
};

namespace {

int begin(const Call& call) {
  ncclComm& comm = *call.comm;
  World& world = *comm.world;
  const std::uint64_t number = comm.calls++;
  std::shared_ptr<Round> round;
  {
    const std::lock_guard lock(world.mutex);
    auto& here = world.rounds[number];
    if (!here) {
      here = std::make_shared<Round>();
      here->count = call.count, here->left = static_cast<std::size_t>(world.size);
      here->ranks.resize(here->left);
    }
    if (here->count != call.count) return invalid_usage;
    here->ranks[comm.rank].stream = call.stream;
    round = here;
  }
  cuda_emulator::enqueue(call.stream, [round, call, rank = comm.rank] {
    const auto* values = static_cast<const float*>(call.from);
    round->ranks[rank].given.assign(values, values + call.count);
    round->ranks[rank].here = true;
  });
  const auto sum = [world = comm.world, number, round, call, aborted = comm.aborted] {
    auto* sums = static_cast<float*>(call.to);
    for (std::size_t r = 0; r < round->ranks.size() && !*aborted; ++r)
      for (std::size_t i = 0; i < call.count; ++i) sums[i] = (r == 0 ? 0.0f : sums[i]) + round->ranks[r].given[i];
    const std::lock_guard lock(world->mutex);
    if (--round->left == 0) world->rounds.erase(number);
  };
  cuda_emulator::enqueue_when(
      call.stream, [world = comm.world, round, aborted = comm.aborted] { return *aborted || complete(*world, *round); },
      sum);
  return 0;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 10203;
  return 0;
}
const char* ncclGetErrorString(int status) {
  return status == 0              ? "no error"
         : status == remote_error ? "another rank of the emulator has failed"
                                  : "the emulator was called wrongly";
}
int ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> next = 1;
  const int number = next++;
  std::memcpy(id->internal, &number, sizeof number);
  return 0;
}
int ncclCommInitRank(ncclComm** comm, int ranks, UniqueId id, int rank) {
  int number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  if (number == 0 || rank < 0 || rank >= ranks) return invalid_argument;
  const std::lock_guard lock(worlds_mutex);
  auto& world = worlds[number];
  if (!world) world = std::make_shared<World>();
  world->size = ranks;
  *comm = new ncclComm{world, static_cast<std::size_t>(rank)};
  return 0;
}
int ncclGroupStart() {
  ++group_depth;
  return 0;
}
int ncclGroupEnd() {
  if (group_depth == 0) return invalid_usage;
  if (--group_depth > 0) return 0;
  int status = 0;
  for (const Call& call : std::exchange(group, {}))
    if (const int of_call = begin(call); status == 0) status = of_call;
  return status;
}
int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int operation, ncclComm* comm,
                  cudaStream_t stream) {
  if (type != 7 || operation != 0 || !stream || *comm->aborted) return invalid_argument;
  const Call call{from, to, count, comm, stream};
  if (group_depth == 0) return begin(call);
  group.push_back(call);
  return 0;
}
int ncclCommGetAsyncError(ncclComm* comm, int* state) {
  *state = comm->world->failed ? remote_error : 0;
  return 0;
}
int ncclCommDestroy(ncclComm* comm) {
  delete comm;
  return 0;
}
int ncclCommAbort(ncclComm* comm) {
  comm->world->failed = true;
  *comm->aborted = true;
  return ncclCommDestroy(comm);
}

}  // extern "C"

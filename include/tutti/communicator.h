// SPDX-License-Identifier: Apache-2.0
// communicator.h -- a group of ranks: point-to-point transfers, and collectives in a fixed order. Implemented over MPI
// (src/comm/mpi.cpp) and, for tests, over the threads of one process (src/comm/threads.cpp). A single process is a
// communicator of size 1, so no caller needs to know whether MPI is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti {

class SharedMemory;

// A persistent transfer between two ranks: planned once, started any number of times, so that a step allocates nothing.
// From start() until done() or wait() reports completion, the bytes must stay valid and, when sending, unchanged.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void start() = 0;  // the previous transfer must be complete
  // Long messages travel in parts. Starts part `i`, or nothing if there is no such part; returns whether later ones
  // remain. Called with 0, 1, 2, ...; anything else only when no part remains.
  virtual bool start_part(std::size_t i) {
    if (i == 0) start();
    return false;
  }
  virtual void start(
      std::size_t bytes) = 0;  // transfers only the first of the planned bytes; both sides must pass the same number
  virtual bool done() = 0;     // also drives progress; true when nothing was started
  virtual bool complete() const = 0;  // the result of the last poll; does not poll itself
  virtual void wait() = 0;
};

// Starts all, a part of each in turn; at most one transfer to a rank with the same tag. Messages to several hosts then
// share the link from the start: with four hosts 3 to 6 % faster than one after the other (docs/notes/tcp.md).
inline void start_in_turn(std::span<const std::unique_ptr<Transfer>> transfers) {
  bool more = true;
  for (std::size_t part = 0; more; ++part) {
    more = false;
    for (const auto& t : transfers) more = t->start_part(part) || more;
  }
}

// Polls several transfers in one call. Where ranks share cores, a poll that finds nothing yields the core, so polling
// one by one would yield many times. Not thread-safe.
class TransferPoller {
 public:
  virtual ~TransferPoller() = default;
  virtual void poll(std::span<Transfer* const>) = 0;  // afterwards complete() is up to date for each
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string host() const = 0;
  // The number of a rank in the communicator of all ranks.
  virtual int world_rank(int rank) const { return rank; }
  // Whether messages may be in GPU memory. The MPI library is queried at run time.
  virtual bool takes_device_memory() const { return false; }

  // Point-to-point transfers. Tags are 0..32767. Messages of one pair and tag arrive in the order in which they were
  // started. Both sides must pass the same number of bytes, which may exceed 2 GB.
  virtual std::unique_ptr<Transfer> plan_send(int to, int tag, std::span<const std::byte>) = 0;
  virtual std::unique_ptr<Transfer> plan_receive(int from, int tag, std::span<std::byte>) = 0;
  // Planned and started in one call.
  std::unique_ptr<Transfer> send(int to, int tag, std::span<const std::byte>);
  std::unique_ptr<Transfer> receive(int from, int tag, std::span<std::byte>);
  // Creates a poller for up to this many transfers of this communicator.
  virtual std::unique_ptr<TransferPoller> plan_poller(std::size_t most) = 0;

  virtual void barrier() = 0;
  virtual void broadcast(int root, std::span<std::byte>) = 0;
  // All-gather: `all` receives size() chunks of equal length in rank order.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // All-reduce that sums in rank order 0, 1, 2, ..., so every rank gets the same bits in every run.
  void all_reduce_sum(std::span<double>);
  void all_reduce_sum(std::span<std::int64_t>);
  // All-reduce of the transport library: any order of summation, but equal on all ranks.
  virtual void all_reduce_sum(std::span<float>);
  // Creates a communicator of the ranks that pass the same color, ordered by rank.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
  // Allocates memory that all ranks can access, of which this rank contributes this many bytes. Collective. Returns
  // null on every rank if they are on different hosts or the system cannot share memory.
  virtual std::unique_ptr<SharedMemory> share_memory(std::size_t bytes) = 0;

  // Whether several threads of a rank may use communicators at the same time, each transfer by one thread at a time.
  // Methods that start threads must check this first.
  virtual bool threads_may_talk() const { return true; }
  // For a background thread that fails: ends all ranks, with the name of this rank and the reason.
  virtual void fail(std::exception_ptr reason) noexcept = 0;
};

// The host and cores of this rank, to choose thread counts and to warn about oversubscribed cores.
struct HostPlace {
  int hosts = 1;       // distinct hosts of the communicator
  int local_rank = 0;  // rank within its host, in rank order
  int local_ranks = 1;
  int allowed_cores = 1;      // logical processors this rank may run on
  bool shares_cores = false;  // another rank of this host may run on some of these cores
  int fair_cores = 1;         // number of cores this rank may use without taking one from another rank, at least 1
};
HostPlace find_place(Communicator&);  // collective
// Host names by rank; collective.
std::vector<std::string> hosts_of(Communicator&);

}  // namespace tutti

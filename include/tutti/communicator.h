// SPDX-License-Identifier: Apache-2.0
// communicator.h -- who talks: ranks, bytes between them, and collectives in a fixed order. Implemented over MPI
// (src/comm/mpi.cpp) and over threads of one process (src/comm/threads.cpp, for tests). A single process is a
// communicator of size 1; nobody asks whether MPI is on.
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

// A planned transfer between two ranks. Planned once, started as often as wanted: a step loop allocates nothing.
// From start() until done() or wait() says so, the bytes must stay in place (and, when sending, unchanged).
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void start() = 0;  // the previous run must be complete
  virtual void start(
      std::size_t bytes) = 0;         // only the first of the planned bytes; both sides must name the same number
  virtual bool done() = 0;            // also drives progress; true when nothing was started
  virtual bool complete() const = 0;  // as of the last poll; does not poll
  virtual void wait() = 0;
};

// Looks at several transfers at once, for what a look at one costs: where ranks share cores, a transport that finds
// nothing gives the core away, each time. One thread at a time.
class TransferPoller {
 public:
  virtual ~TransferPoller() = default;
  virtual void poll(std::span<Transfer* const>) = 0;  // complete() then tells of each
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string host() const = 0;
  // Whether messages may lie in memory of a GPU; asked of the transport when the program runs.
  virtual bool takes_device_memory() const { return false; }

  // Point to point. Tags are 0..32767; messages of one pair and tag arrive in the order in which they were started.
  // Both sides must name the same number of bytes; any number is fine, also more than 2 GB.
  virtual std::unique_ptr<Transfer> plan_send(int to, int tag, std::span<const std::byte>) = 0;
  virtual std::unique_ptr<Transfer> plan_receive(int from, int tag, std::span<std::byte>) = 0;
  // The same, started at once.
  std::unique_ptr<Transfer> send(int to, int tag, std::span<const std::byte>);
  std::unique_ptr<Transfer> receive(int from, int tag, std::span<std::byte>);
  // For looks at up to so many transfers of this communicator.
  virtual std::unique_ptr<TransferPoller> plan_poller(std::size_t most) = 0;

  virtual void barrier() = 0;
  virtual void broadcast(int root, std::span<std::byte>) = 0;
  // Every rank's bytes to every rank; `all` holds size() chunks of equal length in rank order.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // Sums in rank order 0, 1, 2, ... on every rank: the same bits everywhere and every time.
  void all_reduce_sum(std::span<double>);
  void all_reduce_sum(std::span<std::int64_t>);
  // Sums as the transport's own all-reduce makes them, in an order of its choice but equal on all ranks.
  virtual void all_reduce_sum(std::span<float>);
  // A communicator of the ranks that pass the same color, ordered by rank.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
  // Memory that all ranks see, so many bytes of it brought by this one; collective. Null on every rank where they do
  // not sit on one host, or the system does not let them share.
  virtual std::unique_ptr<SharedMemory> share_memory(std::size_t bytes) = 0;

  // Whether several threads of a rank may use communicators at the same time, each transfer by one thread at a time. A
  // method with threads of its own says no at its start where they may not.
  virtual bool threads_may_talk() const { return true; }
  // For a thread that nobody waits for and that cannot go on: ends all ranks with the name of this one and the reason.
  virtual void fail(std::exception_ptr reason) noexcept = 0;
};

// Where this rank sits: for thread counts and for telling users about ranks that fight over one core.
struct HostPlace {
  int hosts = 1;       // distinct hosts of the communicator
  int local_rank = 0;  // this rank among those of its host, in rank order
  int local_ranks = 1;
  int allowed_cores = 1;      // logical processors this rank may run on
  bool shares_cores = false;  // another rank of this host may run on some of them
  int fair_cores = 1;         // what this rank may use without taking from another, at least 1
};
HostPlace find_place(Communicator&);  // collective
// By rank; collective.
std::vector<std::string> hosts_of(Communicator&);

}  // namespace tutti

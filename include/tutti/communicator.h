// SPDX-License-Identifier: Apache-2.0
// communicator.h -- who talks: ranks, bytes between them, and collectives in a fixed order. Implemented over MPI
// (src/comm/mpi.cpp) and over threads of one process (src/comm/threads.cpp, for tests). A single process is a
// communicator of size 1; nobody asks whether MPI is on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tutti {

// A transfer under way; the bytes must stay in place until done() or wait().
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual bool done() = 0;  // also drives progress
  virtual void wait() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string host() const = 0;

  // Point to point. Tags are 0..32767; messages of one pair and tag arrive in the order they were sent.
  virtual std::unique_ptr<Transfer> send(int to, int tag, std::span<const std::byte>) = 0;
  virtual std::unique_ptr<Transfer> receive(int from, int tag, std::span<std::byte>) = 0;

  virtual void barrier() = 0;
  virtual void broadcast(int root, std::span<std::byte>) = 0;
  // Every rank's bytes to every rank; `all` holds size() pieces of equal length in rank order.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // Sums in rank order 0, 1, 2, ... on every rank: the same bits everywhere and every time.
  void all_reduce_sum(std::span<double>);
  void all_reduce_sum(std::span<std::int64_t>);
  // A communicator of the ranks that pass the same color, ordered by rank.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
};

}  // namespace tutti

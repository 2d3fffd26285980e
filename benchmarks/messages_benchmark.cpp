// SPDX-License-Identifier: Apache-2.0
// How fast all ranks send a message to each other: messages that start one after the other, those whose parts start in
// turn, and one message at a time, in round k to rank r + k. Means of the slowest rank; docs/notes/tcp.md has figures.
//   scripts/cluster.sh up 4 --rate 100mbit
//   scripts/cluster.sh run build/benchmarks/messages_benchmark [bytes] [turns]
#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/session.h"
#include "mlp_parameters.h"

namespace tutti {
namespace {

using Transfers = std::vector<std::unique_ptr<Transfer>>;

struct Messages {
  Messages(Communicator& comm, std::size_t bytes) {
    const int n = comm.size(), me = comm.rank();
    memory.resize(2 * bytes * static_cast<std::size_t>(n));
    for (int k = 1; k < n; ++k) {
      const auto block = [&](int i) { return std::span(memory).subspan(bytes * static_cast<std::size_t>(i), bytes); };
      receives.push_back(comm.plan_receive((me + n - k) % n, 1, block(k)));
      sends.push_back(comm.plan_send((me + k) % n, 1, block(n + k)));
    }
  }
  void one_after_the_other() {
    for (auto& t : receives) t->start();
    for (auto& t : sends) t->start();
    wait();
  }
  void in_turn() {
    for (auto& t : receives) t->start();
    start_in_turn(sends);
    wait();
  }
  void one_at_a_time() {
    for (std::size_t k = 0; k < sends.size(); ++k) {
      receives[k]->start(), sends[k]->start();
      receives[k]->wait(), sends[k]->wait();
    }
  }

 private:
  void wait() {
    for (auto* transfers : {&receives, &sends})
      for (auto& t : *transfers) t->wait();
  }

  std::vector<std::byte> memory;
  Transfers receives, sends;
};

void run(Communicator& comm, std::size_t bytes, int turns) {
  Messages messages(comm, bytes);
  const std::pair<const char*, std::function<void()>> variants[] = {
      {"one after the other", [&] { messages.one_after_the_other(); }},
      {"parts in turn", [&] { messages.in_turn(); }},
      {"one at a time", [&] { messages.one_at_a_time(); }}};
  double seconds[std::size(variants)] = {};
  for (int i = -1; i < turns; ++i)  // the first turn makes the connections
    for (std::size_t v = 0; v < std::size(variants); ++v) {
      comm.barrier();
      const auto start = Clock::now();
      variants[v].second();
      const double slowest = largest_of_ranks(comm, since(start));
      if (i >= 0) seconds[v] += slowest;
    }
  if (comm.rank() > 0) return;
  fmt::print("{} bytes to each of {} ranks, {} turns\n", bytes, comm.size() - 1, turns);
  for (std::size_t v = 0; v < std::size(variants); ++v)
    fmt::print("{:<20} {:8.3f} ms {:9.2f} MB/s per rank\n", variants[v].first, 1e3 * seconds[v] / turns,
               1e-6 * static_cast<double>(bytes) * (comm.size() - 1) * turns / seconds[v]);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  tutti::MpiSession mpi(&argc, &argv);
  const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000000;
  tutti::run(mpi.world(), bytes, argc > 2 ? std::atoi(argv[2]) : 20);
}

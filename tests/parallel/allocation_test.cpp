// SPDX-License-Identifier: Apache-2.0
// A training step allocates nothing: operator new is counted while ranks exchange gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "../support/run_ranks.h"
#include "parallel/local_sgd/block_exchange.h"
#include "parallel/options.h"
#include "parallel/parameter_server/request_loop.h"
#include "training.h"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace tutti {
namespace {

class Ignore : public training::Sink {
 public:
  void on_reduced(std::size_t, std::int64_t) override {}
};

// Wants contributions from its third step on.
class Contributions : public Ignore {
 public:
  explicit Contributions(std::size_t size) : mask_(size) { std::fill_n(mask_.data(), size / 2, 1.0f); }
  Summed summed(std::int64_t) const override { return step_ < 3 ? Summed::gradients_in_full : Summed::contributions; }
  void contribute(std::size_t, std::int64_t, int) override {}
  void on_reduced(std::size_t chunk, std::int64_t) override { step_ += chunk == 0; }
  const float* mask() const override { return mask_.data(); }

 private:
  FloatBuffer mask_;
  int step_ = 1;
};

void expect_no_allocation(Transport transport, int ranks, int bits, bool async, bool contributions = false) {
  run_ranks(ranks, [&](Communicator& comm) {
    ParallelTrainOptions o;
    o.method = DataParallelOptions();
    o.distributed_reading_given = true;
    o.transport = transport;
    o.as<DataParallelOptions>().gradient_bits = bits;
    o.as<DataParallelOptions>().buffered_async = async;
    Parameters p = training::parameters_of({{300, 400}, {300, 1}, {500, 300}, {10, 1}, {8, 9000}}, 150);
    // The last one is sparse: one chunk, and a list whose length changes.
    std::erase_if(p.chunks, [](const GradientChunk& chunk) { return chunk.slice == 4; });
    p.chunks.push_back({4, 0, 9000});
    p.slices[4].sparse_gradient = true;
    p.sparse_rows.resize(5);
    p.sparse_rows[4].reserve(9000);
    int number = 0;
    const auto player = training::play(o, comm);
    player->start(p);
    player->begin_epoch(0);
    Ignore ignore;
    Contributions contributing(p.size());
    training::Sink& sink = contributions ? static_cast<training::Sink&>(contributing) : ignore;
    StepMetrics metrics = training::metrics(comm.rank(), 0);
    const auto one_step = [&] {
      player->begin_step(10, sink);
      p.sparse_rows[4].clear();
      for (std::uint32_t line = 7u * static_cast<std::uint32_t>(++number % 3); line < 9000; line += 3)
        p.sparse_rows[4].push_back(line);
      for (std::size_t i = 0; i < p.chunks.size(); ++i) player->chunk_ready(i);
      player->finish_gradients(metrics);
    };
    for (int t = 0; t < 4; ++t) one_step();
    comm.barrier();
    const long before = allocations;
    comm.barrier();
    for (int t = 0; t < 3; ++t) one_step();
    comm.barrier();
    EXPECT_EQ(allocations - before, 0) << ranks << " ranks, " << bits << " bits, async " << async;
    comm.barrier();
    player->drain(sink);
  });
}

TEST(Allocation, AStepAllocatesNothing) {
  for (const int ranks : {1, 2, 3})
    for (const int bits : {1, 32})
      for (const bool async : {false, true})
        for (const Transport transport : {Transport::messages, Transport::shared_memory})
          expect_no_allocation(transport, ranks, bits, async);
}

// But for the first that wants them.
TEST(Allocation, AStepWithContributionsAllocatesNothing) {
  for (const int ranks : {1, 2, 3})
    for (const int bits : {1, 32}) expect_no_allocation(Transport::shared_memory, ranks, bits, false, true);
}

// An exchange of weights with every minibatch, but for the line that tells of it.
TEST(Allocation, AnExchangeOfWeightsAllocatesNothing) {
  for (const int ranks : {1, 2, 3})
    run_ranks(ranks, [&](Communicator& comm) {
      Parameters p = training::parameters_of({{300, 400}, {300, 1}, {500, 300}, {10, 1}}, 150);
      BlockSettings settings;
      settings.name = "test";
      training::Player player(make_block_exchange(settings, make_block_momentum_rule({0.5, 1, true}), comm), comm);
      player.start(p);
      player.begin_epoch(0);
      Ignore sink;
      StepMetrics metrics = training::metrics(comm.rank(), 0);
      const auto one_step = [&] {
        player.begin_step(10, sink);
        for (std::size_t i = 0; i < p.chunks.size(); ++i) player.chunk_ready(i);
        player.finish_gradients(metrics);
        player.exchange_weights(10 * ranks);
      };
      for (int t = 0; t < 3; ++t) one_step();
      comm.barrier();
      const long before = allocations;
      comm.barrier();
      for (int t = 0; t < 3; ++t) one_step();
      comm.barrier();
      EXPECT_EQ(allocations - before, 0) << ranks << " ranks";
      comm.barrier();
    });
}

// Nor do those that ask and answer each other beside it.
TEST(Allocation, ServersAllocateNothing) {
  for (const int ranks : {1, 2, 3})
    run_ranks(ranks, [&](Communicator& comm) {
      Server server(comm);
      ServedCounter counter(server, 0);
      ServedBarrier barrier(server, ranks - 1);
      server.open();
      counter.restart(0, 100);
      barrier.wait();
      const long before = allocations;
      barrier.wait();
      for (int i = 0; i < 10; ++i) EXPECT_GE(counter.take(), 0);
      barrier.wait();
      EXPECT_EQ(allocations - before, 0) << ranks << " ranks";
      barrier.wait();
    });
}

}  // namespace
}  // namespace tutti

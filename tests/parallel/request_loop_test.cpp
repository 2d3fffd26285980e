// SPDX-License-Identifier: Apache-2.0
// Ranks that serve each other while they do something else.
#include "parallel/parameter_server/request_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>

#include "../support/run_ranks.h"
#include "parallel/parameter_server/pending_pushes.h"
#include "tutti/error.h"
#include "tutti/shared_memory.h"

namespace tutti::server_test {
namespace {

// Adds up what it is given, responds with the sum so far; the length of the response is as asked for.
class Adder : public RequestHandler {
 public:
  std::size_t handle(int, std::span<std::byte> message) override {
    std::int64_t v = 0;
    std::memcpy(&v, message.data(), sizeof v);
    sum_ += v;
    std::memcpy(message.data(), &sum_, sizeof sum_);
    return sizeof sum_;
  }
  std::int64_t sum() const { return sum_; }

 private:
  std::int64_t sum_ = 0;
};

// Responds when all of `clients` have asked.
class Together : public RequestHandler {
 public:
  explicit Together(int clients) : clients_(clients) {}
  std::size_t handle(int client, std::span<std::byte>) override {
    if (leaving_.empty()) here_.insert(client);
    if (static_cast<int>(here_.size()) == clients_) leaving_.swap(here_);
    return leaving_.erase(client);
  }

 private:
  int clients_;
  std::set<int> here_, leaving_;
};

// Where looks wait until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++inside_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_for_somebody() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return inside_ > 0; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0;
  bool open_ = false;
};

// A communicator whose watches look through a gate.
class GatedLooks : public Communicator {
 public:
  GatedLooks(std::unique_ptr<Communicator> comm, Gate& gate) : comm_(std::move(comm)), gate_(gate) {}
  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }
  std::string host() const override { return comm_->host(); }
  std::unique_ptr<Transfer> plan_send(int to, int tag, std::span<const std::byte> bytes) override {
    return comm_->plan_send(to, tag, bytes);
  }
  std::unique_ptr<Transfer> plan_receive(int from, int tag, std::span<std::byte> bytes) override {
    return comm_->plan_receive(from, tag, bytes);
  }
  std::unique_ptr<TransferPoller> plan_poller(std::size_t most) override {
    struct Gated : TransferPoller {
      Gated(std::unique_ptr<TransferPoller> w, Gate& g) : watch(std::move(w)), gate(g) {}
      void poll(std::span<Transfer* const> transfers) override {
        gate.pass();
        watch->poll(transfers);
      }
      std::unique_ptr<TransferPoller> watch;
      Gate& gate;
    };
    return std::make_unique<Gated>(comm_->plan_poller(most), gate_);
  }
  void barrier() override { comm_->barrier(); }
  void broadcast(int root, std::span<std::byte> bytes) override { comm_->broadcast(root, bytes); }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override { comm_->all_gather(mine, all); }
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<GatedLooks>(comm_->split(color), gate_);
  }
  std::unique_ptr<SharedMemory> share_memory(std::size_t bytes) override { return comm_->share_memory(bytes); }
  void fail(std::exception_ptr reason) noexcept override { comm_->fail(reason); }

 private:
  std::unique_ptr<Communicator> comm_;
  Gate& gate_;
};

void put(Server& server, int handler, std::int64_t v) { std::memcpy(server.message(handler).data(), &v, sizeof v); }
std::int64_t get(std::span<const std::byte> bytes) {
  std::int64_t v = 0;
  std::memcpy(&v, bytes.data(), sizeof v);
  return v;
}

// Encodes nothing; what is marked is passed when the test says so.
class SlowCodec : public Codec {
 public:
  std::string name() const override { return "slow"; }
  bool lossy() const override { return false; }
  std::size_t bytes(std::size_t, std::size_t) const override { return 0; }
  void encode(std::size_t, std::size_t, const float*, float*, std::byte*) const override {}
  void decode(std::size_t, std::size_t, const std::byte*, float*) const override {}
  void decode_add(std::size_t, std::size_t, const std::byte*, float*) const override {}
  std::uint64_t record_event() const override { return ++marked_; }
  bool query(std::uint64_t event) const override { return event <= passed_up_to; }
  std::uint64_t passed_up_to = 0;

 private:
  mutable std::uint64_t marked_ = 0;
};

TEST(PendingPushes, leave_when_they_are_complete) {
  run_ranks(1, [](Communicator& comm) {
    Server server(comm);
    std::vector<Adder*> handlers;
    for (int d = 0; d < 3; ++d) {
      auto handler = std::make_unique<Adder>();
      handlers.push_back(handler.get());
      server.add({.owner = 0, .bytes = 8}, std::move(handler));
    }
    server.open();
    const auto sums = [&] { return std::vector{handlers[0]->sum(), handlers[1]->sum(), handlers[2]->sum()}; };
    SlowCodec codec;
    PendingPushes pending(server, codec);
    for (int d = 0; d < 3; ++d) {
      pending.request(d, 8);
      put(server, d, d + 1);  // a device writes after it has been asked to
    }
    EXPECT_EQ(sums(), std::vector({std::int64_t{0}, std::int64_t{0}, std::int64_t{0}}));
    codec.passed_up_to = 2;
    EXPECT_EQ(get(pending.wait(0)), 1) << "waiting sends what is complete";
    EXPECT_EQ(sums(), std::vector({std::int64_t{1}, std::int64_t{2}, std::int64_t{0}}));
    EXPECT_EQ(get(pending.wait(1)), 2) << "and does not wait for the others";
    codec.passed_up_to = 3;
    pending.poll();
    EXPECT_EQ(sums(), std::vector({std::int64_t{1}, std::int64_t{2}, std::int64_t{3}}));
    EXPECT_EQ(get(pending.wait(2)), 3);
  });
}

TEST(Server, every_request_is_answered_once) {
  for (const int ranks : {1, 2, 3, 5}) {
    std::mutex mutex;
    std::int64_t total = 0, expected = 0;
    run_ranks(ranks, [&](Communicator& comm) {
      Server server(comm);
      std::vector<Adder*> mine;
      std::vector<int> handlers;
      for (int owner = 0; owner < ranks; ++owner)
        for (int i = 0; i < 3; ++i) {
          auto handler = owner == comm.rank() ? std::make_unique<Adder>() : nullptr;
          if (handler) mine.push_back(handler.get());
          handlers.push_back(
              server.add({.owner = owner, .bytes = 100, .clients = 0, .lane = i > 0 ? 1 : -1}, std::move(handler)));
        }
      server.open();
      std::int64_t given = 0;
      for (int round = 0; round < 20; ++round) {
        for (const int d : handlers) {
          put(server, d, comm.rank() + round + d);
          given += comm.rank() + round + d;
          server.request(d, 8);
        }
        for (const int d : handlers) EXPECT_GE(get(server.wait(d)), comm.rank() + round + d);
      }
      comm.barrier();
      server.exclusively([&] {
        const std::lock_guard lock(mutex);
        for (const Adder* a : mine) total += a->sum();
        expected += given;
      });
      comm.barrier();
    });
    EXPECT_EQ(total, expected) << ranks;
  }
}

// While the serving thread looks, however long, this rank's own handler responds and can be reached: else this hangs.
TEST(Server, nobody_waits_for_a_look) {
  run_ranks(2, [](Communicator& world) {
    Gate gate;
    GatedLooks comm(world.split(0), gate);
    Server server(comm);
    const int handler = server.add({.owner = 0, .bytes = 8}, comm.rank() == 0 ? std::make_unique<Adder>() : nullptr);
    ServedBarrier barrier(server);
    server.open();
    if (comm.rank() == 0) {
      gate.wait_for_somebody();
      put(server, handler, 5);
      server.request(handler, 8);
      EXPECT_TRUE(server.responded(handler));
      EXPECT_EQ(get(server.wait(handler)), 5);
      server.exclusively([] {});
    }
    gate.open();
    barrier.wait();
  });
}

TEST(Server, answers_may_wait_for_other_requests) {
  run_ranks(4, [&](Communicator& comm) {
    Server server(comm);
    // Rank 3 does not ask; it owns one of the handlers.
    std::vector<int> handlers;
    for (const int owner : {1, 3})
      handlers.push_back(server.add({.owner = owner, .bytes = 1, .clients = 3},
                                    owner == comm.rank() ? std::make_unique<Together>(3) : nullptr));
    ServedBarrier barrier(server);
    server.open();
    for (int round = 0; round < 30 && comm.rank() < 3; ++round)
      for (const int d : handlers) {
        server.request(d, 1);
        server.wait(d);
      }
    barrier.wait();
  });
}

TEST(Server, barriers_follow_each_other) {
  for (const int ranks : {1, 2, 5}) {
    std::atomic<int> arrived{0};
    run_ranks(ranks, [&](Communicator& comm) {
      Server server(comm);
      ServedBarrier barrier(server, ranks - 1);
      server.open();
      for (int round = 1; round <= 20; ++round) {
        ++arrived;
        barrier.wait();
        EXPECT_GE(arrived, round * ranks);
        barrier.wait();
      }
    });
  }
}

TEST(Server, numbers_are_dealt_once_and_end) {
  for (const int ranks : {1, 3}) {
    std::mutex mutex;
    std::vector<std::int64_t> taken;
    run_ranks(ranks, [&](Communicator& comm) {
      Server server(comm);
      ServedCounter counter(server, ranks - 1);
      server.open();
      for (int epoch = 0; epoch < 2; ++epoch) {
        comm.barrier();
        counter.restart(100 * epoch + 7, 100 * epoch + 50);
        comm.barrier();
        std::int64_t last = -1;
        for (std::int64_t t = counter.take(); t >= 0; t = counter.take()) {
          EXPECT_GT(t, last) << "ascending on each rank";
          last = t;
          const std::lock_guard lock(mutex);
          taken.push_back(t);
        }
      }
      comm.barrier();
    });
    std::sort(taken.begin(), taken.end());
    std::vector<std::int64_t> all(43);
    std::iota(all.begin(), all.end(), 7);
    for (int i = 0; i < 43; ++i) all.push_back(107 + i);
    EXPECT_EQ(taken, all) << ranks;
  }
}

TEST(Server, a_handler_that_fails_ends_all_ranks_with_its_reason) {
  class Broken : public RequestHandler {
    std::size_t handle(int, std::span<std::byte>) override { throw Error("the handler is broken"); }
  };
  try {
    run_ranks(3, [](Communicator& comm) {
      Server server(comm);
      const int handler = server.add({.owner = 2, .bytes = 8}, comm.rank() == 2 ? std::make_unique<Broken>() : nullptr);
      ServedBarrier barrier(server);
      server.open();
      if (comm.rank() == 0) {
        server.request(handler, 8);
        server.wait(handler);
      }
      barrier.wait();
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "the handler is broken");
  }
}

}  // namespace
}  // namespace tutti::server_test

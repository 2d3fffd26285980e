// SPDX-License-Identifier: Apache-2.0
// Which rank holds up the others, from what a watchdog knows; and messages with checksums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <thread>

#include "base/exit_codes.h"
#include "comm/checksums.h"
#include "comm/threads.h"
#include "comm/watch_link.h"
#include "comm/watch_verdict.h"

namespace tutti {
namespace {

std::vector<WatchedRank> three() {
  std::vector<WatchedRank> ranks(3);
  for (int r = 0; r < 3; ++r) {
    ranks[static_cast<std::size_t>(r)].rank = r, ranks[static_cast<std::size_t>(r)].host = "h";
    ranks[static_cast<std::size_t>(r)].linked = true;
    ranks[static_cast<std::size_t>(r)].beat.training = true;
  }
  return ranks;
}

TEST(Watch, NobodyIsToBlame) {
  auto ranks = three();
  EXPECT_FALSE(judge(ranks, 10, 1));
  ranks[1].linked = false, ranks[1].silent = 99;  // it has never been there
  EXPECT_FALSE(judge(ranks, 10, 1));
  ranks = three();
  ranks[1].done = ranks[1].closed = true, ranks[1].closed_for = 99;
  EXPECT_FALSE(judge(ranks, 10, 1));
  ranks = three();
  ranks[0].beat.waiting = ranks[2].beat.waiting = true;  // for rank 1, which works outside of training
  ranks[0].beat.idle_ms = ranks[1].beat.idle_ms = ranks[2].beat.idle_ms = 99'000;
  ranks[1].beat.training = false;
  EXPECT_FALSE(judge(ranks, 10, 1));
}

TEST(Watch, TheCauseIsNamed) {
  const auto blames = [](auto change) {
    auto ranks = three();
    change(ranks[1]);
    const auto v = judge(ranks, 10, 1);
    return v && v->rank == 1 ? static_cast<int>(v->code) : -1;
  };
  EXPECT_EQ(blames([](WatchedRank& r) { r.closed = true, r.closed_for = 2; }), kRankDied);
  EXPECT_EQ(blames([](WatchedRank& r) { r.closed = true, r.closed_for = 0.5; }), -1);  // the launcher may say why
  EXPECT_EQ(blames([](WatchedRank& r) { r.closed = true, r.closed_for = 2, r.why_closed = ETIMEDOUT; }), kLinkCut);
  EXPECT_EQ(blames([](WatchedRank& r) { r.silent = 11; }), kRankFrozen);
  // Stopped within a long step: it is not late as long as nobody knows that it runs.
  EXPECT_EQ(blames([](WatchedRank& r) { r.silent = 9, r.beat.idle_ms = 2'000; }), -1);
  EXPECT_EQ(blames([](WatchedRank& r) { r.silent = 11, r.beat.idle_ms = 2'000; }), kRankFrozen);
  EXPECT_EQ(blames([](WatchedRank& r) { r.silent = 11, r.acknowledged = false; }), kLinkCut);
  EXPECT_EQ(blames([](WatchedRank& r) { r.beat.idle_ms = 11'000; }), kRankStalled);
}

// As of a process that SIGSTOP has stopped for minutes: its receive window is full, and its host still answers.
TEST(Watch, AHostAcknowledgesForAProcessThatReadsNothing) {
  WatchListener listener;
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET, to.sin_port = htons(listener.address().port), to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  WatchLink frozen = listener.accept(), link(fd);
  ASSERT_TRUE(frozen.open());
  for (int i = 0; i < 40'000; ++i) link.send({});
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!link.acknowledged() && std::chrono::steady_clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(link.acknowledged());
}

TEST(Watch, OfRanksThatAllWaitTheOneBehind) {
  auto ranks = three();
  for (WatchedRank& r : ranks) r.beat.waiting = true, r.beat.idle_ms = 11'000, r.beat.epoch = 2, r.beat.minibatch = 9;
  ranks[2].beat.minibatch = 8;
  const auto v = judge(ranks, 10, 1);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->rank, 2);
}

TEST(Watch, OfRanksThatAllWaitTheOneThatNobodyHears) {
  auto ranks = three();
  for (WatchedRank& r : ranks) r.beat.waiting = true, r.beat.idle_ms = 11'000;
  ranks[1].linked = false, ranks[1].beat = {};
  auto v = judge(ranks, 10, 1);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->rank, 1);
  EXPECT_NE(v->text.find("never connected"), std::string::npos);
  ranks[2].beat.idle_ms = 0;
  EXPECT_FALSE(judge(ranks, 10, 1));
}

TEST(Watch, WhereARankIs) {
  WatchedRank r = three()[1];
  r.beat.epoch = 3, r.beat.minibatch = 17, r.beat.waiting = true, r.beat.bucket = 4, r.beat.peer = 2,
  r.beat.idle_ms = 30'100;
  std::copy_n("sums", 4, r.beat.doing.begin());
  EXPECT_EQ(where_it_is(r), "rank 1 on h: epoch 3, minibatch 17: waits for sums of bucket 4 of rank 2 since 30.1 s");
}

// Transfers of each kind, in whole and in part, polled and waited for.
TEST(Checksums, MessagesArrive) {
  run_ranks(3, [](Communicator& world) {
    const auto comm = make_checksummed(world, ChecksummedMessages::all);
    const int next = (comm->rank() + 1) % 3, before = (comm->rank() + 2) % 3;
    std::array<std::byte, 100> out{}, in{};
    const auto send = comm->plan_send(next, 5, out);
    const auto receive = comm->plan_receive(before, 5, in);
    const auto poller = comm->plan_poller(2);
    for (int round = 1; round < 6; ++round) {
      out.fill(static_cast<std::byte>(round + 10 * comm->rank()));
      const std::size_t bytes = round % 2 ? 100 : 37;
      receive->start(bytes), send->start(bytes);
      std::array<Transfer*, 2> both{send.get(), receive.get()};
      while (round > 2 && !(send->complete() && receive->complete())) poller->poll(both);
      send->wait(), receive->wait();
      EXPECT_EQ(in[bytes - 1], static_cast<std::byte>(round + 10 * before));
    }
    std::array<double, 2> sums{1, static_cast<double>(comm->rank())};
    comm->all_reduce_sum(std::span<double>(sums));
    EXPECT_EQ(sums[1], 3);
    EXPECT_EQ(comm->split(comm->rank() % 2)->size(), comm->rank() % 2 ? 1 : 2);
  });
}

TEST(Checksums, ABitIsFound) {
  damage_next_message();
  try {
    run_ranks(2, [](Communicator& world) {
      const auto comm = make_checksummed(world, ChecksummedMessages::all);
      std::array<std::byte, 9> bytes{};
      const auto t = comm->rank() ? comm->receive(0, 1, bytes) : comm->send(1, 1, bytes);
      t->wait();
    });
    FAIL();
  } catch (const CodedError& e) {
    EXPECT_EQ(e.code(), kMessageDamaged);
    EXPECT_THAT(e.what(), testing::HasSubstr("9 bytes from rank 0"));
  }
}

}  // namespace
}  // namespace tutti

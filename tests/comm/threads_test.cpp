// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "../support/run_ranks.h"
#include "communicator_checks.h"

namespace tutti {
namespace {

class Threads : public testing::TestWithParam<int> {};
TEST_P(Threads, KeepTheContract) { run_ranks(GetParam(), checks::everything); }
INSTANTIATE_TEST_SUITE_P(Ranks, Threads, testing::Values(1, 2, 3, 5));

TEST(RunRanks, SoloWorldHasOneRank) {
  const auto comm = make_solo_communicator();
  EXPECT_EQ(comm->size(), 1);
  checks::everything(*comm);
}

TEST(RunRanks, RunsEveryRankOnce) {
  std::atomic<int> seen = 0;
  run_ranks(4, [&](Communicator& comm) { seen += 1 << (4 * comm.rank()); });
  EXPECT_EQ(seen, 0x1111);
}

// Whatever the others wait for, a rank that throws ends the run with its own exception.
void expect_first(const std::function<void(Communicator&)>& others) {
  try {
    run_ranks(4, [&](Communicator& comm) {
      if (comm.rank() == 2) throw std::runtime_error("rank 2 is out of data");
      others(comm);
      FAIL() << "nobody can pass";
    });
    FAIL() << "no exception";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "rank 2 is out of data");
  }
}

TEST(RunRanks, AThrowingRankFreesABarrier) {
  expect_first([](Communicator& comm) { comm.barrier(); });
}
TEST(RunRanks, AThrowingRankFreesACollectiveOfAPart) {
  expect_first([](Communicator& comm) { comm.split(0)->barrier(); });
}
TEST(RunRanks, AThrowingRankFreesAReceive) {
  expect_first([](Communicator& comm) {
    std::byte b{};
    comm.receive(2, 1, {&b, 1})->wait();
  });
}
TEST(RunRanks, AThrowingRankFreesPolling) {
  expect_first([](Communicator& comm) {
    std::byte b{};
    const auto transfer = comm.send(2, 1, {&b, 1});
    while (!transfer->done()) {
    }
  });
}
TEST(RunRanks, AThrowingRankFreesWhoWaitsForItsCounter) {
  expect_first([](Communicator& comm) {
    while (true) comm.share_memory(64)->poll();
  });
  std::atomic<int> shared = 0;
  EXPECT_THROW(run_ranks(3,
                         [&](Communicator& comm) {
                           const auto memory = comm.share_memory(sizeof(SharedCounter));
                           ++shared;
                           if (comm.rank() == 2) throw std::runtime_error("rank 2 is out of data");
                           auto* counter = reinterpret_cast<SharedCounter*>(memory->of(2).data());
                           while (!counter->reached(1)) memory->poll();
                         }),
               std::runtime_error);
  EXPECT_EQ(shared, 3);
}

TEST(RunRanks, DifferentLengthsAreAnError) {
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& comm) {
                           std::vector<std::byte> bytes(comm.rank() == 0 ? 8 : 9);
                           (comm.rank() == 0 ? comm.send(1, 3, bytes) : comm.receive(0, 3, bytes))->wait();
                         }),
               Error);
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "actions/together.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <string>

#include "support/run_ranks.h"
#include "tutti/error.h"

namespace tutti::actions::together_test {
namespace {

TEST(Together, AllGoOnWhenNoRankFails) {
  std::atomic<int> ok = 0;
  run_ranks(3, [&](Communicator& world) { ok += together(world, [] {}); });
  EXPECT_EQ(ok, 3);
}

TEST(Together, OneFailureStopsEveryRankAndIsPrintedOnce) {
  testing::internal::CaptureStderr();
  std::atomic<int> ok = 0;
  run_ranks(4, [&](Communicator& world) {
    ok += together(world, [&] {
      if (world.rank() >= 2) throw Error("no such file: x");
    });
  });
  EXPECT_EQ(ok, 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[rank 2] no such file: x\n");
}

// It is no mistake in the configuration.
TEST(Together, EveryRankThrowsWhenOneHasNoMemory) {
  std::atomic<int> thrown = 0;
  run_ranks(3, [&](Communicator& world) {
    try {
      together(world, [&] {
        if (world.rank() == 1) throw std::bad_alloc();
      });
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).find("[rank 1] this process cannot allocate more memory\nfix: "), 0u) << e.what();
      ++thrown;
    }
  });
  EXPECT_EQ(thrown, 3);
}

}  // namespace
}  // namespace tutti::actions::together_test

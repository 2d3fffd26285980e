// SPDX-License-Identifier: Apache-2.0
#include "actions/together.h"

#include <gtest/gtest.h>

#include <atomic>

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

}  // namespace
}  // namespace tutti::actions::together_test

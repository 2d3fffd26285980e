// SPDX-License-Identifier: Apache-2.0
// Which steps of which rank the fault hook disturbs, and how it says so.
#include "parallel/fault_injection.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::fault_hook_test {
namespace {

std::vector<std::int64_t> disturbed(const FaultHookOptions& o, int rank) {
  const FaultHook hook(o, rank);
  std::vector<std::int64_t> steps;
  for (std::int64_t s = 0; s < 20; ++s)
    if (hook.due(s)) steps.push_back(s);
  return steps;
}

TEST(FaultHook, DisturbsTheNamedRankInTheNamedSteps) {
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(disturbed({.rank = 1, .sleep = 1}, 0), Steps());
  EXPECT_EQ(disturbed({.rank = 1, .sleep = 1}, 1).size(), 20U);
  EXPECT_EQ(disturbed({.rank = 2, .every = 8, .first_step = 3}, 2), (Steps{3, 11, 19}));
  EXPECT_EQ(disturbed({.rank = 2, .every = 8, .first_step = 3, .steps = 2}, 2), (Steps{3, 11}));
  EXPECT_EQ(disturbed({.rank = 0, .first_step = 5, .steps = 1}, 0), (Steps{5}));
  for (const int rank : {0, 1, 7}) EXPECT_EQ(disturbed({.rank = -1, .every = 8}, rank), (Steps{0, 8, 16}));
  EXPECT_FALSE(FaultHook().due(0)) << "a run without the block";
}

TEST(FaultHook, SaysWhatItWillDo) {
  EXPECT_EQ((FaultHookOptions{.rank = 1, .sleep = 0.05}.text()), "rank 1 sleeps 0.05 s in every step");
  EXPECT_EQ((FaultHookOptions{.rank = -1, .sleep = 0.05}.text()), "every rank sleeps 0.05 s in every step");
  EXPECT_EQ((FaultHookOptions{.rank = 3, .sleep = 2, .every = 4, .first_step = 9, .steps = 1}.text()),
            "rank 3 sleeps 2 s in one step of 4, from step 10 on, 1 time");
  EXPECT_EQ((FaultHookOptions{.rank = 0, .first_step = 9, .exit = true}.text()), "rank 0 ends in step 10");
}

}  // namespace
}  // namespace tutti::fault_hook_test

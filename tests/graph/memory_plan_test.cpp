// SPDX-License-Identifier: Apache-2.0
#include "graph/memory_plan.h"

#include <gtest/gtest.h>

#include "tutti/error.h"

namespace tutti::graph::memory_plan_test {
namespace {

TEST(MemoryPlan, ReusesWhatIsNoLongerNeeded) {
  std::vector<Buffer> buffers{{.per_column = 16, .begin = 0, .end = 1},
                              {.per_column = 8, .begin = 1, .end = 2},
                              {.fixed = 5, .begin = 2, .end = 3}};
  EXPECT_EQ(place(buffers, 2, true), 48u);  // the third lies where the first was
  EXPECT_EQ(buffers[2].offset, 0u);
  EXPECT_EQ(place(buffers, 2, false), 64u);
}

// Sizes that wrap around would look small.
TEST(MemoryPlan, MoreThanCanBeCountedIsRefused) {
  std::vector<Buffer> one{{.per_column = std::size_t{1} << 40, .begin = 0, .end = 1}};
  EXPECT_EQ(place(one, std::size_t{1} << 19, true), std::size_t{1} << 59);
  EXPECT_THROW(place(one, std::size_t{1} << 24, true), Error);
  EXPECT_THROW(place(one, std::size_t{1} << 31, true), Error);
  std::vector<Buffer> many(40, one[0]);
  EXPECT_THROW(place(many, std::size_t{1} << 19, false), Error);
}

}  // namespace
}  // namespace tutti::graph::memory_plan_test

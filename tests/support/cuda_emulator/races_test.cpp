// SPDX-License-Identifier: Apache-2.0
// Kernels that tell of what they touch are held to what orders them, in whichever order they ran.
#include <gtest/gtest.h>

#include <vector>

#include "racing_kernels.h"

namespace {

class RacesDeathTest : public testing::Test {
 protected:
  std::vector<int> out = std::vector<int>(64);
};

constexpr const char* race = "with nothing between them";

TEST_F(RacesDeathTest, BetweenThreadsOfABlock) {
  racing::block_reads_neighbour(true, out.data());
  EXPECT_EQ(out[63], 62);
  EXPECT_DEATH(racing::block_reads_neighbour(false, out.data()), race);
  racing::writes_over(true, out.data());
  EXPECT_EQ(out[63], 1);
  EXPECT_DEATH(racing::writes_over(false, out.data()), race);
}

TEST_F(RacesDeathTest, BetweenLanesOfAWarp) {
  racing::warp_reads_neighbour(true, out.data());
  EXPECT_EQ(out[63], 62);
  EXPECT_DEATH(racing::warp_reads_neighbour(false, out.data()), race);
}

TEST_F(RacesDeathTest, BetweenBlocks) {
  racing::reads_of_other_block(false, out.data());
  EXPECT_EQ(out[3], 1);
  EXPECT_DEATH(racing::reads_of_other_block(true, out.data()), race);
  racing::blocks_write(false, out.data());
  EXPECT_EQ(out[1], 1);
  EXPECT_DEATH(racing::blocks_write(true, out.data()), race);
}

TEST_F(RacesDeathTest, SharedMemoryThatNobodyWrote) {
  racing::reads_what_is_written(true, out.data());
  EXPECT_EQ(out[0], 1);
  EXPECT_DEATH(racing::reads_what_is_written(false, out.data()), "before it is written");
}

TEST_F(RacesDeathTest, AddressesOfSeveralNumbers) {
  alignas(16) const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  alignas(16) float four[4] = {};
  racing::reads_four_from(4, x, four);
  EXPECT_EQ(four[3], 8);
  EXPECT_DEATH(racing::reads_four_from(2, x, four), "not a multiple");
}

}  // namespace

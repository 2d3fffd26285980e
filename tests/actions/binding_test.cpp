// SPDX-License-Identifier: Apache-2.0
#include "actions/binding.h"

#include <gtest/gtest.h>

#include "comm/threads.h"

namespace tutti::binding_test {
namespace {

TEST(Binding, ListsCoresInRuns) {
  EXPECT_EQ(actions::core_list({}), "");
  EXPECT_EQ(actions::core_list({7}), "7");
  EXPECT_EQ(actions::core_list({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(Binding, NamesEveryRankOnItsHost) {
  run_ranks(3, [](Communicator& comm) {
    const auto lines = actions::binding_lines(comm, comm.rank() == 1 ? "4-7" : "2");
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0], "  binding    " + comm.host() + ": rank 0 on core 2, rank 1 on cores 4-7, rank 2 on core 2");
  });
}

}  // namespace
}  // namespace tutti::binding_test

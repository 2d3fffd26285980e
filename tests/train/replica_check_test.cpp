// SPDX-License-Identifier: Apache-2.0
// Replicas that differ are named by rank and parameter; containers that were kept in memory are the same files.
#include "train/replica_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/threads.h"
#include "support.h"
#include "train/container.h"

namespace tutti::replica_check_test {
namespace {

using testing::Directory;
using testing::slurp;

Parameters two_slices() {
  Parameters p;
  p.slices.resize(2);
  p.slices[0].name = "W", p.slices[0].rows = 3, p.slices[0].columns = 2, p.slices[0].shape = Shape{{3, 2}};
  p.slices[1].name = "B", p.slices[1].offset = 6, p.slices[1].rows = 4, p.slices[1].columns = 1;
  p.slices[1].shape = Shape{{4, 1}};
  p.weights = FloatBuffer(10);
  for (std::size_t i = 0; i < 10; ++i) p.weights.data()[i] = static_cast<float>(i);
  return p;
}

TEST(ReplicaCheck, NamesRankAndParameter) {
  run_ranks(4, [](Communicator& comm) {
    Parameters p = two_slices();
    EXPECT_TRUE(compare_replicas(p, comm).empty());
    if (comm.rank() == 2) p.weights.data()[7] += 1;
    const auto found = compare_replicas(p, comm);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(p.slices[found[0].slice].name, "B");
    EXPECT_THAT(found[0].wrong, ::testing::ElementsAre(2));
    EXPECT_EQ(found[0].right, 0);
  });
}

TEST(ReplicaCheck, ATieHasNoMajority) {
  run_ranks(2, [](Communicator& comm) {
    Parameters p = two_slices();
    p.weights.data()[0] = static_cast<float>(comm.rank());
    const auto found = compare_replicas(p, comm);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].right, -1);
    EXPECT_THAT(found[0].wrong, ::testing::ElementsAre(0, 1));
  });
}

void fill(ContainerWriter& w, std::int64_t number) {
  const std::vector<float> large(1'000'003, 0.5f), small{1, 2, 3};
  w.add("number", number);
  w.add("large", Shape{{large.size()}}, large);
  w.add("text", std::string_view("some text"));
  w.add("small", Shape{{3}}, small);
}

// Twice, as memory is taken again; and once more after a failure.
TEST(MemoryContainer, IsTheSameFile) {
  const Directory d;
  ContainerWriter file(d / "a", "checkpoint");
  fill(file, 7);
  const std::uint64_t sum = file.finish();
  file.commit();
  for (int round = 0; round < 2; ++round) {
    ContainerWriter memory(d / "b", "checkpoint", ContainerWriter::Storage::memory);
    fill(memory, 0);
    memory.set("number", 7);
    EXPECT_EQ(memory.finish(), sum);
    EXPECT_EQ(memory.finish(), sum);
    memory.commit();
    EXPECT_EQ(slurp(d / "a"), slurp(d / "b"));
  }
  EXPECT_EQ(d.files().size(), 2u);
}

}  // namespace
}  // namespace tutti::replica_check_test

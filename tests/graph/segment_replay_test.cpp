// SPDX-License-Identifier: Apache-2.0
// Segments of a program: done at first, recorded the second time, repeated then; chunks are announced each time.
#include "graph/segment_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::graph::segment_replay_test {
namespace {

struct Counts {
  int recorded = 0, repeated = 0;
  bool works = true;      // captured graphs can be made
  bool outdated = false;  // and repeated
  std::string obstacle = {};
};

class CountingCapture final : public GraphCapture {
 public:
  explicit CountingCapture(Counts& c) : counts(c) {}
  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override {
    work();
    ++counts.recorded;
    if (!counts.works) return nullptr;
    counts.outdated = false;
    return std::make_unique<Counting>(counts);
  }
  std::string obstacle() const override { return counts.obstacle; }

 private:
  struct Counting final : CapturedGraph {
    explicit Counting(Counts& c) : counts(c) {}
    bool launch() override {
      counts.repeated += !counts.outdated;
      return !counts.outdated;
    }
    Counts& counts;
  };
  Counts& counts;
};

class Chunks final : public GradientSink {
 public:
  void chunk_ready(std::size_t chunk) override { seen.push_back(chunk); }
  std::vector<std::size_t> seen;
};

class SegmentReplayTest : public testing::Test {
 protected:
  void SetUp() override {
    run.columns = {8};
    run.values = {&workspace, nullptr};
    run.sink = &chunks;
  }
  // A step of one segment that announces chunks 4 and 5; whether it has really been worked on.
  bool step(SegmentReplay& replay) {
    chunks.seen.clear();
    const int before = worked;
    replay.begin(run);
    replay.run(0, run, [&] {
      ++worked;
      run.sink->chunk_ready(4), run.sink->chunk_ready(5);
    });
    EXPECT_EQ(chunks.seen, (std::vector<std::size_t>{4, 5}));
    return worked > before;
  }
  std::unique_ptr<Backend> backend = make_backend("cpu");
  graph::Run run{*backend};
  Chunks chunks;
  Counts counts;
  CountingCapture capture{counts};
  float workspace = 0;
  int worked = 0;
};

TEST_F(SegmentReplayTest, WithoutACaptureEverythingIsDone) {
  SegmentReplay replay;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(step(replay));
}

TEST_F(SegmentReplayTest, RecordsTheSecondTime) {
  SegmentReplay replay;
  replay.use(capture);
  EXPECT_TRUE(step(replay));
  EXPECT_EQ(counts.recorded, 0);
  EXPECT_TRUE(step(replay));  // to note it
  EXPECT_EQ(counts.recorded, 1);
  EXPECT_EQ(counts.repeated, 1);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(step(replay));
  EXPECT_EQ(counts.repeated, 4);
}

TEST_F(SegmentReplayTest, EachShapeHasItsOwn) {
  SegmentReplay replay;
  replay.use(capture);
  const auto warm_up = [&] {
    step(replay), step(replay);
    const int recorded = counts.recorded;
    EXPECT_FALSE(step(replay));
    EXPECT_EQ(counts.recorded, recorded);
  };
  warm_up();
  run.columns = {3};
  EXPECT_TRUE(step(replay));
  warm_up();
  run.columns = {8};
  EXPECT_FALSE(step(replay)) << "it is still known";
  float elsewhere = 0;
  run.values[0] = &elsewhere;
  EXPECT_TRUE(step(replay));
  warm_up();
  run.gradient_scale = 2;
  EXPECT_TRUE(step(replay));
  warm_up();
  run.last_part = false;
  EXPECT_TRUE(step(replay));
  warm_up();
  run.gradient_scale = 1, run.last_part = true;
  EXPECT_FALSE(step(replay));
}

TEST_F(SegmentReplayTest, StepsOfSequencesAreKnownByHowManyGoOn) {
  SegmentReplay replay;
  replay.use(capture);
  run.sequences.resize(1);
  const auto lengths = [&](const std::vector<std::int64_t>& of) { run.sequences[0].assign_lengths(of); };
  lengths({3, 3, 2});
  EXPECT_TRUE(step(replay) && step(replay));
  EXPECT_FALSE(step(replay));
  lengths({3, 2, 3});
  EXPECT_FALSE(step(replay)) << "others, of the same lengths";
  lengths({4, 2, 2});
  EXPECT_TRUE(step(replay)) << "as many columns, but other steps";
  const std::vector<Fragment> fragments(3);
  lengths({3, 3, 2});
  run.fragments = fragments;
  EXPECT_TRUE(step(replay)) << "truncated ones keep states";
}

TEST_F(SegmentReplayTest, ForgetsWhatHasNotComeForLong) {
  SegmentReplay replay;
  replay.use(capture);
  const auto comes = [&](std::size_t columns) {
    run.columns = {columns};
    return step(replay);
  };
  comes(1), comes(1), comes(2), comes(2);
  for (std::size_t other = 3; other < 17; ++other) comes(other);  // 16 in all
  EXPECT_FALSE(comes(1));
  EXPECT_TRUE(comes(17)) << "in the place of 2";
  EXPECT_FALSE(comes(1));
  EXPECT_TRUE(comes(2));
  EXPECT_FALSE(comes(1));
}

TEST_F(SegmentReplayTest, WhatCannotBeRecordedIsDone) {
  SegmentReplay replay;
  replay.use(capture);
  counts.works = false;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(step(replay));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "it is by design";
  EXPECT_EQ(counts.recorded, 1) << "and not tried again";
}

TEST_F(SegmentReplayTest, WhatADeviceHasAgainstItIsTold) {
  SegmentReplay replay;
  replay.use(capture);
  counts.works = false, counts.obstacle = "it is not up to it";
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(step(replay));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("cannot be captured in a CUDA graph: it is not up to it"));
}

TEST_F(SegmentReplayTest, OutdatedRecordingsAreMadeAnew) {
  SegmentReplay replay;
  replay.use(capture);
  step(replay), step(replay);
  counts.outdated = true;
  EXPECT_TRUE(step(replay));
  EXPECT_EQ(counts.recorded, 1) << "first what was given back is made again";
  EXPECT_TRUE(step(replay));
  EXPECT_EQ(counts.recorded, 2);
  EXPECT_FALSE(step(replay));
}

TEST(Replayable, IsOnlyWhatIsTheSameEveryTime) {
  Instruction i;
  i.in.assign(2, {.elements = 1});
  i.out.elements = 1;
  const auto replayable = [&](const char* operation) {
    i.operation = operation;
    return make_kernel(i)->replayable;
  };
  EXPECT_TRUE(replayable("Plus"));
  EXPECT_TRUE(replayable("Times"));
  i.reads_sparse = true;
  EXPECT_FALSE(replayable("Times"));
  i.reads_sparse = false;
  for (const char* operation : {"TimeReverse", "SliceTime", "GatherPacked", "Where"})
    EXPECT_FALSE(replayable(operation)) << operation;
}

}  // namespace
}  // namespace tutti::graph::segment_replay_test

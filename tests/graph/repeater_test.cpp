// SPDX-License-Identifier: Apache-2.0
// Segments of a program: done at first, recorded the second time, repeated then; chunks are announced each time.
#include "graph/repeater.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::graph::repeater_test {
namespace {

struct Counts {
  int recorded = 0, repeated = 0;
  bool works = true;      // recordings can be made
  bool outdated = false;  // and repeated
  std::string obstacle = {};
};

class CountingRecorder final : public Recorder {
 public:
  explicit CountingRecorder(Counts& c) : counts(c) {}
  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    work();
    ++counts.recorded;
    if (!counts.works) return nullptr;
    counts.outdated = false;
    return std::make_unique<Counting>(counts);
  }
  std::string obstacle() const override { return counts.obstacle; }

 private:
  struct Counting final : Recording {
    explicit Counting(Counts& c) : counts(c) {}
    bool repeat() override {
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

class RepeaterTest : public testing::Test {
 protected:
  void SetUp() override {
    run.columns = {8};
    run.values = {&workspace, nullptr};
    run.sink = &chunks;
  }
  // A step of one segment that announces chunks 4 and 5; whether it has really been worked on.
  bool step(Repeater& repeater) {
    chunks.seen.clear();
    const int before = worked;
    repeater.begin(run);
    repeater.run(0, run, [&] {
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
  CountingRecorder recorder{counts};
  float workspace = 0;
  int worked = 0;
};

TEST_F(RepeaterTest, WithoutARecorderEverythingIsDone) {
  Repeater repeater;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(step(repeater));
}

TEST_F(RepeaterTest, RecordsTheSecondTime) {
  Repeater repeater;
  repeater.use(recorder);
  EXPECT_TRUE(step(repeater));
  EXPECT_EQ(counts.recorded, 0);
  EXPECT_TRUE(step(repeater));  // to note it
  EXPECT_EQ(counts.recorded, 1);
  EXPECT_EQ(counts.repeated, 1);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(step(repeater));
  EXPECT_EQ(counts.repeated, 4);
}

TEST_F(RepeaterTest, EachShapeHasItsOwn) {
  Repeater repeater;
  repeater.use(recorder);
  const auto settle = [&] {
    step(repeater), step(repeater);
    const int recorded = counts.recorded;
    EXPECT_FALSE(step(repeater));
    EXPECT_EQ(counts.recorded, recorded);
  };
  settle();
  run.columns = {3};
  EXPECT_TRUE(step(repeater));
  settle();
  run.columns = {8};
  EXPECT_FALSE(step(repeater)) << "it is still known";
  float elsewhere = 0;
  run.values[0] = &elsewhere;
  EXPECT_TRUE(step(repeater));
  settle();
  run.gradient_scale = 2;
  EXPECT_TRUE(step(repeater));
  settle();
  run.last_part = false;
  EXPECT_TRUE(step(repeater));
  settle();
  run.gradient_scale = 1, run.last_part = true;
  EXPECT_FALSE(step(repeater));
}

TEST_F(RepeaterTest, StepsOfSequencesAreKnownByHowManyGoOn) {
  Repeater repeater;
  repeater.use(recorder);
  run.sequences.resize(1);
  const auto lengths = [&](const std::vector<std::int64_t>& of) { run.sequences[0].assign_lengths(of); };
  lengths({3, 3, 2});
  EXPECT_TRUE(step(repeater) && step(repeater));
  EXPECT_FALSE(step(repeater));
  lengths({3, 2, 3});
  EXPECT_FALSE(step(repeater)) << "others, of the same lengths";
  lengths({4, 2, 2});
  EXPECT_TRUE(step(repeater)) << "as many columns, but other steps";
  const std::vector<Fragment> fragments(3);
  lengths({3, 3, 2});
  run.fragments = fragments;
  EXPECT_TRUE(step(repeater)) << "truncated ones keep states";
}

TEST_F(RepeaterTest, ForgetsWhatHasNotComeForLong) {
  Repeater repeater;
  repeater.use(recorder);
  const auto comes = [&](std::size_t columns) {
    run.columns = {columns};
    return step(repeater);
  };
  comes(1), comes(1), comes(2), comes(2);
  for (std::size_t other = 3; other < 17; ++other) comes(other);  // 16 in all
  EXPECT_FALSE(comes(1));
  EXPECT_TRUE(comes(17)) << "in the place of 2";
  EXPECT_FALSE(comes(1));
  EXPECT_TRUE(comes(2));
  EXPECT_FALSE(comes(1));
}

TEST_F(RepeaterTest, WhatCannotBeRecordedIsDone) {
  Repeater repeater;
  repeater.use(recorder);
  counts.works = false;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(step(repeater));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "it is by design";
  EXPECT_EQ(counts.recorded, 1) << "and not tried again";
}

TEST_F(RepeaterTest, WhatADeviceHasAgainstItIsTold) {
  Repeater repeater;
  repeater.use(recorder);
  counts.works = false, counts.obstacle = "it is not up to it";
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(step(repeater));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("cannot record it: it is not up to it"));
}

TEST_F(RepeaterTest, OutdatedRecordingsAreMadeAnew) {
  Repeater repeater;
  repeater.use(recorder);
  step(repeater), step(repeater);
  counts.outdated = true;
  EXPECT_TRUE(step(repeater));
  EXPECT_EQ(counts.recorded, 1) << "first what was given back is made again";
  EXPECT_TRUE(step(repeater));
  EXPECT_EQ(counts.recorded, 2);
  EXPECT_FALSE(step(repeater));
}

TEST(Repeats, OnlyWhatIsTheSameEveryTime) {
  Instruction i;
  i.operation = "Times";
  EXPECT_TRUE(repeats(i));
  i.reads_sparse = true;
  EXPECT_FALSE(repeats(i));
  i.reads_sparse = false;
  for (const char* operation : {"TimeReverse", "SliceTime", "GatherPacked", "Where"}) {
    i.operation = operation;
    EXPECT_FALSE(repeats(i)) << operation;
  }
}

}  // namespace
}  // namespace tutti::graph::repeater_test

// SPDX-License-Identifier: Apache-2.0
// Prefetching changes nothing but the time: same minibatches, same errors at the same step, clean ends at any moment.
#include "reader/prefetch_reader.h"

#include <gtest/gtest.h>

#include <set>

#include "reader_support.h"

namespace tutti::reader::prefetch_test {
namespace {

MinibatchMaker numbered(std::size_t n) {
  return MinibatchMaker(std::make_unique<NumberedSource>(std::vector<std::uint32_t>(n, 1)), {});
}

TEST(Prefetch, SameMinibatchesForAnyDepth) {
  DirectReader direct(numbered(57));
  for (const std::size_t depth : {1u, 2u, 5u}) {
    PrefetchReader ahead(numbered(57), depth);
    EXPECT_EQ(ahead.sweep_samples(), 57);
    for (const std::int64_t epoch : {0, 1, 4}) {
      const EpochPlan plan{.epoch = epoch, .samples = 40, .minibatch = 6, .rank = 1, .ranks = 2};
      EXPECT_EQ(read_epoch(ahead, plan), read_epoch(direct, plan));
      EXPECT_EQ(ahead.next(), nullptr);
    }
  }
}

TEST(Prefetch, ABatchStaysWhileTheNextOnesAreMade) {
  PrefetchReader reader(numbered(1000));
  reader.start_epoch({.minibatch = 10});
  for (int i = 0; i < 50; ++i) {
    const Batch* b = reader.next();
    const std::vector<float> before(b->streams[0].dense.begin(), b->streams[0].dense.end());
    for (int wait = 0; wait < 20; ++wait) std::this_thread::yield();
    EXPECT_EQ(before, std::vector<float>(b->streams[0].dense.begin(), b->streams[0].dense.end()));
  }
}

TEST(Prefetch, WhatComesNextIsSeenAhead) {
  PrefetchReader reader(numbered(30));
  reader.start_epoch({.minibatch = 10});
  for (int i = 0; i < 3; ++i) {
    const Batch* seen = nullptr;
    while (!(seen = reader.ahead())) std::this_thread::yield();
    const std::vector<float> before(seen->streams[0].dense.begin(), seen->streams[0].dense.end());
    const Batch* b = reader.next();
    EXPECT_EQ(b, seen);
    EXPECT_EQ(before, std::vector<float>(b->streams[0].dense.begin(), b->streams[0].dense.end()));
  }
  EXPECT_EQ(reader.next(), nullptr);
  EXPECT_EQ(reader.ahead(), nullptr);
}

TEST(Prefetch, StopsAndStartsAnewAtAnyMoment) {
  for (int taken = 0; taken < 12; ++taken) {
    PrefetchReader reader(numbered(60));
    for (int again = 0; again < 20; ++again) {
      reader.start_epoch({.epoch = again, .minibatch = 5});
      for (int i = 0; i < taken; ++i) {
        const Batch* b = reader.next();
        ASSERT_TRUE(b);
        EXPECT_EQ(b->position, 5 * i);
      }
    }
  }
  PrefetchReader never_started(numbered(3));
}

// Fails from the n-th minibatch on.
class FailingSource final : public SequenceSource {
 public:
  explicit FailingSource(int after) : after_(after) {}
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override { return index_; }
  void read(std::span<const std::uint32_t>, Share& share) override {
    if (after_-- <= 0) throw Error("the disk is gone");
    share.end_single_samples(0);
  }

 private:
  std::vector<StreamInfo> infos_{{"x", 1, false}};
  SequenceIndex index_ = SequenceIndex::uniform(100);
  int after_;
};

TEST(Prefetch, ErrorsComeAtTheirStep) {
  for (const int after : {0, 1, 2, 3, 7}) {
    PrefetchReader reader(MinibatchMaker(std::make_unique<FailingSource>(after), {}));
    reader.start_epoch({.minibatch = 10});
    for (int i = 0; i < after; ++i) EXPECT_TRUE(reader.next());
    EXPECT_THROW(reader.next(), Error);
    EXPECT_THROW(reader.next(), Error);
  }
}

// Sleeps in every fourth run of fifty minibatches, and fails once, at number `after`.
class UnevenSource final : public SequenceSource {
 public:
  explicit UnevenSource(int after = 1'000'000) : after_(after) {}
  const std::vector<StreamInfo>& streams() const override { return numbers_.streams(); }
  const SequenceIndex& index() override { return numbers_.index(); }
  void read(std::span<const std::uint32_t> sequences, Share& share) override {
    if (made_ / 50 % 4 == 1) std::this_thread::sleep_for(std::chrono::microseconds(300));
    if (made_++ == after_) throw Error("the disk is gone");
    numbers_.read(sequences, share);
  }

 private:
  NumberedSource numbers_{std::vector<std::uint32_t>(1200, 1)};
  int after_, made_ = 0;
};

// Quick minibatches are made by the caller and slow ones by the thread: the order does not depend on who makes them.
TEST(Prefetch, QuickAndSlowMinibatchesTakeTurns) {
  DirectReader direct(MinibatchMaker(std::make_unique<UnevenSource>(), {}));
  PrefetchReader ahead(MinibatchMaker(std::make_unique<UnevenSource>(), {}));
  for (const std::int64_t epoch : {0, 1, 2}) {
    const EpochPlan plan{.epoch = epoch, .samples = 1200, .minibatch = 4, .rank = 0, .ranks = 2};
    EXPECT_EQ(read_epoch(ahead, plan), read_epoch(direct, plan));
  }
  PrefetchReader stopped(MinibatchMaker(std::make_unique<UnevenSource>(), {}));
  for (const int taken : {5, 40, 90, 130}) {
    stopped.start_epoch({.minibatch = 4});
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(stopped.next());
  }
  PrefetchReader failing(MinibatchMaker(std::make_unique<UnevenSource>(225), {}));
  failing.start_epoch({.minibatch = 4});
  for (int i = 0; i < 225; ++i) ASSERT_TRUE(failing.next());
  EXPECT_THROW(failing.next(), Error);
  EXPECT_THROW(failing.next(), Error);
}

// Once every share of the ring has been filled, no new memory turns up.
TEST(Prefetch, BuffersAreReused) {
  PrefetchReader reader(numbered(4096), 2);
  reader.start_epoch({.minibatch = 64});
  std::set<const float*> places;
  int steps = 0;
  while (const Batch* b = reader.next()) {
    if (++steps > 3) places.insert(b->streams[0].dense.data());
  }
  EXPECT_EQ(steps, 64);
  EXPECT_LE(places.size(), 3u);
}

}  // namespace
}  // namespace tutti::reader::prefetch_test

// SPDX-License-Identifier: Apache-2.0
// Work units: whatever the delays, every sequence is read once in an epoch, by one rank; who is held up holds up no
// more than the unit it works on and one that is ready.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "../support/unit_counter.h"
#include "reader/prefetch_reader.h"
#include "reader_support.h"

namespace tutti::reader::work_queue_test {
namespace {

std::vector<std::uint32_t> lengths_of(std::size_t n, unsigned seed, unsigned longest) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> lengths(n);
  for (auto& l : lengths) l = 1 + random() % longest;
  return lengths;
}

std::unique_ptr<Reader> prefetching(const std::vector<std::uint32_t>& lengths) {
  return std::make_unique<PrefetchReader>(
      MinibatchMaker(std::make_unique<NumberedSource>(lengths, 5), Randomization{true, 20, 3}));
}

// What static shares deliver, by minibatch and share.
using Shares = std::map<std::pair<std::int64_t, int>, Seen>;

Shares shares_of(const std::vector<std::uint32_t>& lengths, EpochPlan plan) {
  Shares all;
  const auto reader = prefetching(lengths);
  for (plan.rank = 0; plan.rank < plan.ranks; ++plan.rank) {
    std::int64_t minibatch = 0;
    for (Seen& seen : read_epoch(*reader, plan)) {
      if (!seen.sequences.empty()) all[{minibatch, plan.rank}] = std::move(seen);
      ++minibatch;
    }
  }
  return all;
}

// Ranks as threads, each with its own reader of the same data; a rank sleeps now and then.
std::vector<std::vector<Seen>> handed_out(const std::vector<std::uint32_t>& lengths, EpochPlan plan, unsigned seed) {
  UnitCounter counter;
  std::vector<std::vector<Seen>> by_rank(static_cast<std::size_t>(plan.ranks));
  {
    std::vector<std::jthread> ranks;
    for (int r = 0; r < plan.ranks; ++r)
      ranks.emplace_back([&, r] {
        CountingQueue queue(counter);
        EpochPlan mine = plan;
        mine.rank = r, mine.work_queue = &queue;
        const auto reader = prefetching(lengths);
        std::mt19937 random(seed + static_cast<unsigned>(r));
        queue.start_range();
        by_rank[static_cast<std::size_t>(r)] = read_epoch(*reader, mine, [&] {
          if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        });
      });
  }
  return by_rank;
}

TEST(Units, EveryShareGoesToOneRankWhateverTheDelays) {
  unsigned seed = 0;
  for (const unsigned longest : {1u, 7u})
    for (const std::size_t sequences : {1u, 2u, 11u, 60u}) {
      const auto lengths = lengths_of(sequences, 17, longest);
      for (const std::int64_t minibatch : {1, 4, 10, 1000})
        for (const int ranks : {1, 2, 3, 4}) {
          const EpochPlan plan{.epoch = 1, .minibatch = minibatch, .ranks = ranks};
          const Shares expected = shares_of(lengths, plan);
          std::map<std::uint32_t, int> read;
          std::size_t units = 0;
          for (const auto& rank : handed_out(lengths, plan, ++seed)) {
            std::int64_t before = -1;
            for (const Seen& seen : rank) {
              ++units;
              EXPECT_GE(seen.position, before) << "a rank goes forward only";
              before = seen.position;
              for (const std::uint32_t s : seen.sequences) ++read[s];
              EXPECT_TRUE(std::any_of(expected.begin(), expected.end(), [&](const auto& e) {
                return e.second == seen;
              })) << "a unit is a share of the static division";
            }
          }
          EXPECT_EQ(units, expected.size());
          EXPECT_EQ(read.size(), sequences);
          for (const auto& [sequence, times] : read) EXPECT_EQ(times, 1) << sequence;
        }
    }
}

// Two ranges with a barrier between them cover the epoch once, wherever they meet.
TEST(Units, RangesJoinWithoutGap) {
  const auto lengths = lengths_of(40, 5, 6);
  for (const std::int64_t meet : {1, 17, 50, 1000}) {
    EpochPlan plan{.epoch = 2, .minibatch = 9, .end = meet, .ranks = 3};
    std::map<std::uint32_t, int> read;
    const auto count = [&](const EpochPlan& range) {
      std::int64_t reached = range.start;
      for (const auto& rank : handed_out(lengths, range, 7))
        for (const Seen& seen : rank) {
          EXPECT_LT(seen.position, range.end);
          EXPECT_GE(seen.position, range.start);
          reached = std::max(reached, seen.position + seen.global_samples);
          for (const std::uint32_t s : seen.sequences) ++read[s];
        }
      return reached;
    };
    plan.start = count(plan);
    plan.end = std::numeric_limits<std::int64_t>::max();
    count(plan);
    EXPECT_EQ(read.size(), lengths.size());
    for (const auto& [sequence, times] : read) EXPECT_EQ(times, 1) << sequence;
  }
}

// Rank 0 is stopped in its second step until all the others are done.
TEST(Units, AHeldRankKeepsAtMostTwo) {
  constexpr int ranks = 3;
  constexpr std::int64_t minibatches = 50;
  const std::vector<std::uint32_t> lengths(ranks * minibatches, 1);
  UnitCounter counter;
  std::promise<void> others_done;
  std::vector<std::int64_t> steps(ranks);
  std::atomic<int> left = ranks - 1;
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        CountingQueue queue(counter);
        const auto reader = prefetching(lengths);
        queue.start_range();
        reader->start_epoch({.minibatch = ranks, .ranks = ranks, .work_queue = &queue});
        while (reader->next())
          if (++steps[static_cast<std::size_t>(r)] == 2 && r == 0) {
            others_done.get_future().wait();
            EXPECT_GE(steps[1] + steps[2], ranks * minibatches - 3) << "the first, this one, and one that is ready";
          }
        if (r > 0 && --left == 0) others_done.set_value();
      });
  }
  EXPECT_EQ(steps[0] + steps[1] + steps[2], ranks * minibatches);
}

// What the ranks of a group get: the first of them that asks takes it for all.
class GroupQueue final : public WorkQueue {
 public:
  struct Numbers {
    std::mutex mutex;
    std::vector<std::int64_t> taken;
  };
  GroupQueue(UnitCounter& counter, Numbers& numbers) : counter_(counter), numbers_(numbers) {}
  void start_range() override {}
  std::int64_t next() override {
    const std::lock_guard lock(numbers_.mutex);
    if (asked_ == numbers_.taken.size()) numbers_.taken.push_back(counter_.take(0));
    return numbers_.taken[asked_++];
  }

 private:
  UnitCounter& counter_;
  Numbers& numbers_;
  std::size_t asked_ = 0;
};

// By group, the steps of each of its ranks.
using GroupSteps = std::vector<std::vector<std::vector<Seen>>>;

GroupSteps units_for_groups(const std::vector<std::uint32_t>& lengths, const EpochPlan& plan,
                            const std::vector<int>& sizes, unsigned seed) {
  UnitCounter counter;
  std::vector<GroupQueue::Numbers> numbers(sizes.size());
  GroupSteps steps(sizes.size());
  std::vector<std::jthread> ranks;
  for (std::size_t g = 0; g < sizes.size(); ++g) {
    steps[g].resize(static_cast<std::size_t>(sizes[g]));
    for (int r = 0; r < sizes[g]; ++r)
      ranks.emplace_back([&, g, r] {
        GroupQueue queue(counter, numbers[g]);
        EpochPlan mine = plan;
        mine.ranks = static_cast<int>(sizes.size()), mine.rank = 0, mine.work_queue = &queue;
        mine.part = r, mine.parts = sizes[g];
        const auto reader = prefetching(lengths);
        std::mt19937 random(seed + static_cast<unsigned>(10 * g) + static_cast<unsigned>(r));
        steps[g][static_cast<std::size_t>(r)] = read_epoch(*reader, mine, [&] {
          if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        });
      });
  }
  ranks.clear();
  return steps;
}

// The ranks of a group make equally many steps, and what they read in one is a share of the static division.
TEST(Units, OfGroupsAreDividedAmongTheirRanks) {
  unsigned seed = 0;
  for (const unsigned longest : {1u, 7u})
    for (const std::size_t sequences : {1u, 2u, 11u, 60u})
      for (const std::int64_t minibatch : {1, 4, 10, 1000})
        for (const std::vector<int>& sizes : std::vector<std::vector<int>>{{1, 1}, {2, 2}, {3, 1}, {1, 2, 4}, {5}}) {
          const auto lengths = lengths_of(sequences, 17, longest);
          const EpochPlan plan{.epoch = 1, .minibatch = minibatch, .ranks = static_cast<int>(sizes.size())};
          std::multiset<std::vector<std::uint32_t>> expected, is;
          for (auto& [place, share] : shares_of(lengths, plan)) {
            std::sort(share.sequences.begin(), share.sequences.end());
            expected.insert(share.sequences);
          }
          for (const auto& group : units_for_groups(lengths, plan, sizes, ++seed))
            for (std::size_t t = 0; t < group[0].size(); ++t) {
              std::vector<std::uint32_t> unit;
              for (const auto& rank : group) {
                ASSERT_EQ(rank.size(), group[0].size()) << "ranks of a group make the same steps";
                EXPECT_EQ(rank[t].position, group[0][t].position);
                EXPECT_EQ(rank[t].columns == 0, rank[t].sequences.empty());
                EXPECT_LE(rank[t].sequences.size(), group[0][t].sequences.size() + group.size());
                if (longest == 1) {
                  EXPECT_EQ(rank[t].columns, static_cast<std::int64_t>(rank[t].sequences.size()));
                }
                EXPECT_GE(rank[t].columns, rank[t].samples);
                unit.insert(unit.end(), rank[t].sequences.begin(), rank[t].sequences.end());
              }
              std::sort(unit.begin(), unit.end());
              is.insert(std::move(unit));
            }
          EXPECT_EQ(is, expected);
        }
}

// A part differs from another by one sequence at most.
TEST(Units, PartsOfAUnitAreOfOneSize) {
  for (const auto& group : units_for_groups(std::vector<std::uint32_t>(60, 1), {.minibatch = 20}, {3, 2}, 1))
    for (std::size_t t = 0; t < group[0].size(); ++t) {
      std::size_t least = 100, most = 0;
      for (const auto& rank : group)
        least = std::min(least, rank[t].sequences.size()), most = std::max(most, rank[t].sequences.size());
      EXPECT_LE(most, least + 1);
    }
}

// Hands out two units; the next one comes when the gate is opened, as from a leader that waits for this rank.
class GatedQueue final : public WorkQueue {
 public:
  void start_range() override {}
  std::int64_t next() override {
    if (given_ == 2) asked_.set_value(), opened_.get_future().wait();
    return given_++;
  }
  bool is_asked() { return asked_.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready; }
  void open() { opened_.set_value(); }

 private:
  std::int64_t given_ = 0;
  std::promise<void> asked_, opened_;
};

// Slow enough to be asked for the next unit early.
class SlowSource final : public SequenceSource {
 public:
  const std::vector<StreamInfo>& streams() const override { return numbers_.streams(); }
  const SequenceIndex& index() override { return numbers_.index(); }
  void read(std::span<const std::uint32_t> sequences, Share& share) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    numbers_.read(sequences, share);
  }

 private:
  NumberedSource numbers_{std::vector<std::uint32_t>(10, 1)};
};

TEST(Units, APlaceIsFoundWhileTheThreadWaitsForAUnit) {
  GatedQueue queue;
  PrefetchReader reader(MinibatchMaker(std::make_unique<SlowSource>(), {}));
  reader.start_epoch({.minibatch = 1, .work_queue = &queue});
  EXPECT_TRUE(reader.next());
  EXPECT_TRUE(reader.next());
  ASSERT_TRUE(queue.is_asked());
  auto place = std::async(std::launch::async, [&] { return reader.place(1); });
  EXPECT_EQ(place.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  queue.open();
  EXPECT_EQ(place.get(), "sequence 1");
  EXPECT_TRUE(reader.next());
}

TEST(Units, ARankWithoutShareGetsNothing) {
  const auto reader = prefetching(lengths_of(20, 1, 3));
  EXPECT_TRUE(reader->takes_work_units());
  const auto all = read_epoch(*reader, {.minibatch = 5, .rank = -1, .ranks = 2});
  EXPECT_GT(all.size(), 3U);
  for (const Seen& seen : all) {
    EXPECT_TRUE(seen.sequences.empty());
    EXPECT_EQ(seen.columns, 0);
    EXPECT_GT(seen.global_columns, 0);
  }
}

TEST(Units, TruncatedSequencesHaveNoWorkUnits) {
  const MinibatchMaker maker(std::make_unique<NumberedSource>(lengths_of(20, 1, 30)), {}, {10, 0});
  EXPECT_FALSE(maker.takes_work_units());
}

}  // namespace
}  // namespace tutti::reader::work_queue_test

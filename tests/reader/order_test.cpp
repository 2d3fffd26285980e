// SPDX-License-Identifier: Apache-2.0
// The global order: randomisation against a plain implementation, minibatches, epochs, division, resume, packing.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "reader/minibatch_walker.h"
#include "reader_support.h"

namespace tutti::reader::order_test {
namespace {

std::vector<std::uint32_t> uneven_lengths(std::size_t n, unsigned seed, unsigned longest = 9) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> lengths(n);
  for (auto& l : lengths) l = 1 + random() % longest;
  return lengths;
}

// The rules of randomisation, written down again as directly as possible: everything is searched for, nothing is kept.
std::vector<std::uint32_t> plain_order(const std::vector<std::uint32_t>& lengths, std::size_t per_chunk,
                                       std::int64_t window, std::uint64_t sweep) {
  struct C {
    std::vector<std::uint32_t> sequences;
    std::int64_t samples = 0;
  };
  std::vector<C> chunks;
  for (std::uint32_t i = 0; i < lengths.size(); ++i) {
    if (i % per_chunk == 0) chunks.emplace_back();
    chunks.back().sequences.push_back(i);
    chunks.back().samples += lengths[i];
  }
  std::mt19937_64 first(sweep), second(sweep);
  for (std::size_t i = 0; i < chunks.size(); ++i) std::swap(chunks[i], chunks[first() % chunks.size()]);

  const auto start = [&](std::size_t c) {
    std::int64_t s = 0;
    for (std::size_t i = 0; i < c; ++i) s += chunks[i].samples;
    return s;
  };
  const auto place_of = [&](std::size_t c) {
    std::size_t p = 0;
    for (std::size_t i = 0; i < c; ++i) p += chunks[i].sequences.size();
    return p;
  };
  const double half = window > 0 ? static_cast<double>(window / 2) : 1e18;
  const auto window_of = [&](std::size_t c) {
    std::size_t begin = c, end = c + 1;
    while (begin > 0 && static_cast<double>(start(c) - start(begin - 1)) <= half) --begin;
    while (end < chunks.size() && static_cast<double>(start(end + 1) - start(c)) < half) ++end;
    // The right end never falls behind a left neighbour's.
    for (std::size_t left = 0; left < c; ++left) {
      std::size_t e = left + 1;
      while (e < chunks.size() && static_cast<double>(start(e + 1) - start(left)) < half) ++e;
      end = std::max(end, e);
    }
    return std::pair(begin, end);
  };
  std::vector<std::uint32_t> order;
  std::map<std::uint32_t, std::size_t> home;
  for (std::size_t c = 0; c < chunks.size(); ++c)
    for (const auto s : chunks[c].sequences) order.push_back(s), home[s] = c;
  const auto chunk_at = [&](std::size_t place) {
    std::size_t c = 0;
    while (c + 1 < chunks.size() && place_of(c + 1) <= place) ++c;
    return c;
  };
  const auto inside = [](std::size_t c, std::pair<std::size_t, std::size_t> w) { return c >= w.first && c < w.second; };
  for (std::size_t t = 0; t < order.size(); ++t) {
    const auto w = window_of(chunk_at(t));
    const std::size_t low = place_of(w.first), high = place_of(w.second);
    for (;;) {
      const std::size_t j = low + second() % (high - low);
      if (!inside(home[order[j]], w) || !inside(home[order[t]], window_of(chunk_at(j)))) continue;
      std::swap(order[t], order[j]);
      break;
    }
  }
  return order;
}

TEST(SweepOrder, FollowsTheRulesOfRandomisation) {
  for (const std::size_t n : {1u, 2u, 7u, 40u, 80u})
    for (const std::size_t per_chunk : {1u, 4u, 13u, 1000u})
      for (const std::int64_t window : {0, 1, 10, 60, 300, 100000})
        for (const std::int64_t sweep : {0, 1, 5}) {
          const auto lengths = uneven_lengths(n, static_cast<unsigned>(n));
          NumberedSource source(lengths, per_chunk);
          SweepOrder order(source.index(), {true, window, 0});
          order.set_sweep(sweep);
          std::vector<std::uint32_t> got(n);
          for (std::uint32_t i = 0; i < n; ++i) got[i] = order[i];
          EXPECT_EQ(got, plain_order(lengths, per_chunk, window, static_cast<std::uint64_t>(sweep)))
              << n << " sequences, chunks of " << per_chunk << ", window " << window << ", sweep " << sweep;
        }
}

TEST(SweepOrder, FileOrderAndOwnSeeds) {
  NumberedSource source(std::vector<std::uint32_t>(100, 1), 10);
  SweepOrder plain(source.index(), {false, 0, 0});
  plain.set_sweep(3);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(plain[i], i);

  std::set<std::vector<std::uint32_t>> orders;
  for (const std::uint64_t seed : {0, 1, 2})
    for (const std::int64_t sweep : {0, 1, 2}) {
      SweepOrder order(source.index(), {true, 0, seed});
      order.set_sweep(sweep + 7);
      order.set_sweep(sweep);  // the way there does not matter
      std::vector<std::uint32_t> got(100);
      for (std::uint32_t i = 0; i < 100; ++i) got[i] = order[i];
      EXPECT_TRUE(orders.insert(got).second);
      std::sort(got.begin(), got.end());
      EXPECT_TRUE(std::is_sorted(got.begin(), got.end()) && std::adjacent_find(got.begin(), got.end()) == got.end());
    }
}

TEST(Packing, FirstFit) {
  Packing packing;
  const auto columns = [&](std::vector<std::int64_t> lengths) { return packing.columns(lengths); };
  EXPECT_EQ(columns({}), 0);
  EXPECT_EQ(columns({5}), 5);
  EXPECT_EQ(columns({3, 3, 3}), 9);
  EXPECT_EQ(columns({5, 2, 3}), 10);
  EXPECT_EQ(columns({2, 5, 3}), 10);
  EXPECT_EQ(columns({4, 3, 4, 1}), 12);  // the 1 goes to the row of the 3
  EXPECT_EQ(columns({1, 1, 1, 5}), 10);
}

TEST(Packing, AgreesWithTheObviousLoop) {
  Packing packing;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto lengths = uneven_lengths(seed % 37 + 1, seed, 1 + seed % 20);
    const std::vector<std::int64_t> wide(lengths.begin(), lengths.end());
    const std::int64_t longest = *std::max_element(wide.begin(), wide.end());
    std::vector<std::int64_t> rows;
    for (const auto l : wide) {
      auto row = std::find_if(rows.begin(), rows.end(), [&](auto used) { return used + l <= longest; });
      if (row == rows.end()) row = rows.insert(rows.end(), 0);
      *row += l;
    }
    EXPECT_EQ(packing.columns(wide), static_cast<std::int64_t>(rows.size()) * longest);
  }
}

TEST(Minibatches, TenSamplesOnThreeRanks) {
  const std::vector<std::uint32_t> ones(10, 1);
  for (int rank = 0; rank < 3; ++rank) {
    auto reader = numbered_reader(ones, {false, 0, 0});
    const auto seen = read_epoch(*reader, {.minibatch = 4, .rank = rank, .ranks = 3});
    ASSERT_EQ(seen.size(), 3u);
    const std::vector<std::vector<std::vector<std::uint32_t>>> expected = {
        {{0, 3}, {6}, {9}}, {{1}, {4, 7}, {}}, {{2}, {5}, {8}}};
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(seen[i].sequences, expected[static_cast<std::size_t>(rank)][i]);
    EXPECT_EQ(seen[2].global_samples, 2);
    EXPECT_EQ(seen[2].position, 8);
  }
}

TEST(Minibatches, WholeSequencesWhileTheyFit) {
  auto reader = numbered_reader({3, 2, 9, 1, 1, 4}, {false, 0, 0});
  const auto seen = read_epoch(*reader, {.minibatch = 5});
  std::vector<std::int64_t> totals;
  for (const auto& s : seen) totals.push_back(s.global_samples);
  EXPECT_EQ(totals, (std::vector<std::int64_t>{5, 9, 2, 4}));
  EXPECT_EQ(seen[0].global_columns, 6);  // rows of three: 3, 2 and a gap
  EXPECT_EQ(seen[2].global_columns, 2);
}

TEST(Minibatches, EveryRankWalksAlikeAndTogetherTheySeeAll) {
  for (const std::size_t n : {1u, 5u, 10u, 33u})
    for (const int ranks : {1, 2, 3, 7})
      for (const std::int64_t minibatch : {1, 4, 10, 1000})
        for (const unsigned longest : {1u, 6u}) {
          const auto lengths = uneven_lengths(n, 17 + static_cast<unsigned>(n), longest);
          for (const std::int64_t epoch : {0, 2}) {
            std::multiset<std::uint32_t> together;
            std::vector<std::vector<Seen>> all;
            for (int rank = 0; rank < ranks; ++rank) {
              auto reader = numbered_reader(lengths);
              all.push_back(
                  read_epoch(*reader, {.epoch = epoch, .minibatch = minibatch, .rank = rank, .ranks = ranks}));
              ASSERT_EQ(all.back().size(), all.front().size());
              for (const auto& s : all.back()) together.insert(s.sequences.begin(), s.sequences.end());
            }
            ASSERT_EQ(together.size(), n);
            ASSERT_EQ(std::set(together.begin(), together.end()).size(), n);
            auto alone = numbered_reader(lengths);
            const auto whole = read_epoch(*alone, {.epoch = epoch, .minibatch = minibatch});
            std::int64_t position = 0;
            for (std::size_t i = 0; i < all[0].size(); ++i) {
              std::int64_t samples = 0;
              std::map<std::uint32_t, std::int64_t> places;
              for (const auto& rank : all) {
                EXPECT_EQ(rank[i].global_samples, all[0][i].global_samples);
                EXPECT_EQ(rank[i].global_columns, whole[i].columns);
                EXPECT_EQ(rank[i].position, position);
                EXPECT_GE(rank[i].columns, rank[i].samples);
                ASSERT_EQ(rank[i].positions.size(), rank[i].sequences.size());
                for (std::size_t s = 0; s < rank[i].sequences.size(); ++s)
                  places[rank[i].sequences[s]] = rank[i].positions[s];
                samples += rank[i].samples;
              }
              // Where a sequence stands does not depend on the rank that has it.
              for (std::int64_t place = position; const auto sequence : whole[i].sequences) {
                EXPECT_EQ(places[sequence], place);
                place += lengths[sequence];
              }
              EXPECT_EQ(samples, all[0][i].global_samples);
              position += samples;
            }
          }
        }
}

// The sequences of a list of minibatches on one rank.
std::vector<std::uint32_t> flat(const std::vector<Seen>& seen) {
  std::vector<std::uint32_t> all;
  for (const auto& s : seen) all.insert(all.end(), s.sequences.begin(), s.sequences.end());
  return all;
}

TEST(Epochs, CutTheEndlessRowOfSweeps) {
  for (const unsigned longest : {1u, 5u})
    for (const std::int64_t samples : {7, 20, 64, 150}) {
      const auto lengths = uneven_lengths(20, 3, longest);
      auto reader = numbered_reader(lengths);
      std::vector<std::uint32_t> cut, whole;
      for (std::int64_t e = 0; e < 12; ++e) {
        const auto seen = read_epoch(*reader, {.epoch = e, .samples = samples, .minibatch = 6});
        const auto sequences = flat(seen);
        cut.insert(cut.end(), sequences.begin(), sequences.end());
      }
      for (std::int64_t sweep = 0; whole.size() < cut.size(); ++sweep) {
        const auto sequences = flat(read_epoch(*reader, {.epoch = sweep, .minibatch = 1000}));
        whole.insert(whole.end(), sequences.begin(), sequences.end());
      }
      whole.resize(cut.size());
      EXPECT_EQ(cut, whole) << samples << " per epoch, sequences up to " << longest;
    }
}

TEST(Epochs, MinibatchesEndWithTheSweep) {
  auto reader = numbered_reader(std::vector<std::uint32_t>(10, 1));
  std::vector<std::int64_t> sizes;
  for (const auto& s : read_epoch(*reader, {.samples = 25, .minibatch = 4})) sizes.push_back(s.global_samples);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{4, 4, 2, 4, 4, 2, 4, 1}));
}

TEST(Epochs, ResumeGivesTheIdenticalRest) {
  for (const unsigned longest : {1u, 5u})
    for (const std::int64_t samples : {0, 17, 90})
      for (const std::int64_t epoch : {0, 1, 3}) {
        const auto lengths = uneven_lengths(25, 8, longest);
        EpochPlan plan{.epoch = epoch, .samples = samples, .minibatch = 6, .rank = 1, .ranks = 3};
        auto reader = numbered_reader(lengths, {true, 20, 0}, 4);
        const auto all = read_epoch(*reader, plan);
        for (std::size_t done = 0; done < all.size(); ++done) {
          plan.start = all[done].position;
          auto again = numbered_reader(lengths, {true, 20, 0}, 4);
          EXPECT_EQ(read_epoch(*again, plan), std::vector<Seen>(all.begin() + static_cast<long>(done), all.end()));
        }
      }
}

}  // namespace
}  // namespace tutti::reader::order_test

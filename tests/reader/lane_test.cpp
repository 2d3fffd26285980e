// SPDX-License-Identifier: Apache-2.0
// Truncated minibatches: every sequence comes in segments, in order, in one lane; the same for any number of ranks, and
// again after a resume in mid-epoch.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "config/load.h"
#include "reader/lane_walker.h"
#include "reader_support.h"

namespace tutti::reader::lane_test {
namespace {

// A column is {sequence, step}; the sparse stream has step + 1 at row sequence mod 7.
class SteppedSource final : public SequenceSource {
 public:
  SteppedSource(const std::vector<std::uint32_t>& lengths, std::vector<std::uint32_t> damaged = {})
      : lengths_(lengths), damaged_(std::move(damaged)) {
    for (const auto l : lengths) index_.add(l);
  }
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override { return index_; }
  void read(std::span<const std::uint32_t> sequences, Share& share) override {
    for (const std::uint32_t s : sequences) {
      if (std::find(damaged_.begin(), damaged_.end(), s) != damaged_.end()) {
        share.left_out().push_back(s);
        continue;
      }
      for (std::uint32_t i = 0; i < lengths_[s]; ++i) {
        float* column = share[0].add_dense();
        column[0] = static_cast<float>(s);
        column[1] = static_cast<float>(i);
        share[1].indices.push_back(static_cast<std::int32_t>(s % 7));
        share[1].values.push_back(static_cast<float>(i + 1));
        share[1].end_sparse();
      }
      share.end_sequence(lengths_[s]);
    }
  }

 private:
  std::vector<std::uint32_t> lengths_, damaged_;
  std::vector<StreamInfo> infos_{{"x", 2, false}, {"y", 7, true}};
  SequenceIndex index_;
};

struct SeenChunk {
  std::int32_t lane = 0;
  bool begins = false, ends = false;
  std::uint32_t sequence = 0, first = 0, steps = 0;
  auto operator<=>(const SeenChunk&) const = default;
};
struct SeenStep {
  std::vector<SeenChunk> segments;
  std::int64_t samples = 0, global_samples = 0, global_columns = 0, position = 0;
  bool operator==(const SeenStep&) const = default;
};

DirectReader lane_reader(const std::vector<std::uint32_t>& lengths, Truncation t, Randomization r = {}) {
  return DirectReader(MinibatchMaker(std::make_unique<SteppedSource>(lengths), r, t));
}

std::vector<SeenStep> read_lanes(Reader& reader, const EpochPlan& plan) {
  std::vector<SeenStep> all;
  reader.start_epoch(plan);
  while (const Batch* b = reader.next()) {
    SeenStep seen{{}, b->samples, b->global_samples, b->global_columns, b->position};
    EXPECT_EQ(b->fragments.size(), static_cast<std::size_t>(b->sequences));
    for (std::size_t f = 0; f < b->fragments.size(); ++f) {
      const StreamData& x = b->streams[0];
      const StreamData& y = b->streams[1];
      const auto begin = static_cast<std::size_t>(x.sequence_begin[f]),
                 end = static_cast<std::size_t>(x.sequence_begin[f + 1]);
      const SeenChunk p{b->fragments[f].lane,
                        b->fragments[f].begins,
                        b->fragments[f].ends,
                        static_cast<std::uint32_t>(x.dense[2 * begin]),
                        static_cast<std::uint32_t>(x.dense[2 * begin + 1]),
                        static_cast<std::uint32_t>(end - begin)};
      for (std::size_t c = begin; c < end; ++c) {
        EXPECT_EQ(x.dense[2 * c], static_cast<float>(p.sequence));
        EXPECT_EQ(x.dense[2 * c + 1], static_cast<float>(p.first + c - begin));
        const auto item = static_cast<std::size_t>(y.column_begin[c]);
        EXPECT_EQ(y.column_begin[c + 1], y.column_begin[c] + 1);
        EXPECT_EQ(y.indices[item], static_cast<std::int32_t>(p.sequence % 7));
        EXPECT_EQ(y.values[item], static_cast<float>(p.first + c - begin + 1));
      }
      seen.segments.push_back(p);
    }
    all.push_back(std::move(seen));
  }
  return all;
}

std::vector<std::uint32_t> uneven(std::size_t n, std::uint32_t longest) {
  std::mt19937 random(static_cast<unsigned>(n) * 31 + longest);
  std::vector<std::uint32_t> lengths(n);
  for (auto& l : lengths) l = 1 + random() % longest;
  return lengths;
}

void expect_whole_sequences(const std::vector<SeenStep>& steps, const std::vector<std::uint32_t>& lengths,
                            std::int64_t truncation, std::int64_t lanes) {
  std::map<std::int32_t, SeenChunk> open;  // what a lane has begun and not ended
  std::map<std::uint32_t, int> ended;
  std::int64_t position = 0;
  for (const SeenStep& s : steps) {
    std::map<std::int32_t, std::int64_t> used;
    EXPECT_EQ(s.position, position);
    position += s.global_samples;
    EXPECT_EQ(s.samples, s.global_samples);
    EXPECT_GT(s.samples, 0);
    EXPECT_EQ(s.global_columns, lanes * truncation);
    for (const SeenChunk& p : s.segments) {
      used[p.lane] += p.steps;
      EXPECT_LT(p.lane, lanes);
      EXPECT_EQ(p.begins, p.first == 0);
      EXPECT_EQ(p.ends, p.first + p.steps == lengths[p.sequence]);
      EXPECT_EQ(open.contains(p.lane), !p.begins);
      if (!p.begins) {
        EXPECT_EQ(open[p.lane].sequence, p.sequence);
        EXPECT_EQ(open[p.lane].first + open[p.lane].steps, p.first);
      }
      open.erase(p.lane);
      if (!p.ends) open[p.lane] = p;
      ended[p.sequence] += p.ends;
    }
    for (const auto& [lane, n] : used) EXPECT_LE(n, truncation);
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(ended.size(), lengths.size());
  for (const auto& [sequence, times] : ended) EXPECT_EQ(times, 1) << sequence;
}

TEST(Lanes, EverySequenceOnceInOrderInOneLane) {
  for (const std::size_t n : {1u, 2u, 9u, 40u})
    for (const std::uint32_t longest : {1u, 3u, 30u})
      for (const std::int64_t truncation : {1, 4, 10, 100})
        for (const std::int64_t minibatch : {1, 10, 40, 400}) {
          const auto lengths = uneven(n, longest);
          DirectReader reader = lane_reader(lengths, {truncation, 0});
          const auto steps = read_lanes(reader, {.minibatch = minibatch});
          expect_whole_sequences(steps, lengths, truncation, std::max<std::int64_t>(1, minibatch / truncation));
        }
}

TEST(Lanes, LanesAreFilledInTheOrderOfTheData) {
  DirectReader reader = lane_reader({5, 2, 3, 4}, {3, 0}, {.shuffle = false});
  const auto steps = read_lanes(reader, {.minibatch = 6});
  const std::vector<std::vector<SeenChunk>> expected{
      {{0, true, false, 0, 0, 3}, {1, true, true, 1, 0, 2}, {1, true, false, 2, 0, 1}},
      {{0, false, true, 0, 3, 2}, {0, true, false, 3, 0, 1}, {1, false, true, 2, 1, 2}},
      {{0, false, true, 3, 1, 3}}};
  ASSERT_EQ(steps.size(), expected.size());
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i].segments, expected[i]) << i;
}

TEST(Lanes, TheSameChunksForAnyNumberOfRanks) {
  const auto lengths = uneven(50, 20);
  for (const std::int64_t minibatch : {7, 35, 70})
    for (const std::int64_t epoch : {0, 1}) {
      DirectReader alone = lane_reader(lengths, {7, 0});
      const auto whole = read_lanes(alone, {.epoch = epoch, .minibatch = minibatch});
      for (const int ranks : {2, 3}) {
        auto joined = whole;
        for (auto& s : joined) s.segments.clear(), s.samples = 0;
        for (int r = 0; r < ranks; ++r) {
          DirectReader one = lane_reader(lengths, {7, 0});
          const auto share = read_lanes(one, {.epoch = epoch, .minibatch = minibatch, .rank = r, .ranks = ranks});
          ASSERT_EQ(share.size(), whole.size());
          for (std::size_t i = 0; i < share.size(); ++i) {
            joined[i].samples += share[i].samples;
            for (SeenChunk p : share[i].segments) {
              p.lane = p.lane * ranks + r;
              joined[i].segments.push_back(p);
            }
          }
        }
        for (std::size_t i = 0; i < joined.size(); ++i) {
          std::stable_sort(joined[i].segments.begin(), joined[i].segments.end(),
                           [](const auto& a, const auto& b) { return a.lane < b.lane; });
          EXPECT_EQ(joined[i], whole[i]) << ranks << " ranks, step " << i;
        }
      }
    }
}

TEST(Lanes, EpochsCutTheSweepsAndResumeIsExact) {
  const auto lengths = uneven(60, 12);
  const std::int64_t samples = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  for (const std::int64_t epoch_size : {std::int64_t{0}, samples / 3, samples * 2 + 5}) {
    DirectReader reader = lane_reader(lengths, {5, 0});
    std::int64_t delivered = 0;
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      const EpochPlan plan{.epoch = epoch, .samples = epoch_size, .minibatch = 20};
      const auto whole = read_lanes(reader, plan);
      for (const auto& s : whole) delivered += s.global_samples;
      for (const std::size_t at : {std::size_t{1}, whole.size() / 2, whole.size() - 1}) {
        EpochPlan later = plan;
        later.start = whole[at].position;
        DirectReader fresh = lane_reader(lengths, {5, 0});
        // State aside, the rest of the epoch is what it was.
        const auto rest = read_lanes(fresh, later);
        ASSERT_EQ(rest.size(), whole.size() - at);
        for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i], whole[at + i]);
      }
    }
    // Every sequence belongs to the epoch of its first sample.
    const std::int64_t wanted = 4 * (epoch_size > 0 ? epoch_size : samples);
    EXPECT_GE(delivered, wanted);
    EXPECT_LT(delivered, wanted + 12);
  }
}

TEST(Lanes, FixedLanesTakeTheMinibatchSizeAsLength) {
  const auto lengths = uneven(30, 20);
  DirectReader reader = lane_reader(lengths, {0, 4});
  const auto steps = read_lanes(reader, {.minibatch = 6});
  expect_whole_sequences(steps, lengths, 6, 4);
}

TEST(Lanes, DamagedSequencesAreLeftOut) {
  const std::vector<std::uint32_t> lengths{4, 9, 3};
  DirectReader reader(MinibatchMaker(std::make_unique<SteppedSource>(lengths, std::vector<std::uint32_t>{1}),
                                     {.shuffle = false}, {3, 0}));
  std::int64_t samples = 0, global = 0;
  for (const auto& s : read_lanes(reader, {.minibatch = 6})) {
    samples += s.samples;
    global += s.global_samples;
    for (const auto& p : s.segments) EXPECT_NE(p.sequence, 1u);
  }
  EXPECT_EQ(samples, 7);
  EXPECT_EQ(global, 16);
}

TEST(Lanes, TextBlocks) {
  const TemporaryFile even("1 |x 1 |y 1\n1 |x 2 |y 2\n1 |x 3 |y 3\n2 |x 4 |y 4\n"),
      uneven("1 |x 1 |y 1\n1 |x 2\n1 |x 3\n");
  const auto make = [](const TemporaryFile& file, const std::string& more, const std::string& action = "train") {
    return make_reader(
        config::record_from_text("reader=[readerType=CNTKTextFormatReader;file=\"" + file.path() + "\";" + more +
                                     ";input=[x=[dim=1;format=dense]\ny=[dim=1;format=dense]]]",
                                 "run.cntk")
            .block("reader"),
        {.action = action});
  };
  const auto reader = make(even, "truncated=true;truncationLength=2");
  reader->start_epoch({.minibatch = 4});
  const Batch* batch = reader->next();
  EXPECT_EQ(batch->fragments.size(), 2u);
  EXPECT_EQ(batch->samples, 3);
  // Evaluation has no use for segments.
  const auto test = make(even, "truncated=true;truncationLength=2", "test");
  test->start_epoch({.minibatch = 4});
  EXPECT_TRUE(test->next()->fragments.empty());
  EXPECT_THROW(make(even, "truncated=true"), ConfigError);
  EXPECT_THROW(make(even, "truncated=true;truncationLength=-1"), ConfigError);
  const auto ragged = make(uneven, "truncated=true;truncationLength=2");
  ragged->start_epoch({.minibatch = 2});
  try {
    ragged->next();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(uneven.path() + ":1 has 1 samples of stream 'y'"), std::string::npos)
        << e.what();
  }
}

TEST(Lanes, SyntheticSequences) {
  const auto reader =
      make_reader(config::record_from_text(
                      "reader=[readerType=SyntheticReader;kind=random;samples=6;sequenceLength=5:5;truncated=true;"
                      "truncationLength=3;input=[x=[dim=2]]]")
                      .block("reader"),
                  {});
  reader->start_epoch({.minibatch = 6});
  std::int64_t samples = 0;
  while (const Batch* b = reader->next()) {
    samples += b->samples;
    EXPECT_LE(b->samples, 6);
    EXPECT_FALSE(b->fragments.empty());
  }
  EXPECT_EQ(samples, 30);
}

}  // namespace
}  // namespace tutti::reader::lane_test

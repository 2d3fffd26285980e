// SPDX-License-Identifier: Apache-2.0
// What an epoch's own numbers say: it has diverged, or the ranks cost more than they gain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "comm/threads.h"
#include "train/epoch_warnings.h"

namespace tutti::epoch_warnings_test {
namespace {

using ::testing::HasSubstr;

graph::Graph network(const std::string& criterion, bool labels_first = true) {
  graph::Graph g;
  g.nodes.resize(4);
  g.nodes[0].name = "labels", g.nodes[0].operation = "InputValue";
  g.nodes[1].name = "w", g.nodes[1].operation = "LearnableParameter";
  g.nodes[2].name = "z", g.nodes[2].operation = "Pass", g.nodes[2].inputs = {1};
  g.nodes[3].name = "c", g.nodes[3].operation = criterion;
  g.nodes[3].inputs = labels_first ? std::vector<std::size_t>{0, 2} : std::vector<std::size_t>{2, 0};
  return g;
}

Batch batch_of(std::span<const float> labels, std::size_t columns) {
  Batch batch;
  batch.streams.resize(2);
  batch.streams[1].dense = labels, batch.streams[1].columns = columns;
  return batch;
}

// Every rank has the same labels, in two batches.
std::optional<ConstantPredictor::Value> value(const graph::Graph& g, std::vector<float> labels, std::size_t dim,
                                              int ranks = 2) {
  std::vector<std::optional<ConstantPredictor::Value>> found(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Communicator& comm) {
    ConstantPredictor p;
    p.watch(g, "c", {{"features", 7, false}, {"labels", dim, false}});
    EXPECT_TRUE(!p.counts() || !p.value());
    if (p.counts()) p.add(batch_of(std::span(labels).first(dim), 1));
    if (p.counts()) p.add(batch_of(std::span(labels).subspan(dim), labels.size() / dim - 1));
    p.finish(comm);
    EXPECT_FALSE(p.counts());
    found[static_cast<std::size_t>(comm.rank())] = p.value();
  });
  return found.back();
}

TEST(ConstantPredictor, IsTheEntropyOfTheLabels) {
  for (const char* criterion : {"CrossEntropyWithSoftmax", "CrossEntropy"}) {
    const auto v = value(network(criterion), {1, 0, 0, 1, 0, 1, 0, 1}, 2);
    ASSERT_TRUE(v);
    EXPECT_NEAR(v->best, -0.25 * std::log(0.25) - 0.75 * std::log(0.75), 1e-12);
    EXPECT_NEAR(v->untrained, std::log(2), 1e-12);
  }
  const auto logistic = value(network("Logistic"), {1, 0, 0, 0}, 1);
  ASSERT_TRUE(logistic);
  EXPECT_NEAR(logistic->best, -0.25 * std::log(0.25) - 0.75 * std::log(0.75), 1e-12);
}

TEST(ConstantPredictor, IsTheVarianceOfTheLabels) {
  for (const bool first : {true, false}) {
    const auto v = value(network("SquareError", first), {1, 10, 3, 10, 5, 10}, 2);
    ASSERT_TRUE(v);
    EXPECT_NEAR(v->best, 8.0 / 3, 1e-9);
    EXPECT_NEAR(v->untrained, (1 + 9 + 25) / 3.0 + 100, 1e-9);
  }
}

TEST(ConstantPredictor, CountsSparseLabels) {
  const std::vector<float> values{1, 1, 1, 1};
  const std::vector<std::int32_t> rows{0, 2, 2, 2};
  run_ranks(1, [&](Communicator& comm) {
    ConstantPredictor p;
    p.watch(network("CrossEntropyWithSoftmax"), "c", {{"labels", 3, true}});
    Batch batch;
    batch.streams.resize(1);
    batch.streams[0].values = values, batch.streams[0].indices = rows, batch.streams[0].columns = 4;
    p.add(batch);
    p.finish(comm);
    ASSERT_TRUE(p.value());
    EXPECT_NEAR(p.value()->best, -0.25 * std::log(0.25) - 0.75 * std::log(0.75), 1e-12);
    EXPECT_NEAR(p.value()->untrained, std::log(3), 1e-12);
    EXPECT_EQ(divergence_warning(p, "c", 2 * std::log(3), 1, true), "");
    EXPECT_THAT(divergence_warning(p, "c", 2.2, 1, true), HasSubstr("epoch 1: c = 2.2 is more than twice"));
    EXPECT_EQ(divergence_warning(p, "c", 1.1, 2, false), "");
    EXPECT_THAT(divergence_warning(p, "c", 1.2, 2, false), HasSubstr("0.562335 (the entropy of the labels)"));
    EXPECT_EQ(divergence_warning(p, "c", std::nan(""), 2, false), "");
  });
}

TEST(ConstantPredictor, IsNotDefinedForOthers) {
  EXPECT_FALSE(value(network("Sum"), {1, 0, 0, 1}, 2));
  EXPECT_FALSE(value(network("CrossEntropyWithSoftmax", false), {1, 0, 0, 1}, 2));
  EXPECT_FALSE(value(network("CrossEntropyWithSoftmax"), {1, 0, 1, 0}, 2)) << "all labels are equal";
}

EpochTimes times(double total, double compute, double wait, std::int64_t exchanges) {
  EpochTimes t;
  t.total = total, t.network = compute, t.exchange.wait = wait;
  t.exchange.exchanges = exchanges, t.exchange.bytes_sent = 12'000'000;
  return t;
}

TEST(SlowExchange, IsToldWithReasonAndSetting) {
  const SharedEpoch epoch{3, 4, 64, 100};
  const std::string often = slow_exchange_warning(times(4, 0.5, 3.4, 100), epoch);
  EXPECT_THAT(often, HasSubstr("epoch 3 took 4 s on 4 ranks; one rank alone would need about 2 s (4 times the 0.5 s"));
  EXPECT_THAT(often,
              HasSubstr("The exchange took 3.4 s for 12 MB sent by this rank (3.53 MB/s), after every 16 samples"));
  EXPECT_THAT(often, HasSubstr("fix: minibatchSize = 512 or more, fewer gradientBits"));
  const std::string seldom = slow_exchange_warning(times(4, 0.5, 3.4, 10), epoch);
  EXPECT_THAT(seldom, HasSubstr("in 10 exchanges of 100 minibatches. fix: exchange 8 times less often (blockSize"));
}

TEST(SlowExchange, IsNotToldWhereRanksGainOrSomethingElseTakesTheTime) {
  const SharedEpoch epoch{1, 4, 64, 100};
  EXPECT_EQ(slow_exchange_warning(times(1.9, 0.5, 1.3, 100), epoch), "");
  EXPECT_EQ(slow_exchange_warning(times(4, 0.5, 0.2, 100), epoch), "");
  EXPECT_EQ(slow_exchange_warning(times(4, 0.5, 3.4, 0), epoch), "");
  EXPECT_EQ(slow_exchange_warning(times(4, 0.5, 3.4, 100), {1, 1, 64, 100}), "");
  EpochTimes reading = times(4, 0.5, 1, 100);
  reading.read = 2.4;
  EXPECT_EQ(slow_exchange_warning(reading, epoch), "");
}

}  // namespace
}  // namespace tutti::epoch_warnings_test

// SPDX-License-Identifier: Apache-2.0
// DataParallelSGD against the plain description of the exchange, and against simpler settings of itself: bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <stdexcept>

#include "../support/run_ranks.h"
#include "parallel/options.h"
#include "training.h"
#include "tutti/error.h"

namespace tutti::data_parallel_test {
namespace {

using namespace training;

const Shapes kOdd{{33, 7}, {33, 1}, {10, 20}, {10, 1}, {1, 50}, {2, 3}, {100, 1}, {257, 4}, {1, 1}};

// Every transport gives the same numbers.
Transport transport = Transport::messages;

class DataParallel : public testing::TestWithParam<Transport> {
  void SetUp() override {
    transport = GetParam();
    if (transport == Transport::shared_memory && !is_host(*parameter_memory)) GTEST_SKIP() << "messages only";
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, DataParallel, testing::Values(Transport::messages, Transport::shared_memory),
                         [](const auto& i) { return i.param == Transport::messages ? "Messages" : "SharedMemory"; });

ParallelTrainOptions options(config::Schedule<std::int64_t> bits) {
  ParallelTrainOptions o;
  o.transport = transport;
  o.method = DataParallelOptions();
  o.distributed_reading_given = true;
  o.as<DataParallelOptions>().gradient_bits = std::move(bits);
  return o;
}

// The exchange written down column by column, for all ranks at once.
class Reference {
 public:
  Reference(const Parameters& p, int ranks, int bits, bool zero_threshold = true)
      : parameters_(p),
        bits_(bits),
        zero_(zero_threshold),
        local_(static_cast<std::size_t>(ranks), std::vector<float>(p.size())),
        owner_(p.size()) {}

  std::vector<float> step(const std::vector<std::vector<float>>& gradients) {
    std::vector<float> global(parameters_.size());
    for (const Slice& s : parameters_.slices)
      for (std::size_t c = 0; c < s.columns; ++c) {
        const std::size_t at = s.offset + c * s.rows;
        std::vector<float> sum(s.rows);
        for (std::size_t r = 0; r < gradients.size(); ++r) {
          const auto v = sent(std::span(gradients[r]).subspan(at, s.rows), std::span(local_[r]).subspan(at, s.rows));
          for (std::size_t i = 0; i < s.rows; ++i) sum[i] = r == 0 ? v[i] : sum[i] + v[i];
        }
        if (gradients.size() > 1) sum = sent(sum, std::span(owner_).subspan(at, s.rows));
        std::copy(sum.begin(), sum.end(), global.begin() + static_cast<std::ptrdiff_t>(at));
      }
    return global;
  }

 private:
  std::vector<float> sent(std::span<const float> v, std::span<float> residual) {
    if (bits_ == 32) return {v.begin(), v.end()};
    return reference::quantize({bits_, zero_}, v, residual).values;
  }
  const Parameters& parameters_;
  int bits_;
  bool zero_;
  std::vector<std::vector<float>> local_;
  std::vector<float> owner_;
};

struct Course {
  int ranks = 2, steps = 4;
  Shapes shapes = kOdd;
  std::size_t columns_per_chunk = 1000;
  bool whole_numbers = false;
  std::vector<int> empty_ranks = {};  // without samples
  int steps_per_epoch = 1000;
};

std::vector<float> gradient_of(const Course& run, const Parameters& p, int rank, int step) {
  for (const int r : run.empty_ranks)
    if (r == rank) return std::vector<float>(p.size());
  return gradient(p, rank, step, run.whole_numbers);
}

// All global gradients of a run, one per update; every rank must have the same.
std::vector<std::vector<float>> train(const Course& run, const ParallelTrainOptions& o) {
  std::vector<std::vector<float>> result;
  std::mutex mutex;
  run_ranks(run.ranks, [&](Communicator& comm) {
    Parameters p = parameters_of(run.shapes, run.columns_per_chunk);
    const auto player = play(o, comm);
    player->start(p);
    Collector sink(p);
    for (int t = 0; t < run.steps; ++t) {
      if (t % run.steps_per_epoch == 0) player->begin_epoch(t / run.steps_per_epoch);
      step(*player, p, sink, gradient_of(run, p, comm.rank(), t), metrics(comm.rank(), t), 100 + t);
      if ((t + 1) % run.steps_per_epoch == 0 || t + 1 == run.steps) player->drain(sink);
    }
    const std::lock_guard lock(mutex);
    if (result.empty()) result = sink.sums;
    ASSERT_EQ(result.size(), sink.sums.size());
    for (std::size_t i = 0; i < result.size(); ++i)
      EXPECT_TRUE(reference::same(result[i], sink.sums[i])) << "rank " << comm.rank();
  });
  return result;
}

void expect_reference(const Course& run, int bits, bool zero_threshold = true) {
  SCOPED_TRACE(testing::Message() << bits << " bits on " << run.ranks << " ranks, chunks of " << run.columns_per_chunk);
  auto o = options(bits);
  o.as<DataParallelOptions>().zero_threshold = zero_threshold;
  const auto sums = train(run, o);
  const Parameters p = parameters_of(run.shapes, run.columns_per_chunk);
  Reference reference(p, run.ranks, bits, zero_threshold);
  ASSERT_EQ(sums.size(), static_cast<std::size_t>(run.steps));
  for (int t = 0; t < run.steps; ++t) {
    std::vector<std::vector<float>> gradients;
    for (int r = 0; r < run.ranks; ++r) gradients.push_back(gradient_of(run, p, r, t));
    EXPECT_TRUE(reference::same(sums[static_cast<std::size_t>(t)], reference.step(gradients))) << "step " << t;
  }
}

TEST_P(DataParallel, EqualsTheReferenceOnAnyNumberOfRanks) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (const int bits : {1, 2, 4, 8, 16, 32}) expect_reference({.ranks = ranks}, bits);
    expect_reference({.ranks = ranks}, 1, false);
  }
}

TEST_P(DataParallel, NumbersDoNotDependOnChunks) {
  for (const std::size_t columns : {1, 2, 3, 5, 19})
    for (const int ranks : {1, 2, 4}) expect_reference({.ranks = ranks, .columns_per_chunk = columns}, 1);
}

TEST_P(DataParallel, ManyGroupsOfMessages) {
  const Shapes large{{300, 400}, {300, 1}, {500, 600}, {500, 1}, {7, 300}, {7, 1}};
  for (const int bits : {1, 32})
    for (const std::size_t columns : {100, 1000})
      expect_reference({.ranks = 3, .steps = 2, .shapes = large, .columns_per_chunk = columns}, bits);
}

TEST_P(DataParallel, ThirtyTwoBitsEqualThePlainSum) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const Course run{.ranks = ranks, .whole_numbers = true};
    const auto sums = train(run, options(32));
    const Parameters p = parameters_of(run.shapes);
    for (int t = 0; t < run.steps; ++t) {
      std::vector<float> expected(p.size());
      for (int r = 0; r < ranks; ++r) {
        const auto g = gradient(p, r, t, true);
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += g[i];
      }
      EXPECT_EQ(sums[static_cast<std::size_t>(t)], expected);
    }
  }
}

TEST_P(DataParallel, RanksWithoutSamplesSendTheirResidual) {
  expect_reference({.ranks = 3, .empty_ranks = {1}}, 1);
  expect_reference({.ranks = 3, .empty_ranks = {0, 1, 2}}, 1);
  expect_reference({.ranks = 4, .empty_ranks = {0, 3}}, 32);
}

TEST_P(DataParallel, AsynchronousIsSynchronousOneStepLater) {
  for (const int ranks : {1, 2, 4})
    for (const int bits : {1, 8, 32})
      for (const int per_epoch : {1, 3, 1000}) {
        const Course run{.ranks = ranks, .steps = 6, .columns_per_chunk = 3, .steps_per_epoch = per_epoch};
        auto late = options(bits);
        late.as<DataParallelOptions>().buffered_async = true;
        const auto now = train(run, options(bits)), behind = train(run, late);
        ASSERT_EQ(now.size(), behind.size());
        for (std::size_t t = 0; t < now.size(); ++t) EXPECT_TRUE(reference::same(now[t], behind[t])) << "step " << t;
      }
}

TEST_P(DataParallel, AsynchronousUpdatesOneMinibatchLate) {
  run_ranks(2, [](Communicator& comm) {
    Parameters p = parameters_of(kOdd);
    auto o = options(1);
    o.as<DataParallelOptions>().buffered_async = true;
    const auto player = play(o, comm);
    player->start(p);
    for (int epoch = 0; epoch < 2; ++epoch) {
      Collector sink(p);
      player->begin_epoch(epoch);
      for (int t = 0; t < 3; ++t) {
        const StepMetrics seen = step(*player, p, sink, gradient(p, comm.rank(), t), metrics(comm.rank(), t), 100 + t);
        EXPECT_EQ(sink.sums.size(), static_cast<std::size_t>(t));
        EXPECT_EQ(seen.samples, t == 0 ? 0 : 21) << "the first minibatch of an epoch updates nothing";
        EXPECT_EQ(seen.columns, t == 0 ? 0 : 25 + 2 * (t - 1));
        EXPECT_EQ(seen.evaluations.size(), 2u);
      }
      player->drain(sink);
      const StepMetrics last = player->pending_metrics_and_reset();
      EXPECT_EQ(last.samples, 21);
      EXPECT_EQ(last.columns, 29);
      EXPECT_EQ(player->pending_metrics_and_reset().samples, 0);
      EXPECT_EQ(sink.columns_of, (std::vector<std::int64_t>{100, 101, 102}));
    }
  });
}

StepMetrics late_sum(Player& player, StepMetrics metrics) {
  metrics = player.reduce_metrics(metrics);
  return metrics;
}

TEST_P(DataParallel, MetricsAreSummedInRankOrder) {
  for (const int ranks : {1, 3})
    run_ranks(ranks, [&](Communicator& comm) {
      Parameters p = parameters_of(kOdd);
      const auto player = play(options(1), comm);
      player->start(p);
      player->begin_epoch(0);
      Collector sink(p);
      for (int t = 0; t < 3; ++t) {
        StepMetrics mine = metrics(comm.rank(), t);
        if (comm.rank() == 0 && t > 0) mine.evaluations.clear();  // a rank without samples may know nothing of them
        const bool late = t == 2;                                 // behind the last step
        const StepMetrics all =
            late ? late_sum(*player, mine) : step(*player, p, sink, gradient(p, comm.rank(), t), mine, 5);
        StepMetrics expected;
        for (int r = 0; r < ranks; ++r) {
          StepMetrics one = metrics(r, t);
          if (r == 0 && t > 0) one.evaluations = {{0, 0}, {0, 0}};
          expected += one;
        }
        EXPECT_EQ(all.samples, expected.samples);
        EXPECT_EQ(all.columns, expected.columns);
        EXPECT_EQ(all.criterion, expected.criterion);
        EXPECT_EQ(all.criterion_count, expected.criterion_count);
        ASSERT_EQ(all.evaluations.size(), 2u);
        for (std::size_t i = 0; i < 2; ++i) {
          EXPECT_EQ(all.evaluations[i].sum, expected.evaluations[i].sum);
          EXPECT_EQ(all.evaluations[i].count, expected.evaluations[i].count);
        }
      }
    });
}

TEST_P(DataParallel, StartsFromTheWeightsOfRankZero) {
  run_ranks(3, [](Communicator& comm) {
    Parameters p = parameters_of(kOdd);
    for (float& w : p.weights.span()) w = static_cast<float>(comm.rank() + 1);
    play(options(1), comm)->start(p);
    for (const float w : p.weights.span()) EXPECT_EQ(w, 1.0f);
  });
}

TEST_P(DataParallel, CountsTheBytesItSends) {
  run_ranks(3, [](Communicator& comm) {
    Parameters p = parameters_of({{64, 6}, {64, 3}});
    const auto player = play(options(1), comm);
    player->start(p);
    player->begin_epoch(0);
    Collector sink(p);
    player->exchange_stats_and_reset();
    for (int t = 0; t < 2; ++t) step(*player, p, sink, gradient(p, comm.rank(), t), metrics(comm.rank(), t), 5);
    const ExchangeStats stats = player->exchange_stats_and_reset();
    // Per step: 6 foreign columns of 16 bytes to their owners, 3 own columns to 2 ranks; the metrics, 9 words, to 2
    // ranks.
    EXPECT_EQ(stats.bytes_sent, 2 * (6 * 16 + 3 * 16 * 2 + 9 * 8 * 2));
    EXPECT_EQ(stats.values_sent, 2 * (6 * 64 + 3 * 64 * 2));
    EXPECT_EQ(player->exchange_stats_and_reset().bytes_sent, 0);
  });
}

TEST_P(DataParallel, ResidualsSurviveEpochsUnlessTheyAreReset) {
  const Course once{.ranks = 2, .steps = 4}, epochs{.ranks = 2, .steps = 4, .steps_per_epoch = 2};
  EXPECT_EQ(train(once, options(1)), train(epochs, options(1)));
  auto reset = options(1);
  reset.as<DataParallelOptions>().reset_residuals = true;
  const auto all = train(epochs, reset);
  EXPECT_NE(train(once, options(1))[2], all[2]);
  // The second epoch is a run of its own.
  const Parameters p = parameters_of(kOdd);
  Reference reference(p, 2, 1);
  for (int t = 2; t < 4; ++t)
    EXPECT_TRUE(
        reference::same(all[static_cast<std::size_t>(t)], reference.step({gradient(p, 0, t), gradient(p, 1, t)})));
}

// As when a run goes back.
TEST_P(DataParallel, StartsAgainWithoutResiduals) {
  run_ranks(3, [](Communicator& comm) {
    Parameters p = parameters_of(kOdd);
    const auto player = play(options(1), comm);
    Collector sink(p);
    for (int round = 0; round < 2; ++round) {
      player->start(p);
      player->begin_epoch(0);
      for (int t = 0; t < 2; ++t) step(*player, p, sink, gradient(p, comm.rank(), t), metrics(comm.rank(), t), 100 + t);
      player->drain(sink);
    }
    ASSERT_EQ(sink.sums.size(), 4u);
    EXPECT_EQ(sink.sums[2], sink.sums[0]);
    EXPECT_EQ(sink.sums[3], sink.sums[1]);
  });
}

// 1 bit, then 32: what 1 bit left behind arrives once, so that nothing is lost in the end.
TEST_P(DataParallel, ChangingToThirtyTwoBitsDeliversTheResiduals) {
  for (const int ranks : {1, 3}) {
    const Course run{.ranks = ranks, .steps = 5, .steps_per_epoch = 3};
    config::Schedule<std::int64_t> bits;
    bits.values = {1, 32};
    const auto sums = train(run, options(bits));
    const Parameters p = parameters_of(kOdd);
    std::vector<double> sent(p.size()), wanted(p.size());
    for (int t = 0; t < 4; ++t)
      for (std::size_t i = 0; i < p.size(); ++i) sent[i] += sums[static_cast<std::size_t>(t)][i];
    for (int t = 0; t < 4; ++t)
      for (int r = 0; r < ranks; ++r) {
        const auto g = gradient(p, r, t);
        for (std::size_t i = 0; i < p.size(); ++i) wanted[i] += g[i];
      }
    for (std::size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(sent[i], wanted[i], 1e-4) << i;
    Reference plain(p, ranks, 32);
    std::vector<std::vector<float>> last;
    for (int r = 0; r < ranks; ++r) last.push_back(gradient(p, r, 4));
    EXPECT_TRUE(reference::same(sums[4], plain.step(last))) << "once and not again";
  }
}

// What travels before anybody knows whether it can be used must show in the sums of all ranks, and be gone with them.
TEST_P(DataParallel, SumsAloneTellOfGradientsOfNoUse) {
  config::Schedule<std::int64_t> later;
  later.values = {32, 1};
  ParallelTrainOptions behind = options(32);
  behind.as<DataParallelOptions>().buffered_async = true;
  for (const auto& [o, sums_only] : {std::pair{options(32), true},
                                     {options(1), false},
                                     {options(16), false},
                                     {options(later), false},
                                     {behind, false}})
    run_ranks(2, [&, o = o, sums_only = sums_only](Communicator& comm) {
      Parameters p = parameters_of(kOdd);
      const auto player = play(o, comm);
      player->start(p);
      player->begin_epoch(0);
      EXPECT_EQ(player->method().traits.overflow == OverflowCheck::reduced, sums_only) << player->describe();
    });
  const auto expected = train({.ranks = 3, .steps = 2}, options(32));
  run_ranks(3, [&](Communicator& comm) {
    Parameters p = parameters_of(kOdd);
    const auto player = play(options(32), comm);
    player->start(p);
    player->begin_epoch(0);
    Collector sink(p);
    auto bad = gradient(p, comm.rank(), 0);
    if (comm.rank() == 1) bad[3] = HUGE_VALF;
    step(*player, p, sink, bad, metrics(comm.rank(), 0), 100);
    step(*player, p, sink, gradient(p, comm.rank(), 1), metrics(comm.rank(), 1), 101);
    EXPECT_FALSE(std::isfinite(sink.sums[0][3]));
    EXPECT_EQ(sink.sums[1], expected[1]);
  });
}

// Steps 0..2, save, load into a new player, steps 3..5: the same as six steps. Saving changes nothing.
TEST_P(DataParallel, ContinuesFromItsArchive) {
  for (const bool async : {false, true})
    for (const int bits : {1, 4, 32}) {
      auto o = options(bits);
      o.as<DataParallelOptions>().buffered_async = async;
      o.as<DataParallelOptions>().reset_residuals = true;  // in the middle of an epoch nothing may be reset
      const Course run{.ranks = 3, .steps = 6};
      std::vector<std::vector<std::vector<float>>> whole(3), parts(3);
      run_ranks(3, [&](Communicator& comm) {
        const auto me = static_cast<std::size_t>(comm.rank());
        for (const bool stop : {false, true}) {
          Parameters p = parameters_of(kOdd, 3);
          auto player = play(o, comm);
          player->start(p);
          player->begin_epoch(0);
          Collector sink(p);
          for (int t = 0; t < 6; ++t) {
            if (t == 3) {
              player->drain(sink);
              MemoryArchive archive;
              player->archive(archive);
              if (stop) {
                archive.rewind_to_load();
                player = play(o, comm);
                player->start(p);
                player->archive(archive);
                player->begin_epoch(0);
              }
            }
            step(*player, p, sink, gradient(p, comm.rank(), t), metrics(comm.rank(), t), 100 + t);
          }
          player->drain(sink);
          (stop ? parts : whole)[me] = sink.sums;
        }
      });
      EXPECT_EQ(whole, parts) << bits << " bits, " << (async ? "asynchronous" : "synchronous");
    }
}

// The owners' residuals stand at their columns in the layout of the gradients and nowhere else.
TEST_P(DataParallel, OwnerResidualsAreDisjoint) {
  std::vector<std::vector<float>> owner(3);
  run_ranks(3, [&](Communicator& comm) {
    Parameters p = parameters_of(kOdd, 4);
    const auto player = play(options(1), comm);
    player->start(p);
    player->begin_epoch(0);
    Collector sink(p);
    step(*player, p, sink, gradient(p, comm.rank(), 0), metrics(comm.rank(), 0), 1);
    MemoryArchive archive;
    player->archive(archive);
    owner[static_cast<std::size_t>(comm.rank())] = archive.floats.at("owned/dataParallelSGD.ownerResidual");
  });
  int everywhere = 0;
  for (std::size_t i = 0; i < owner[0].size(); ++i) {
    const int nonzero = (owner[0][i] != 0) + (owner[1][i] != 0) + (owner[2][i] != 0);
    EXPECT_LE(nonzero, 1);
    everywhere += nonzero;
  }
  EXPECT_GT(everywhere, 1000);
}

// One rank sums no shards: what it held as an owner joins its own residual.
TEST_P(DataParallel, OneRankKeepsTheOwnersResidual) {
  run_ranks(1, [&](Communicator& comm) {
    const std::string owner = owned_name("dataParallelSGD.ownerResidual");
    Parameters p = parameters_of(kOdd, 3);
    MemoryArchive archive, again;
    for (MemoryArchive* to : {&archive, &again}) {
      const auto player = play(options(1), comm);
      player->start(p);
      player->begin_epoch(0);
      if (to == &again) player->archive(archive);
      player->archive(*to);
      archive.floats.at(owner).assign(p.size(), 2.0f);
      archive.rewind_to_load();
    }
    EXPECT_EQ(again.floats.at(owner), std::vector<float>(p.size()));
    const auto& own = again.floats.at(sum_on_reshard_name("dataParallelSGD.residual"));
    EXPECT_EQ(own, std::vector<float>(p.size(), 2.0f));
  });
}

TEST_P(DataParallel, ARankThatThrowsEndsTheRun) {
  EXPECT_THROW(run_ranks(3,
                         [](Communicator& comm) {
                           Parameters p = parameters_of(kOdd);
                           const auto player = play(options(1), comm);
                           player->start(p);
                           player->begin_epoch(0);
                           Collector sink(p);
                           for (int t = 0; t < 5; ++t) {
                             if (comm.rank() == 1 && t == 2) throw std::runtime_error("criterion is not a number");
                             step(*player, p, sink, gradient(p, comm.rank(), t), metrics(comm.rank(), t), 1);
                           }
                         }),
               std::runtime_error);
}

// While the others wait for its part of a sum.
TEST_P(DataParallel, ARankThatThrowsInTheMiddleOfAStepFreesTheOthers) {
  for (const bool async : {false, true}) {
    auto o = options(1);
    o.as<DataParallelOptions>().buffered_async = async;
    EXPECT_THROW(run_ranks(3,
                           [&](Communicator& comm) {
                             Parameters p = parameters_of(kOdd);
                             const auto player = play(o, comm);
                             player->start(p);
                             player->begin_epoch(0);
                             Collector sink(p);
                             step(*player, p, sink, gradient(p, comm.rank(), 0), metrics(comm.rank(), 0), 1);
                             if (comm.rank() == 1) {
                               player->begin_step(1, sink);
                               throw std::runtime_error("no more memory");
                             }
                             for (int t = 0; t < 3; ++t)
                               step(*player, p, sink, gradient(p, comm.rank(), t), metrics(comm.rank(), t), 1);
                             FAIL() << "nobody can pass";
                           }),
                 std::runtime_error);
  }
}

TEST_P(DataParallel, SaysByWhichTransport) {
  run_ranks(2, [](Communicator& comm) {
    const bool shared = play(options(1), comm)->describe().find("through shared memory") != std::string::npos;
    EXPECT_EQ(shared, transport == Transport::shared_memory);
  });
  auto o = options(1);
  o.put_on_device();
  run_ranks(2, [&](Communicator& comm) {
    if (transport == Transport::shared_memory)
      EXPECT_THROW(play(o, comm), ConfigError);
    else
      EXPECT_NE(play(o, comm), nullptr);
  });
}

TEST(ParallelTrain, TakesSharedMemoryOfItselfWhereItCan) {
  ParallelTrainOptions o;
  o.method = DataParallelOptions();
  const auto text = [&](int ranks) {
    std::string said;
    run_ranks(ranks, [&](Communicator& comm) {
      const std::string text = play(o, comm)->describe();
      if (comm.rank() == 0) said = text;
    });
    return said;
  };
  EXPECT_NE(text(3).find("through shared memory"), std::string::npos);
  EXPECT_EQ(text(1).find("through shared memory"), std::string::npos) << "one rank shares with nobody";
}

TEST(ParallelTrain, WarmStartTrainsAloneFirst) {
  transport = Transport::automatic;
  run_ranks(2, [](Communicator& comm) {
    auto o = options(32);
    o.start_epoch = 3;
    Parameters p = parameters_of(kOdd);
    const auto player = play(o, comm);
    player->start(p);
    for (int epoch = 0; epoch < 4; ++epoch) {
      EXPECT_EQ(player->warm_start().parallel_throughout(epoch), epoch >= 2);
      player->begin_epoch(epoch);
      Collector sink(p);
      const auto mine = gradient(p, comm.rank(), epoch, true), other = gradient(p, 1 - comm.rank(), epoch, true);
      const StepMetrics seen = step(*player, p, sink, mine, metrics(comm.rank(), epoch), 7);
      EXPECT_EQ(seen.samples, epoch < 2 ? 10 + comm.rank() : 21);
      ASSERT_EQ(sink.sums.size(), 1u);
      for (std::size_t i = 0; i < mine.size(); ++i)
        EXPECT_EQ(sink.sums[0][i], epoch < 2 ? mine[i] : mine[i] + other[i]);
    }
  });
}

TEST(ParallelTrain, NoneExchangesNothing) {
  run_ranks(2, [](Communicator& comm) {
    Parameters p = parameters_of(kOdd);
    const auto player = play({}, comm);
    player->start(p);
    player->begin_epoch(0);
    Collector sink(p);
    const auto mine = gradient(p, comm.rank(), 0);
    step(*player, p, sink, mine, metrics(comm.rank(), 0), 9);
    EXPECT_EQ(sink.sums.at(0), mine);
    EXPECT_EQ(sink.columns_of.at(0), 9);
    EXPECT_FALSE(player->warm_start().parallel_throughout(0));
  });
}

}  // namespace
}  // namespace tutti::data_parallel_test

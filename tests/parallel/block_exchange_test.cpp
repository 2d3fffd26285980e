// SPDX-License-Identifier: Apache-2.0
// Methods that exchange weights, against their formulas written down plainly and against simpler settings of
// themselves: bit for bit.
#include "parallel/local_sgd/block_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>

#include "../support/run_ranks.h"
#include "parallel/options.h"
#include "training.h"
#include "tutti/error.h"

namespace tutti::block_steps_test {
namespace {

using namespace training;
using testing::HasSubstr;

const Shapes kShapes{{33, 7}, {33, 1}, {1, 50}, {2, 3}, {257, 4}, {1, 1}};
constexpr std::int64_t kShare = 10;  // samples of a rank in a step, unless it has none

ParallelTrainOptions averaging(std::int64_t per_worker) {
  ParallelTrainOptions o;
  o.method = ModelAveragingOptions();
  o.as<ModelAveragingOptions>().given = true;
  o.as<ModelAveragingOptions>().block.per_worker = per_worker;
  return o;
}

ParallelTrainOptions momentum(std::int64_t per_worker, double m, double rate, bool nesterov = false) {
  ParallelTrainOptions o;
  o.method = BlockMomentumOptions();
  BlockMomentumOptions b;
  b.block.per_worker = per_worker;
  b.per_sync = m, b.learning_rate = rate, b.nesterov = nesterov;
  o.method = b;
  return o;
}

ParallelTrainOptions outer(std::int64_t per_worker, OuterTerms terms) {
  ParallelTrainOptions o = momentum(per_worker, 0, 1);
  o.as<BlockMomentumOptions>().outer = terms;
  return o;
}

// Plain descent with the rank's own gradients.
class Descent : public Sink {
 public:
  explicit Descent(Parameters& p) : p_(p) {}
  void on_reduced(std::size_t chunk, std::int64_t columns) override {
    if (columns == 0) return;
    p_.weights.memory().synchronize();
    const std::size_t at = p_.offset(p_.chunks[chunk]);
    for (std::size_t i = at; i < at + p_.count(p_.chunks[chunk]); ++i)
      p_.weights.data()[i] -= 0.125f * p_.gradients.data()[i];
  }
  void reset_momentum() override { ++resets; }
  int resets = 0;

 private:
  Parameters& p_;
};

struct Course {
  int ranks = 2, epochs = 2, steps = 6;  // steps of an epoch
  std::size_t columns_per_chunk = 1000;
  std::vector<int> empty_ranks = {};
  bool whole_numbers = false;

  bool empty(int rank) const { return std::find(empty_ranks.begin(), empty_ranks.end(), rank) != empty_ranks.end(); }
  std::int64_t share(int rank) const { return empty(rank) ? 0 : kShare; }
  std::int64_t all() const {
    std::int64_t n = 0;
    for (int r = 0; r < ranks; ++r) n += share(r);
    return n;
  }
};

std::vector<float> first_weights(const Parameters& p) { return gradient(p, 77, 0, true); }

void one_step(const Course& run, Player& player, Parameters& p, Descent& sink, int rank, int t) {
  StepMetrics mine;
  mine.samples = run.share(rank);
  mine.criterion = t + 0.5, mine.criterion_count = static_cast<double>(mine.samples);
  step(player, p, sink, gradient(p, rank, t, run.whole_numbers), mine, run.share(rank));
  player.exchange_weights(run.all());
}

// Weights by rank after a run; `final` ones as shown at an epoch's end.
using Weights = std::vector<std::vector<float>>;
Weights train(const Course& run, const ParallelTrainOptions& o, bool shown = true) {
  Weights result(static_cast<std::size_t>(run.ranks));
  run_ranks(run.ranks, [&](Communicator& comm) {
    Parameters p = parameters_of(kShapes, run.columns_per_chunk);
    const auto start = first_weights(p);
    std::copy(start.begin(), start.end(), p.weights.data());
    const auto player = play(o, comm);
    player->start(p);
    Descent sink(p);
    for (int e = 0; e < run.epochs; ++e) {
      player->begin_epoch(e);
      for (int t = 0; t < run.steps; ++t) one_step(run, *player, p, sink, comm.rank(), e * run.steps + t);
      player->drain(sink);
      player->end_epoch(sink);
    }
    if (shown) player->show_common_weights();
    p.weights.memory().synchronize();
    result[static_cast<std::size_t>(comm.rank())].assign(p.weights.data(), p.weights.data() + p.size());
    if (shown) player->take_back_weights();
  });
  return result;
}

// The same written down for all ranks at once. `combine` makes the next common weights from the sum of factor (P - W).
class Plain {
 public:
  using Combine = std::function<void(std::vector<float>& common, const std::vector<float>& sum)>;
  Plain(const Course& run, std::int64_t block, std::function<float(int rank)> factor, Combine combine)
      : run_(run), block_(block), factor_(std::move(factor)), combine_(std::move(combine)) {}

  std::vector<float> train() {
    const Parameters p = parameters_of(kShapes);
    common_ = first_weights(p);
    weights_.assign(static_cast<std::size_t>(run_.ranks), common_);
    std::int64_t since = 0;
    for (int e = 0; e < run_.epochs; ++e) {
      for (int t = 0; t < run_.steps; ++t) {
        for (int r = 0; r < run_.ranks; ++r) descend(p, r, e * run_.steps + t);
        since += run_.all();
        if (since >= block_) exchange(), since = 0;
      }
      exchange(), since = 0;
    }
    return common_;
  }

 private:
  void descend(const Parameters& p, int rank, int t) {
    if (run_.empty(rank)) return;
    const auto g = gradient(p, rank, t, run_.whole_numbers);
    auto& w = weights_[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.125f * g[i];
  }
  void exchange() {
    std::vector<float> sum(common_.size());
    for (int r = 0; r < run_.ranks; ++r)
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const float offer = factor_(r) * (common_[i] - weights_[static_cast<std::size_t>(r)][i]);
        sum[i] = r == 0 ? offer : sum[i] + offer;
      }
    combine_(common_, sum);
    for (auto& w : weights_) w = common_;
  }

  const Course& run_;
  std::int64_t block_;
  std::function<float(int)> factor_;
  Combine combine_;
  std::vector<float> common_;
  Weights weights_;
};

void expect_all(const Weights& weights, const std::vector<float>& expected) {
  for (std::size_t r = 0; r < weights.size(); ++r) EXPECT_TRUE(reference::same(weights[r], expected)) << "rank " << r;
}

TEST(ModelAveraging, IsTheMeanBySamples) {
  for (int ranks = 2; ranks <= 5; ++ranks)
    for (const std::int64_t block : {1, 20, 35, 1000})
      for (const bool one_empty : {false, true}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, blocks of " << block);
        Course run{.ranks = ranks};
        if (one_empty) run.empty_ranks = {ranks - 1};
        const auto factor = [&](int r) { return static_cast<float>(static_cast<double>(run.share(r)) / run.all()); };
        int exchanges = 0;
        Plain plain(run, block * ranks, factor, [&](std::vector<float>& common, const std::vector<float>& sum) {
          ++exchanges;
          for (std::size_t i = 0; i < common.size(); ++i) common[i] -= sum[i];
        });
        const auto expected = plain.train();
        EXPECT_TRUE(block > 1 || exchanges == 14) << exchanges;  // every step, and at the end of both epochs
        // An exchange at the epoch's end with nothing since the last one has equal factors: nothing moves either way.
        expect_all(train(run, averaging(block)), expected);
      }
}

TEST(ModelAveraging, WithoutItsBlockExchangesAfterEveryMinibatch) {
  const Course run{.ranks = 3};
  ParallelTrainOptions bare;
  bare.method = ModelAveragingOptions();
  EXPECT_EQ(train(run, bare), train(run, averaging(1)));
  EXPECT_NE(train(run, bare), train(run, averaging(20)));
}

TEST(ModelAveraging, OneRankTrainsAsIfAlone) {
  const Course run{.ranks = 1};
  ParallelTrainOptions none;
  for (const std::int64_t block : {1, 25, 1000}) EXPECT_EQ(train(run, averaging(block)), train(run, none));
}

TEST(BlockMomentum, FollowsItsFormula) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (const bool nesterov : {false, true})
      for (const std::int64_t block : {20, 1000}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, Nesterov " << nesterov);
        const Course run{.ranks = ranks};
        const double m = 0.6, rate = 1.2;
        const auto scale = static_cast<float>((1 - m) * rate), keep = static_cast<float>(m);
        std::vector<float> s(parameters_of(kShapes).size());
        Plain plain(
            run, block * ranks, [&](int) { return scale; },
            [&](std::vector<float>& common, const std::vector<float>& sum) {
              for (std::size_t i = 0; i < s.size(); ++i) {
                s[i] = keep * s[i] + sum[i];
                common[i] -= s[i];
                if (nesterov) common[i] -= keep * s[i];
              }
            });
        expect_all(train(run, momentum(block, m, rate, nesterov)), plain.train());
      }
}

TEST(BlockMomentum, ZeroWithRateOneOverRanksIsModelAveraging) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const Course run{.ranks = ranks, .columns_per_chunk = 3};
    for (const bool nesterov : {false, true})
      EXPECT_EQ(train(run, momentum(20, 0, 1.0 / ranks, nesterov)), train(run, averaging(20)));
  }
}

TEST(BlockMomentum, ZeroOnOneRankIsPlainTraining) {
  const Course run{.ranks = 1};
  for (const std::int64_t block : {1, 20, 1000})
    for (const bool nesterov : {false, true})
      EXPECT_EQ(train(run, momentum(block, 0, 1, nesterov)), train(run, ParallelTrainOptions{}));
}

TEST(BlockMomentum, ABlockWithoutSamplesStillMoves) {
  // The whole epoch is one block, exchanged with its last step and again, empty, at its end.
  const Course run{.ranks = 2, .epochs = 1, .steps = 2, .whole_numbers = true};
  const auto moved = train(run, momentum(20, 0.5, 1, true)), once = train(run, momentum(1000, 0.5, 1, true));
  const auto start = first_weights(parameters_of(kShapes));
  for (std::size_t i = 0; i < start.size(); ++i) {
    const float s = (start[i] - once[0][i]) / 1.5f;
    EXPECT_EQ(moved[0][i], once[0][i] - 1.5f * (0.5f * s)) << i;
  }
}

TEST(BlockMomentum, OfOneIsRefused) {
  run_ranks(2, [](Communicator& comm) {
    ParallelTrainOptions o = momentum(1, -1, 1);
    o.as<BlockMomentumOptions>().time_constant = 1e30;
    EXPECT_THROW(play(o, comm), ConfigError);
  });
}

TEST(BlockMomentum, ResetsTheMomentumOfSgdOnDemand) {
  for (const bool reset : {false, true})
    run_ranks(2, [&](Communicator& comm) {
      auto o = momentum(20, 0.5, 1);
      o.as<BlockMomentumOptions>().reset_sgd_momentum = reset;
      const Course run;
      Parameters p = parameters_of(kShapes);
      const auto player = play(o, comm);
      player->start(p);
      player->begin_epoch(0);
      Descent sink(p);
      for (int t = 0; t < 6; ++t) one_step(run, *player, p, sink, comm.rank(), t);
      EXPECT_EQ(sink.resets, reset ? 3 : 0);
      player->end_epoch(sink);
      EXPECT_EQ(sink.resets, reset ? 4 : 0);
    });
}

TEST(OuterOptimizer, SgdWithRateOneIsModelAveraging) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Course run{.ranks = ranks};
    EXPECT_EQ(train(run, outer(20, {.kind = OuterOptimizer::sgd, .rate = 1})), train(run, averaging(20)));
  }
}

TEST(OuterOptimizer, NesterovWithoutMomentumIsSgd) {
  const Course run{.ranks = 3};
  EXPECT_EQ(train(run, outer(20, {.kind = OuterOptimizer::nesterov, .rate = 0.7, .momentum = 0})),
            train(run, outer(20, {.kind = OuterOptimizer::sgd, .rate = 0.7})));
}

TEST(OuterOptimizer, NesterovAndAdamFollowTheirFormulas) {
  const Course run{.ranks = 3};
  const std::size_t n = parameters_of(kShapes).size();
  const auto third = [](int) { return 1.0f / 3; };
  std::vector<float> v(n);
  Plain nesterov(run, 60, third, [&](std::vector<float>& common, const std::vector<float>& g) {
    for (std::size_t i = 0; i < n; ++i) {
      v[i] = 0.9f * v[i] + g[i];
      common[i] -= 0.7f * (g[i] + 0.9f * v[i]);
    }
  });
  expect_all(train(run, outer(20, {.kind = OuterOptimizer::nesterov})), nesterov.train());
  std::vector<double> mean(n), square(n);
  int t = 0;
  Plain adam(run, 60, third, [&](std::vector<float>& common, const std::vector<float>& g) {
    ++t;
    for (std::size_t i = 0; i < n; ++i) {
      mean[i] = 0.9 * mean[i] + 0.1 * g[i], square[i] = 0.95 * square[i] + 0.05 * g[i] * g[i];
      common[i] -= static_cast<float>(0.01 * mean[i] / (1 - std::pow(0.9, t)) /
                                      (std::sqrt(square[i] / (1 - std::pow(0.95, t))) + 1e-8));
    }
  });
  const auto expected = adam.train();
  const auto found = train(run, outer(20, {.kind = OuterOptimizer::adam, .rate = 0.01}));
  for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(found[0][i], expected[i], 1e-4) << i;
}

ParallelTrainOptions elastic(double rate, std::int64_t period) {
  ParallelTrainOptions o;
  o.method = EasgdOptions();
  o.as<EasgdOptions>().moving_rate = rate, o.as<EasgdOptions>().period = period;
  return o;
}

ParallelTrainOptions asa(AsaOptions::What what, ExchangeBits::Kind bits = ExchangeBits::Kind::full,
                         AsaOptions::AllReduce all_reduce = AsaOptions::AllReduce::sharded) {
  ParallelTrainOptions o;
  o.method = AsaOptions();
  o.as<AsaOptions>().what = what, o.as<AsaOptions>().bits.kind = bits, o.as<AsaOptions>().all_reduce = all_reduce;
  return o;
}

TEST(Elastic, FollowsItsFormula) {
  for (const int ranks : {1, 2, 4})
    for (const std::int64_t period : {1, 4, 100}) {
      const Course run{.ranks = ranks};
      const float a = 0.2f;
      const Parameters p = parameters_of(kShapes);
      std::vector<float> center = first_weights(p);
      Weights x(static_cast<std::size_t>(ranks), center);
      std::int64_t since = 0;
      for (int t = 0; t < run.epochs * run.steps; ++t) {
        for (int r = 0; r < ranks; ++r) {
          const auto g = gradient(p, r, t);
          for (std::size_t i = 0; i < center.size(); ++i) x[static_cast<std::size_t>(r)][i] -= 0.125f * g[i];
        }
        if (++since < period && (t + 1) % run.steps != 0) continue;  // also at an epoch's end
        since = 0;
        for (std::size_t i = 0; i < center.size(); ++i) {
          float sum = 0;
          for (std::size_t r = 0; r < x.size(); ++r) {
            const float pull = a * (center[i] - x[r][i]);
            sum = r == 0 ? pull : sum + pull;
            x[r][i] += pull;
          }
          center[i] -= sum;
        }
      }
      SCOPED_TRACE(testing::Message() << ranks << " ranks, every " << period);
      expect_all(train(run, elastic(0.2, period)), center);
      const auto own = train(run, elastic(0.2, period), false);
      for (std::size_t r = 0; r < x.size(); ++r) EXPECT_TRUE(reference::same(own[r], x[r])) << "rank " << r;
    }
}

TEST(Elastic, WithoutPullRanksAreIndependent) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Course run{.ranks = ranks};
    EXPECT_EQ(train(run, elastic(0, 2), false), train(run, ParallelTrainOptions{}));
    expect_all(train(run, elastic(0, 2)), first_weights(parameters_of(kShapes)));
  }
}

TEST(Asa, OfWeightsIsModelAveragingInEveryMinibatch) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Course run{.ranks = ranks};
    const auto sharded = train(run, asa(AsaOptions::What::weights));
    EXPECT_EQ(sharded, train(run, averaging(1)));
    EXPECT_EQ(sharded,
              train(run, asa(AsaOptions::What::weights, ExchangeBits::Kind::full, AsaOptions::AllReduce::library)));
  }
}

// The descent with global gradients; N is that of all ranks.
TEST(Asa, OfGradientsIsDataParallelSgd) {
  ParallelTrainOptions plain;
  plain.method = DataParallelOptions();
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Course run{.ranks = ranks, .columns_per_chunk = 3};
    const auto expected = train(run, plain);
    EXPECT_EQ(train(run, asa(AsaOptions::What::gradients)), expected);
    EXPECT_EQ(train(run, asa(AsaOptions::What::gradients, ExchangeBits::Kind::full, AsaOptions::AllReduce::library)),
              expected);
    const Course whole{.ranks = ranks, .whole_numbers = true};  // which float16 has, and their sums too
    EXPECT_EQ(train(whole, asa(AsaOptions::What::gradients, ExchangeBits::Kind::half)), train(whole, plain));
    EXPECT_NE(train(run, asa(AsaOptions::What::gradients, ExchangeBits::Kind::brain)), expected);
  }
}

constexpr ExchangeBits::Kind kFewBits[] = {ExchangeBits::Kind::half,  ExchangeBits::Kind::brain,
                                           ExchangeBits::Kind::eight, ExchangeBits::Kind::four,
                                           ExchangeBits::Kind::two,   ExchangeBits::Kind::one};

// One exchange: what has not arrived is in the residuals, of the ranks and of the owners.
TEST(ExchangeBits, NothingIsLost) {
  for (const auto bits : kFewBits)
    for (const int ranks : {1, 3}) {
      const Course run{.ranks = ranks, .epochs = 1, .steps = 3};
      auto few = averaging(1000), full = averaging(1000);
      few.as<ModelAveragingOptions>().bits.kind = bits;
      const auto expected = train(run, full);
      std::vector<float> arrived(expected[0].begin(), expected[0].end());
      std::mutex mutex;
      run_ranks(ranks, [&](Communicator& comm) {
        Parameters p = parameters_of(kShapes);
        const auto start = first_weights(p);
        std::copy(start.begin(), start.end(), p.weights.data());
        const auto player = play(few, comm);
        player->start(p);
        player->begin_epoch(0);
        Descent sink(p);
        for (int t = 0; t < run.steps; ++t) one_step(run, *player, p, sink, comm.rank(), t);
        player->end_epoch(sink);
        MemoryArchive archive;
        player->show_common_weights();
        player->archive(archive);
        const std::lock_guard lock(mutex);
        for (std::size_t i = 0; i < p.size(); ++i)
          arrived[i] -=
              (comm.rank() == 0 ? p.weights.data()[i] : 0) - archive.floats.at("owed/ModelAveragingSGD.residual")[i];
      });
      for (std::size_t i = 0; i < arrived.size(); ++i) ASSERT_NEAR(arrived[i], 0, 2e-5) << i;
    }
}

// A rank keeps in its weights what it could not deliver, so whatever arrives, an exchange moves the ranks towards each
// other and not their mean, which is what 32 bits would have made of them.
TEST(ExchangeBits, AnExchangeKeepsTheMeanOfTheRanks) {
  for (const auto bits : kFewBits)
    for (int ranks = 1; ranks <= 4; ++ranks) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks");
      const Course run{.ranks = ranks, .epochs = 1, .steps = 3};
      auto few = averaging(1000), outer_few = outer(1000, {.kind = OuterOptimizer::sgd, .rate = 1});
      auto filtered = momentum(1000, 0, 1.0 / ranks);
      few.as<ModelAveragingOptions>().bits.kind = bits;
      outer_few.as<BlockMomentumOptions>().bits.kind = filtered.as<BlockMomentumOptions>().bits.kind = bits;
      const auto expected = train(run, averaging(1000))[0];
      for (const auto& o : {few, outer_few, filtered}) {
        const Weights own = train(run, o, false);
        double apart = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          double mean = 0;
          for (const auto& w : own) mean += w[i] / ranks, apart += std::abs(w[i] - own[0][i]);
          ASSERT_NEAR(mean, expected[i], 2e-5) << i;
        }
        EXPECT_EQ(apart > 0, ranks > 1);
      }
    }
}

// A rank that is gone has left its residual to one that goes on, in whose weights it stands from then on.
TEST(ExchangeBits, WhatARankInheritsMovesItsWeights) {
  run_ranks(1, [&](Communicator& comm) {
    auto o = momentum(10, 0.5, 1);
    o.as<BlockMomentumOptions>().bits.kind = ExchangeBits::Kind::one;
    const Course run{.ranks = 1};
    Parameters p = parameters_of(kShapes);
    auto player = play(o, comm);
    player->start(p);
    player->begin_epoch(0);
    Descent sink(p);
    one_step(run, *player, p, sink, 0, 0);
    const std::vector<float> own(p.weights.data(), p.weights.data() + p.size());
    player->show_common_weights();
    const std::vector<float> model(p.weights.data(), p.weights.data() + p.size());
    MemoryArchive archive;
    player->archive(archive);
    auto& more = archive.floats["inherited/BlockMomentumSGD.residual"];
    more.assign(p.size(), 0);
    for (std::size_t i = 0; i < 33; ++i) more[i] = static_cast<float>(i);
    const std::vector<float> sums = archive.floats.at("owed/BlockMomentumSGD.residual");
    std::copy(model.begin(), model.end(), p.weights.data());
    archive.rewind_to_load();
    player = play(o, comm);
    player->start(p);
    player->archive(archive);
    // An offer is half the way, so weights move twice as far.
    for (std::size_t i = 0; i < p.size(); ++i)
      EXPECT_EQ(p.weights.data()[i], own[i] - 2 * (i < 33 ? static_cast<float>(i) : 0.0f)) << i;
    player->show_common_weights();
    MemoryArchive again;
    player->archive(again);
    for (std::size_t i = 0; i < 33; ++i)
      EXPECT_EQ(again.floats.at("owed/BlockMomentumSGD.residual")[i], sums[i] + static_cast<float>(i));
  });
}

// The residual that ranks had as owners: a rank that goes on alone owns all columns and sums nothing.
TEST(ExchangeBits, OneRankDeliversWhatOwnersLeft) {
  run_ranks(1, [&](Communicator& comm) {
    auto o = elastic(0, 1);
    o.as<EasgdOptions>().bits.kind = ExchangeBits::Kind::half;
    Parameters p = parameters_of(kShapes);
    MemoryArchive archive;
    auto player = play(o, comm);
    player->start(p);
    player->begin_epoch(0);
    player->archive(archive);
    archive.floats.at("owned/EASGD.ownerResidual").assign(p.size(), 2.0f);
    archive.rewind_to_load();
    player = play(o, comm);
    player->start(p);
    player->archive(archive);
    player->begin_epoch(0);
    Descent sink(p);
    one_step({.ranks = 1}, *player, p, sink, 0, 0);
    player->show_common_weights();
    for (const Slice& s : p.slices) EXPECT_EQ(p.weights.data()[s.offset], -2.0f);
  });
}

// Right after an exchange a rank is away from the common weights by what it owes and by nothing else. So it is on any
// other number of ranks, which changes how far an offer moves the weights; and together their residuals keep their sum.
TEST(ExchangeBits, OtherRanksKeepResidualSums) {
  for (const auto& [o, name] :
       {std::pair(averaging(1000), "ModelAveragingSGD"), std::pair(momentum(1000, -1, 1), "BlockMomentumSGD")})
    for (int before = 1; before <= 4; ++before)
      for (int after = 1; after <= 4; ++after) {
        SCOPED_TRACE(testing::Message() << name << before << after);
        ParallelTrainOptions few = o;
        (std::holds_alternative<ModelAveragingOptions>(few.method) ? few.as<ModelAveragingOptions>().bits
                                                                   : few.as<BlockMomentumOptions>().bits)
            .kind = ExchangeBits::Kind::two;
        const std::string residual = std::string("/") + name + ".residual";
        std::vector<MemoryArchive> old(static_cast<std::size_t>(before));
        std::vector<float> model;
        const Course run{.ranks = before};
        run_ranks(before, [&](Communicator& comm) {
          Parameters p = parameters_of(kShapes);
          const auto player = play(few, comm);
          player->start(p);
          player->begin_epoch(0);
          Descent sink(p);
          for (int t = 0; t < 3; ++t) one_step(run, *player, p, sink, comm.rank(), t);
          player->end_epoch(sink);
          player->show_common_weights();
          player->archive(old[static_cast<std::size_t>(comm.rank())]);
          if (comm.rank() == 0) model.assign(p.weights.data(), p.weights.data() + p.size());
        });
        std::vector<double> sums(model.size()), sums_after(model.size());
        for (const MemoryArchive& a : old)
          for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += a.floats.at("owed" + residual)[i];
        std::mutex mutex;
        run_ranks(after, [&](Communicator& comm) {
          const int rank = comm.rank();
          MemoryArchive mine = old[static_cast<std::size_t>(rank % before)];
          if (rank >= before) std::erase_if(mine.floats, [](const auto& e) { return e.first.starts_with("o"); });
          for (int gone = rank + after; gone < before; gone += after) {
            auto& sum = mine.floats["inherited" + residual];
            sum.resize(model.size());
            for (std::size_t i = 0; i < sum.size(); ++i)
              sum[i] += old[static_cast<std::size_t>(gone)].floats.at("owed" + residual)[i];
          }
          mine.rewind_to_load();
          Parameters p = parameters_of(kShapes);
          std::copy(model.begin(), model.end(), p.weights.data());
          const auto player = play(few, comm);
          player->start(p);
          player->archive(mine);
          MemoryArchive now;
          const std::vector<float> own(p.weights.data(), p.weights.data() + p.size());
          player->show_common_weights();
          player->archive(now);
          const std::vector<float>& r = now.floats.at("owed" + residual);
          for (std::size_t i = 0; i < model.size(); ++i)
            ASSERT_NEAR(model[i] - own[i], static_cast<float>(after) * r[i], 1e-4) << i;
          const std::lock_guard lock(mutex);
          for (std::size_t i = 0; i < sums_after.size(); ++i) sums_after[i] += r[i];
        });
        for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(sums_after[i], sums[i], 1e-5) << i;
      }
}

TEST(ExchangeBits, RanksAgreeWhateverArrives) {
  for (const auto bits : kFewBits) {
    auto o = momentum(20, 0.5, 1, true);
    o.as<BlockMomentumOptions>().bits.kind = bits;
    const auto weights = train({.ranks = 3}, o);
    EXPECT_EQ(weights[0], weights[1]);
    EXPECT_EQ(weights[0], weights[2]);
    EXPECT_NE(weights, train({.ranks = 3}, momentum(20, 0.5, 1, true)));
  }
}

ParallelTrainOptions streamed(ParallelTrainOptions o, StreamSettings stream) {
  if (std::holds_alternative<ModelAveragingOptions>(o.method)) o.as<ModelAveragingOptions>().stream.settings = stream;
  if (std::holds_alternative<BlockMomentumOptions>(o.method))
    o.as<BlockMomentumOptions>().stream.settings = stream, o.as<BlockMomentumOptions>().reset_sgd_momentum = false;
  return o;
}

// Blocks of one minibatch: every fragment is exchanged after every minibatch, so cutting changes nothing.
TEST(Stream, FragmentsOfBlocksOfOneMinibatchAreTheWhole) {
  for (const int ranks : {1, 2, 3})
    for (const auto& o : {averaging(1), momentum(1, 0.5, 1, true), outer(1, {}),
                          outer(1, {.kind = OuterOptimizer::adam, .rate = 0.01})}) {
      const auto whole = train({.ranks = ranks, .columns_per_chunk = 3}, o);
      for (const std::int64_t fragments : {2, 3, 5, 100})
        EXPECT_EQ(train({.ranks = ranks, .columns_per_chunk = 3}, streamed(o, {.fragments = fragments})), whole)
            << fragments;
    }
}

// At the end of an epoch of one block all fragments are exchanged, with what was learned since the last time.
TEST(Stream, AFragmentIsExchangedWhenItsPartOfTheBlockIsOver) {
  for (const int ranks : {2, 3}) {
    const Course run{.ranks = ranks, .epochs = 1, .steps = 3, .columns_per_chunk = 1000};
    // Two fragments of blocks of four minibatches: the first is exchanged after two of three, the second at the end.
    const auto found = train(run, streamed(momentum(40, 0.5, 1), {.fragments = 2}));
    const auto once = train(run, momentum(1000, 0.5, 1));
    int step = 0;
    std::vector<float> smoothed(parameters_of(kShapes).size());
    const auto half = [](int) { return 0.5f; };
    Plain plain(run, 20 * ranks, half, [&](std::vector<float>& common, const std::vector<float>& sum) {
      ++step;
      for (std::size_t i = 0; i < common.size(); ++i) {
        smoothed[i] = 0.5f * smoothed[i] + sum[i];
        common[i] -= smoothed[i];
      }
    });
    const auto twice = plain.train();
    EXPECT_EQ(step, 2);
    std::size_t first = 0, second = 0;
    for (std::size_t i = 0; i < twice.size(); ++i) {
      if (twice[i] == once[0][i]) continue;
      EXPECT_TRUE(found[0][i] == twice[i] || found[0][i] == once[0][i]) << i;
      ++(found[0][i] == twice[i] ? first : second);
    }
    EXPECT_GT(first, 100u);
    EXPECT_GT(second, 100u);
  }
}

// What was learned while an exchange was under way is neither lost nor counted twice: with averaging the mean of the
// ranks is the one of ranks that never exchange (their gradients do not depend on their weights here).
TEST(Stream, OverlapKeepsTheMeanOfTheRanks) {
  for (const auto bits : {ExchangeBits::Kind::full, ExchangeBits::Kind::one})
    for (const int ranks : {1, 2, 4})
      for (const StreamSettings stream : {StreamSettings{1, 1}, {1, 2}, {3, 1}, {2, 3}}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << stream.fragments << ", " << stream.overlap);
        const Course run{.ranks = ranks, .epochs = 2, .steps = 7, .columns_per_chunk = 3};
        auto o = streamed(averaging(20), stream);
        o.as<ModelAveragingOptions>().bits.kind = bits;
        const auto own = train(run, o, false), alone = train(run, elastic(0, 100), false);
        for (std::size_t i = 0; i < own[0].size(); ++i) {
          double mean = 0, expected = 0;
          for (int r = 0; r < ranks; ++r)
            mean += own[static_cast<std::size_t>(r)][i], expected += alone[static_cast<std::size_t>(r)][i];
          ASSERT_NEAR(mean / ranks, expected / ranks, 5e-5) << i;
        }
        const auto shown = train(run, o);
        for (const auto& w : shown) EXPECT_EQ(w, shown[0]);
      }
}

TEST(Stream, MixingAllOfTheOwnWeightsLeavesThemAlone) {
  const Course run{.ranks = 3, .epochs = 1, .steps = 7};
  const auto own = [&](const ParallelTrainOptions& o) { return train(run, o, false); };
  // The exchange at the end of the epoch waits, and brings all ranks together.
  EXPECT_EQ(own(streamed(averaging(20), {1, 1, 1.0}))[0], own(streamed(averaging(20), {1, 1, 1.0}))[1]);
  EXPECT_NE(own(streamed(averaging(20), {1, 1, 1.0})), own(streamed(averaging(20), {1, 1, 0.0})));
}

TEST(BlockExchange, NumbersDoNotDependOnTheTransport) {
  const auto by = [](ParallelTrainOptions o, Transport transport) {
    o.transport = transport;
    return o;
  };
  for (const auto bits : {ExchangeBits::Kind::full, ExchangeBits::Kind::half, ExchangeBits::Kind::one})
    for (int ranks = 2; ranks <= 5; ++ranks) {
      auto blocks = momentum(20, 0.5, 1, true), parts = streamed(averaging(20), {.fragments = 3, .overlap = 2});
      auto pulled = elastic(0.2, 2);
      blocks.as<BlockMomentumOptions>().bits.kind = parts.as<ModelAveragingOptions>().bits.kind =
          pulled.as<EasgdOptions>().bits.kind = bits;
      for (const auto& o : {blocks, parts, pulled}) {
        const Course run{.ranks = ranks, .columns_per_chunk = 3, .empty_ranks = {1}};
        EXPECT_EQ(train(run, by(o, Transport::shared_memory), false), train(run, by(o, Transport::messages), false))
            << ranks;
      }
    }
}

TEST(BlockExchange, NumbersDoNotDependOnChunks) {
  for (const auto& o : {averaging(20), momentum(20, 0.5, 1, true)}) {
    const auto whole = train({.ranks = 3}, o);
    for (const std::size_t columns : {1, 2, 3, 5})
      EXPECT_EQ(train({.ranks = 3, .columns_per_chunk = columns}, o), whole) << columns;
  }
}

// Weights move where the last gradient was zero, and nothing is left in the gradients of the network.
TEST(BlockExchange, SlicesWithSparseGradientsAreExchangedWhole) {
  run_ranks(2, [](Communicator& comm) {
    Parameters p = parameters_of({{8, 40}});
    p.slices[0].sparse_gradient = true;
    p.sparse_rows.resize(1);
    const auto player = play(averaging(1), comm);
    player->start(p);
    player->begin_epoch(0);
    Descent sink(p);
    player->begin_step(10, sink);
    p.sparse_rows[0] = {static_cast<std::uint32_t>(comm.rank())};
    for (std::size_t i = 0; i < 8; ++i) p.gradients.data()[8 * comm.rank() + i] = 8;
    player->chunk_ready(0);
    StepMetrics mine;
    mine.samples = 10;
    player->finish_gradients(mine);
    player->exchange_weights(20);
    for (std::size_t i = 0; i < p.size(); ++i) {
      EXPECT_EQ(p.weights.data()[i], i < 16 ? -0.5f : 0.0f) << i;
      EXPECT_EQ(p.gradients.data()[i] != 0, static_cast<int>(i / 8) == comm.rank()) << i;
    }
  });
}

// Within a block the metrics are the rank's own; the rest comes when the epoch ends, and comes once.
TEST(BlockExchange, MetricsOfTheOthersComeAtTheEnd) {
  for (const int ranks : {1, 3})
    run_ranks(ranks, [&](Communicator& comm) {
      Parameters p = parameters_of(kShapes);
      const auto player = play(averaging(1000), comm);
      player->start(p);
      player->begin_epoch(0);
      Descent sink(p);
      StepMetrics mine, expected;
      for (int t = 0; t < 3; ++t) {
        for (int r = 0; r < ranks; ++r) expected += metrics(r, t);
        const StepMetrics seen = step(*player, p, sink, gradient(p, comm.rank(), t), metrics(comm.rank(), t), 5);
        EXPECT_EQ(seen.samples, metrics(comm.rank(), t).samples);
        mine += seen;
        player->exchange_weights(10 * ranks);
      }
      player->drain(sink);
      mine += player->metrics_of_others_and_reset();
      EXPECT_EQ(mine.samples, expected.samples);
      EXPECT_NEAR(mine.criterion, expected.criterion, 1e-12);
      EXPECT_EQ(mine.criterion_count, expected.criterion_count);
      ASSERT_EQ(mine.evaluations.size(), 2u);
      EXPECT_EQ(mine.evaluations[1].sum, expected.evaluations[1].sum);
      EXPECT_EQ(player->metrics_of_others_and_reset().samples, 0);
      player->drain(sink);
      EXPECT_EQ(player->metrics_of_others_and_reset().samples, 0);
    });
}

// Save in the middle of a block, load into a new player, go on: the same as without a break. Saving changes nothing.
void expect_exact_resume(const ParallelTrainOptions& o, int at) {
  const Course run{.ranks = 3, .epochs = 1, .steps = 8};
  run_ranks(run.ranks, [&](Communicator& comm) {
    std::vector<float> whole;
    for (const bool stop : {false, true}) {
      Parameters p = parameters_of(kShapes, 3);
      const auto start = first_weights(p);
      std::copy(start.begin(), start.end(), p.weights.data());
      auto player = play(o, comm);
      player->start(p);
      player->begin_epoch(0);
      Descent sink(p);
      for (int t = 0; t < run.steps; ++t) {
        if (t == at) {
          MemoryArchive rank_state, common;
          player->drain(sink);
          player->show_common_weights();
          const std::vector<float> model(p.weights.data(), p.weights.data() + p.size());
          player->archive_common(common);
          player->archive(rank_state);
          player->take_back_weights();
          if (stop) {
            std::copy(model.begin(), model.end(), p.weights.data());
            rank_state.rewind_to_load(), common.rewind_to_load();
            player = play(o, comm);
            player->start(p);
            player->archive_common(common);
            player->archive(rank_state);
            player->begin_epoch(0);
          }
        }
        one_step(run, *player, p, sink, comm.rank(), t);
      }
      player->drain(sink);
      player->end_epoch(sink);
      std::vector<float> weights(p.weights.data(), p.weights.data() + p.size());
      if (stop)
        EXPECT_EQ(weights, whole) << "rank " << comm.rank();
      else
        whole = weights;
    }
  });
}

TEST(BlockExchange, ContinuesFromItsArchives) {
  auto one_bit = momentum(20, 0.5, 1, true), elastic_bits = elastic(0.2, 3);
  one_bit.as<BlockMomentumOptions>().bits.kind = ExchangeBits::Kind::one;
  elastic_bits.as<EasgdOptions>().bits.kind = ExchangeBits::Kind::four;
  for (const int at : {3, 4})  // within a block, and between two
    for (const auto& o :
         {averaging(20), momentum(20, 0.5, 1, true), one_bit, elastic(0.2, 3), elastic_bits,
          streamed(one_bit, {.fragments = 3}), streamed(one_bit, {1, 2}), streamed(averaging(20), {2, 1}),
          streamed(outer(20, {.kind = OuterOptimizer::adam, .rate = 0.01}), {3, 3, 0.5}), outer(20, {}),
          outer(20, {.kind = OuterOptimizer::adam, .rate = 0.01})})
      expect_exact_resume(o, at);
}

// Own weights of each rank after `at` steps of `before` ranks and `more` of the first `after` of them, which load what
// was saved in between; with `ends` after the end of the epoch, too.
Weights continued(const ParallelTrainOptions& o, int before, int at, int after, int more, bool ends = false) {
  std::vector<MemoryArchive> rank_states(static_cast<std::size_t>(before));
  MemoryArchive common;
  std::vector<float> model;
  const auto steps = [&](Player& player, Parameters& p, Descent& sink, int rank, int ranks, int from, int end) {
    for (int t = from; t < end; ++t) one_step({.ranks = ranks}, player, p, sink, rank, t);
  };
  run_ranks(before, [&](Communicator& comm) {
    Parameters p = parameters_of(kShapes);
    const auto start = first_weights(p);
    std::copy(start.begin(), start.end(), p.weights.data());
    const auto player = play(o, comm);
    player->start(p);
    player->begin_epoch(0);
    Descent sink(p);
    steps(*player, p, sink, comm.rank(), before, 0, at);
    player->drain(sink);
    player->show_common_weights();
    p.weights.memory().synchronize();
    player->archive(rank_states[static_cast<std::size_t>(comm.rank())]);
    if (comm.rank() == 0) {
      player->archive_common(common);
      model.assign(p.weights.data(), p.weights.data() + p.size());
    }
    comm.barrier();
    player->take_back_weights();
  });
  Weights own(static_cast<std::size_t>(after));
  run_ranks(after, [&](Communicator& comm) {
    MemoryArchive mine = rank_states[static_cast<std::size_t>(comm.rank())], of_all = common;
    mine.rewind_to_load(), of_all.rewind_to_load();
    Parameters p = parameters_of(kShapes);
    std::copy(model.begin(), model.end(), p.weights.data());
    const auto player = play(o, comm);
    player->start(p);
    player->archive_common(of_all);
    player->archive(mine);
    player->begin_epoch(0);
    Descent sink(p);
    steps(*player, p, sink, comm.rank(), after, at, at + more);
    player->drain(sink);
    if (ends) player->end_epoch(sink);
    p.weights.memory().synchronize();
    own[static_cast<std::size_t>(comm.rank())].assign(p.weights.data(), p.weights.data() + p.size());
  });
  return own;
}

// Common weights of a rank alone are its own at the last end of a block, in fragments as on the whole.
TEST(Stream, ARankAloneHasCommonWeights) {
  const auto same = [](const Parameters& a, const Parameters& b) {
    a.weights.memory().synchronize(), b.weights.memory().synchronize();
    return std::equal(a.weights.data(), a.weights.data() + a.size(), b.weights.data());
  };
  run_ranks(1, [&](Communicator& comm) {
    for (const StreamSettings& stream : {StreamSettings{.fragments = 2}, StreamSettings{1, 2}}) {
      Parameters p = parameters_of(kShapes), q = parameters_of(kShapes);
      const auto plain = play(averaging(20), comm), streams = play(streamed(averaging(20), stream), comm);
      Descent to_p(p), to_q(q);
      plain->start(p), streams->start(q);
      plain->begin_epoch(0), streams->begin_epoch(0);
      for (int t = 0; t < 11; ++t) {
        one_step({.ranks = 1}, *plain, p, to_p, 0, t);
        one_step({.ranks = 1}, *streams, q, to_q, 0, t);
        plain->show_common_weights(), streams->show_common_weights();
        EXPECT_TRUE(same(p, q)) << t << ", the common weights";
        plain->take_back_weights(), streams->take_back_weights();
        EXPECT_TRUE(same(p, q)) << t << ", its own weights";
      }
    }
  });
}

// Two ranks offer their weights after the fourth step and use the sums after the sixth.
TEST(Stream, ARankAloneUsesWhatIsUnderWay) {
  const auto o = streamed(averaging(4 * kShare), {1, 2}), later = streamed(averaging(100 * kShare), {1, 2});
  const auto alone = continued(o, 2, 5, 1, 1);
  EXPECT_EQ(alone[0], continued(o, 2, 5, 2, 1)[0]);
  EXPECT_NE(alone[0], continued(later, 2, 5, 1, 1)[0]) << "nothing was under way";
}

// What ranks that are gone have seen does not count.
TEST(Stream, FewerRanksAverageByTheirSamples) {
  for (const int after : {1, 2, 3}) {
    const auto whole = continued(averaging(1000), 4, 3, after, 2, true);
    for (const StreamSettings& stream : {StreamSettings{.fragments = 2}, StreamSettings{1, 2}})
      EXPECT_EQ(continued(streamed(averaging(1000), stream), 4, 3, after, 2, true), whole) << after;
  }
}

// As when a run goes back: no residual of the first run is left in the second.
TEST(BlockExchange, StartsAgainWithoutResiduals) {
  auto one_bit = momentum(20, 0.5, 1, true), elastic_bits = elastic(0.2, 3);
  one_bit.as<BlockMomentumOptions>().bits.kind = ExchangeBits::Kind::one;
  elastic_bits.as<EasgdOptions>().bits.kind = ExchangeBits::Kind::four;
  for (const auto& o : {one_bit, elastic_bits, streamed(one_bit, {.fragments = 3})})
    run_ranks(2, [&](Communicator& comm) {
      const Course run{.epochs = 1};
      Parameters p = parameters_of(kShapes, 3);
      const auto first = first_weights(p);
      const auto player = play(o, comm);
      Descent sink(p);
      std::vector<std::vector<float>> ends;
      for (int round = 0; round < 2; ++round) {
        p.weights.memory().synchronize();
        std::copy(first.begin(), first.end(), p.weights.data());
        player->start(p);
        player->begin_epoch(0);
        for (int t = 0; t < run.steps; ++t) one_step(run, *player, p, sink, comm.rank(), t);
        player->drain(sink);
        player->end_epoch(sink);
        p.weights.memory().synchronize();
        ends.emplace_back(p.weights.data(), p.weights.data() + p.size());
      }
      EXPECT_EQ(ends[0], ends[1]) << "rank " << comm.rank();
    });
}

TEST(BlockExchange, AfterAWarmStartTheBlocksBeginWithTheWeightsReached) {
  run_ranks(2, [](Communicator& comm) {
    auto o = momentum(1000, 0, 0.5);
    o.start_epoch = 2;
    const Course run{.ranks = 1, .whole_numbers = true};
    Parameters p = parameters_of(kShapes);
    const auto player = play(o, comm);
    player->start(p);
    Descent sink(p);
    std::vector<float> reached;
    for (int epoch = 0; epoch < 2; ++epoch) {
      player->begin_epoch(epoch);
      EXPECT_EQ(player->warm_start().parallel_throughout(epoch), epoch == 1);
      if (epoch == 1) reached.assign(p.weights.data(), p.weights.data() + p.size());
      one_step(run, *player, p, sink, epoch == 0 ? 0 : comm.rank(), epoch);
      player->drain(sink);
      player->end_epoch(sink);
    }
    const auto a = gradient(p, 0, 1, true), b = gradient(p, 1, 1, true);
    for (std::size_t i = 0; i < p.size(); ++i)
      EXPECT_EQ(p.weights.data()[i], reached[i] - 0.125f * 0.5f * (a[i] + b[i])) << i;
  });
}

// In the middle of an epoch.
TEST(BlockExchange, AWarmStartCanBeginWithAnySample) {
  run_ranks(2, [](Communicator& comm) {
    auto o = averaging(1);
    o.start_epoch = 2, o.start_sample = 30;
    const auto player = play(o, comm);
    EXPECT_FALSE(player->warm_start().parallel_throughout(0));
    EXPECT_FALSE(player->warm_start().parallel_throughout(1));
    EXPECT_EQ(player->warm_start().parallel_from(1), 30);
    EXPECT_TRUE(player->warm_start().parallel_throughout(2));
    const Course run;
    Parameters p = parameters_of(kShapes);
    player->start(p);
    Descent sink(p);
    for (int epoch = 0; epoch < 2; ++epoch) {
      player->begin_epoch(epoch);
      for (int t = 0; t < 3; ++t) one_step(run, *player, p, sink, 0, t);
      player->drain(sink);
      player->end_epoch(sink);
    }
    const std::vector<float> alone(p.weights.data(), p.weights.data() + p.size());
    player->begin_parallel(1);
    one_step(run, *player, p, sink, comm.rank(), 9);
    const auto a = gradient(p, 0, 9), b = gradient(p, 1, 9);
    for (std::size_t i = 0; i < p.size(); ++i)
      EXPECT_NEAR(p.weights.data()[i], alone[i] - 0.0625f * (a[i] + b[i]), 1e-5) << i;
  });
}

TEST(BlockExchange, AdviseAgainstTrainingsThatAreTooShort) {
  run_ranks(4, [](Communicator& comm) {
    const auto player = play(momentum(1000, 0.75, 1), comm);
    EXPECT_THAT(player->method().advice(15999), HasSubstr("blockSizePerWorker = 999 or less"));
    EXPECT_THAT(player->method().advice(15999), HasSubstr("16000 samples in all"));
    EXPECT_EQ(player->method().advice(16000), "");
    EXPECT_EQ(play(averaging(1000), comm)->method().advice(10), "");
    EXPECT_EQ(play(momentum(1000, 0, 1), comm)->method().advice(10), "");
  });
}

TEST(BlockExchange, CountsTheBytesItSends) {
  run_ranks(2, [](Communicator& comm) {
    Parameters p = parameters_of({{64, 6}});
    const auto player = play(averaging(20), comm);
    player->start(p);
    player->begin_epoch(0);
    player->exchange_stats_and_reset();
    Descent sink(p);
    const Course run;
    for (int t = 0; t < 4; ++t) one_step(run, *player, p, sink, comm.rank(), t);
    const ExchangeStats stats = player->exchange_stats_and_reset();
    EXPECT_EQ(stats.bytes_sent, 2 * (3 * 64 * 4 + 3 * 64 * 4));
    EXPECT_EQ(stats.exchanges, 2);
    EXPECT_EQ(player->exchange_stats_and_reset().bytes_sent, 0);
  });
}

}  // namespace
}  // namespace tutti::block_steps_test

// SPDX-License-Identifier: Apache-2.0
// The rule oneBitAdam with the exchange that sums for it: Adam up to the end of the warm-up, then its formula with a
// variance that stands still; nothing is lost in few bits, and weights without a variance stay where they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>

#include "../support/run_ranks.h"
#include "optim/optimizer_options.h"
#include "parallel/options.h"
#include "training.h"

namespace tutti::one_bit_adam_test {
namespace {

using namespace training;

const Shapes kShapes{{33, 7}, {33, 1}, {10, 20}, {1, 50}, {130, 3}, {1, 1}};
constexpr std::int64_t kColumns = 20;
constexpr double kRate = 0.001;

bool has_no_variance(std::size_t i) { return i % 7 == 3; }

// Zero up to the end of the warm-up where there is to be no variance.
std::vector<float> gradient_at(const Parameters& p, int rank, int step, int warm_steps) {
  auto g = gradient(p, rank, step);
  for (std::size_t i = 0; i < g.size(); ++i)
    if (step < warm_steps && has_no_variance(i)) g[i] = 0;
  return g;
}

// As the step loop's: feeds an optimizer, updates nothing where the rate is 0.
class Feed : public Sink {
 public:
  Feed(Optimizer& optimizer, double rate) : optimizer_(optimizer), rate_(rate) {}
  void on_reduced(std::size_t chunk, std::int64_t columns) override {
    if (rate_ == 0) return;
    begin(columns);
    optimizer_.update(chunk);
  }
  Summed summed(std::int64_t) const override { return rate_ == 0 ? Summed::nothing : optimizer_.summed(); }
  void contribute(std::size_t chunk, std::int64_t columns, int ranks) override {
    begin(columns);
    optimizer_.contribute(chunk, ranks);
  }
  const float* mask() const override { return optimizer_.mask(); }

 private:
  void begin(std::int64_t columns) {
    if (!std::exchange(begun_, true)) optimizer_.begin_step({rate_, 0.9, columns});
  }
  Optimizer& optimizer_;
  double rate_;
  bool begun_ = false;
};

struct Course {
  int ranks = 3, bits = 1, warm_steps = 3, steps = 8;
  UpdateRule rule = UpdateRule::one_bit_adam;
  MethodOptions method = DataParallelOptions();
  std::size_t columns_per_chunk = 3;
  double l2 = 0;
  int stop = -1;     // saved, and gone on with by new objects, before this step
  int resting = -1;  // a step with rate 0
  // Ranks that sum in full among themselves, or ranks that stand for so many: either way by number of the rank.
  std::vector<std::vector<int>> groups = {}, parts = {};
};

// What a rank has that stands for several: their sum.
std::vector<float> gradient_of(const Course& run, const Parameters& p, int rank, int step) {
  if (run.parts.empty()) return gradient_at(p, rank, step, run.warm_steps);
  std::vector<float> sum;
  for (const int part : run.parts[static_cast<std::size_t>(rank)]) {
    const auto g = gradient_at(p, part, step, run.warm_steps);
    if (sum.empty())
      sum = g;
    else
      std::transform(sum.begin(), sum.end(), g.begin(), sum.begin(), std::plus<>());
  }
  return sum;
}

// What a rank has after a step.
struct Seen {
  std::vector<float> weights, momentum, local, owner;
};

struct Rank {
  Rank(const Course& run, Communicator& comm, Parameters& p) {
    OptimizerOptions o;
    o.rule = run.rule, o.l2 = run.l2, o.warmup_samples = run.warm_steps * kColumns;
    optimizer = make_optimizer(o);
    optimizer->bind(p);
    ParallelTrainOptions options;
    options.method = run.method;
    if (auto* o = std::get_if<DataParallelOptions>(&options.method)) o->gradient_bits = run.bits;
    if (!run.groups.empty())
      options.groups = {GroupOptions::Kind::of_size, static_cast<std::int64_t>(run.groups[0].size())};
    player = play(options, comm);
    player->start(p);
  }
  void archive(Archive& a) {
    player->archive(a);
    optimizer->archive(a);
  }
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Player> player;
};

Seen look(Rank& rank, const Parameters& p) {
  MemoryArchive archive;
  rank.archive(archive);
  Seen seen;
  seen.weights.assign(p.weights.data(), p.weights.data() + p.size());
  seen.momentum.resize(p.size());
  for (const Slice& s : p.slices) {
    const auto& part = archive.floats.at("momentum/" + s.name);
    std::copy(part.begin(), part.end(), seen.momentum.begin() + static_cast<std::ptrdiff_t>(s.offset));
  }
  if (archive.floats.contains("owed/dataParallelSGD.residual")) {
    seen.local = archive.floats.at("owed/dataParallelSGD.residual");
    seen.owner = archive.floats.at("owned/dataParallelSGD.ownerResidual");
  }
  return seen;
}

// By step, then by rank.
std::vector<std::vector<Seen>> train(const Course& run) {
  std::vector<std::vector<Seen>> all(static_cast<std::size_t>(run.steps),
                                     std::vector<Seen>(static_cast<std::size_t>(run.ranks)));
  run_ranks(run.ranks, [&](Communicator& comm) {
    Parameters p = parameters_of(kShapes, run.columns_per_chunk);
    const auto initial = gradient(p, 77, 0);
    std::copy(initial.begin(), initial.end(), p.weights.data());
    auto rank = std::make_unique<Rank>(run, comm, p);
    rank->player->begin_epoch(0);
    for (int t = 0; t < run.steps; ++t) {
      if (t == run.stop) {
        MemoryArchive archive;
        rank->archive(archive);
        archive.rewind_to_load();
        rank = std::make_unique<Rank>(run, comm, p);
        rank->archive(archive);
        rank->player->begin_epoch(0);
      }
      Feed sink(*rank->optimizer, t == run.resting ? 0 : kRate);
      step(*rank->player, p, sink, gradient_of(run, p, comm.rank(), t), metrics(comm.rank(), t), kColumns);
      all[static_cast<std::size_t>(t)][static_cast<std::size_t>(comm.rank())] = look(*rank, p);
    }
  });
  for (const auto& ranks : all)
    for (const Seen& seen : ranks) {
      EXPECT_TRUE(reference::same(seen.weights, ranks[0].weights));
      EXPECT_TRUE(reference::same(seen.momentum, ranks[0].momentum));
    }
  return all;
}

const std::vector<float>& last_weights(const std::vector<std::vector<Seen>>& all) { return all.back()[0].weights; }

TEST(OneBitAdam, IsAdamInThirtyTwoBitsWhileItWarmsUp) {
  for (const int ranks : {1, 2, 3, 4})
    for (const int bits : {1, 32}) {
      const auto adam = train({.ranks = ranks, .bits = 32, .rule = UpdateRule::adam});
      const auto warm = train({.ranks = ranks, .bits = bits, .warm_steps = 100});
      // Gradients are those of warm_steps = 3 in one and of 100 in the other, alike where there is a variance.
      for (std::size_t i = 0; i < last_weights(adam).size(); ++i)
        if (!has_no_variance(i)) {
          ASSERT_EQ(last_weights(adam)[i], last_weights(warm)[i]) << i;
        }
    }
}

// Adam with a variance that stands still after the warm-up, in double precision.
std::vector<double> formula(const Course& run, const Parameters& p) {
  const auto initial = gradient(p, 77, 0);
  std::vector<double> w(initial.begin(), initial.end()), m(p.size()), v(p.size());
  const double n = static_cast<double>(kColumns);
  for (int t = 0; t < run.steps; ++t) {
    std::vector<double> g(p.size());
    for (int r = 0; r < run.ranks; ++r) {
      const auto part = gradient_at(p, r, t, run.warm_steps);
      for (std::size_t i = 0; i < g.size(); ++i) g[i] += part[i];
    }
    const int warm = std::min(t + 1, run.warm_steps);
    for (const Slice& s : p.slices)
      for (std::size_t i = s.offset; i < s.offset + s.size(); ++i) {
        const double mean = g[i] / n + run.l2 * w[i];
        if (t < run.warm_steps) v[i] = 0.999 * v[i] + 0.001 * mean * mean;
        if (v[i] == 0) continue;
        m[i] = 0.9 * m[i] + 0.1 * mean;
        w[i] -= kRate * n * m[i] / (1 - std::pow(0.9, t + 1)) / (std::sqrt(v[i] / (1 - std::pow(0.999, warm))) + 1e-8);
      }
  }
  return w;
}

TEST(OneBitAdam, InThirtyTwoBitsIsTheFormula) {
  const Parameters p = parameters_of(kShapes);
  for (const int ranks : {1, 2, 3, 4})
    for (const double l2 : {0.0, 0.01})
      for (const MethodOptions& method : {MethodOptions(DataParallelOptions()), MethodOptions(AsaOptions())}) {
        const Course run{.ranks = ranks, .bits = 32, .steps = 12, .method = method, .l2 = l2};
        const auto all = train(run);
        const auto expected = formula(run, p);
        for (std::size_t i = 0; i < p.size(); ++i)
          ASSERT_NEAR(last_weights(all)[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << i;
      }
  const Course alone{.ranks = 1, .bits = 32, .steps = 12, .method = NoExchange()};
  const auto all = train(alone);
  const auto expected = formula(alone, p);
  for (std::size_t i = 0; i < p.size(); ++i)
    ASSERT_NEAR(last_weights(all)[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << i;
}

std::vector<double> everything(const std::vector<Seen>& ranks) {
  std::vector<double> sum(ranks[0].momentum.begin(), ranks[0].momentum.end());
  for (const Seen& seen : ranks)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(seen.local[i]) + seen.owner[i];
  return sum;
}

// New momentum + new residuals = 0.9 old momentum + 0.1 mean gradient + old residuals.
TEST(OneBitAdam, LosesNothingInFewBits) {
  const Parameters p = parameters_of(kShapes);
  for (const int ranks : {1, 2, 3, 4})
    for (const int bits : {1, 4}) {
      const Course run{.ranks = ranks, .bits = bits};
      const auto all = train(run);
      double residuals = 0;
      for (int t = run.warm_steps; t < run.steps; ++t) {
        const auto &before = all[static_cast<std::size_t>(t - 1)], &after = all[static_cast<std::size_t>(t)];
        auto expected = everything(before);
        for (std::size_t i = 0; i < p.size(); ++i) {
          expected[i] -= 0.1 * before[0].momentum[i];
          for (int r = 0; r < ranks && !has_no_variance(i); ++r)
            expected[i] += 0.1 / static_cast<double>(kColumns) * gradient_at(p, r, t, run.warm_steps)[i];
        }
        const auto actual = everything(after);
        for (const Slice& s : p.slices)
          for (std::size_t i = s.offset; i < s.offset + s.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-6) << i;
        for (const float r : after[0].local) residuals += std::abs(r);
      }
      EXPECT_GT(residuals, 0);
    }
}

TEST(OneBitAdam, WeightsWithoutVarianceStayWhereTheyAre) {
  const Parameters p = parameters_of(kShapes);
  const auto initial = gradient(p, 77, 0);
  for (const int ranks : {1, 3})
    for (const int bits : {1, 8, 32}) {
      const auto all = train({.ranks = ranks, .bits = bits});
      std::size_t moved = 0;
      for (const Seen& seen : all.back())
        for (std::size_t i = 0; i < p.size(); ++i) {
          if (!has_no_variance(i)) {
            moved += seen.weights[i] != initial[i];
            continue;
          }
          ASSERT_EQ(seen.weights[i], initial[i]);
          ASSERT_EQ(seen.momentum[i], 0.0f);
          if (!seen.local.empty()) {
            ASSERT_EQ(seen.local[i], 0.0f);
            ASSERT_EQ(seen.owner[i], 0.0f);
          }
        }
      EXPECT_GT(moved, 500u);
    }
}

// A rate of 0 is no step: neither momentum nor residuals know of it.
TEST(OneBitAdam, StepsThatUpdateNothingChangeNothing) {
  for (const int resting : {1, 3, 5}) {
    const auto all = train({.resting = resting});
    const auto &before = all[static_cast<std::size_t>(resting - 1)], &after = all[static_cast<std::size_t>(resting)];
    for (std::size_t r = 0; r < before.size(); ++r) {
      EXPECT_EQ(before[r].weights, after[r].weights);
      EXPECT_EQ(before[r].momentum, after[r].momentum);
      EXPECT_EQ(before[r].local, after[r].local);
      EXPECT_EQ(before[r].owner, after[r].owner);
    }
    EXPECT_NE(all.back()[0].weights, after[0].weights);
  }
}

TEST(OneBitAdam, GoesOnFromItsArchiveBeforeAtAndAfterTheEndOfTheWarmUp) {
  for (const int bits : {1, 32}) {
    const auto whole = train({.bits = bits});
    for (const int stop : {1, 2, 3, 4, 6}) {
      const auto parts = train({.bits = bits, .stop = stop});
      for (std::size_t t = 0; t < whole.size(); ++t)
        for (std::size_t r = 0; r < whole[t].size(); ++r) {
          ASSERT_EQ(whole[t][r].weights, parts[t][r].weights) << "stopped before " << stop << ", step " << t;
          ASSERT_EQ(whole[t][r].local, parts[t][r].local);
          ASSERT_EQ(whole[t][r].owner, parts[t][r].owner);
        }
    }
  }
}

// Groups are single ranks with the gradients of all of theirs, at any moment of the warm-up and after.
TEST(OneBitAdam, BetweenGroupsIsThatOfAsManyRanksAsGroups) {
  using Groups = std::vector<std::vector<int>>;
  for (const Groups& groups : {Groups{{0, 1}, {2, 3}}, Groups{{0, 1}, {2}}, Groups{{0, 1, 2}, {3, 4}}})
    for (const int bits : {1, 4, 32})
      for (const auto& [stop, resting] : {std::pair(-1, -1), {2, 5}, {5, 2}}) {
        Course run{.bits = bits, .stop = stop, .resting = resting};
        run.ranks = static_cast<int>(groups.size()), run.parts = groups;
        const auto expected = train(run);
        run.ranks = groups.back().back() + 1, run.parts = {}, run.groups = groups;
        const auto is = train(run);
        for (std::size_t t = 0; t < expected.size(); ++t) {
          ASSERT_EQ(is[t][0].weights, expected[t][0].weights) << bits << " bits, step " << t;
          ASSERT_EQ(is[t][0].momentum, expected[t][0].momentum) << bits << " bits, step " << t;
        }
      }
}

TEST(OneBitAdam, NumbersDoNotDependOnChunks) {
  const auto a = train({.columns_per_chunk = 1000}), b = train({.columns_per_chunk = 2});
  EXPECT_EQ(last_weights(a), last_weights(b));
}

TEST(OneBitAdam, SendsGradientsInFullAndMomentumInBits) {
  run_ranks(2, [](Communicator& comm) {
    Parameters p = parameters_of({{256, 40}});
    Rank rank({.ranks = 2, .warm_steps = 1}, comm, p);
    rank.player->begin_epoch(0);
    std::int64_t bytes[2];
    for (int t = 0; t < 2; ++t) {
      Feed sink(*rank.optimizer, kRate);
      step(*rank.player, p, sink, gradient(p, comm.rank(), t), metrics(comm.rank(), t), kColumns);
      bytes[t] = rank.player->exchange_stats_and_reset().bytes_sent;
    }
    EXPECT_GE(bytes[0], 256 * 40 * 4);
    EXPECT_LE(bytes[1], 256 * 40 / 8 + 40 * 8 + 200);
  });
}

}  // namespace
}  // namespace tutti::one_bit_adam_test

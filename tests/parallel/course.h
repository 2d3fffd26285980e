// SPDX-License-Identifier: Apache-2.0
// course.h -- whole runs of a method over ranks as threads: plain descent with gradients in whole numbers, so that sums
// do not depend on their order. Used by the tests of groups.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "../support/run_ranks.h"
#include "config/load.h"
#include "optim/optimizer_options.h"
#include "parallel/options.h"
#include "training.h"

namespace tutti::training {

inline const Shapes kShapes{{33, 7}, {33, 1}, {1, 50}, {2, 3}, {257, 4}, {1, 1}};

inline ParallelTrainOptions options(const std::string& text) {
  ParallelTrainOptions o;
  Problems problems;
  config::Notices notices;
  config::read_fields(
      config::record_from_text(text), "ParallelTrain", [&](config::Fields& f) { o.describe(f); }, problems, notices);
  problems.throw_if_any();
  return o;
}

inline std::string errors_of(const std::string& text) {
  try {
    options(text);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return {};
}

// Plain descent in eighths.
class Descent : public Sink {
 public:
  explicit Descent(Parameters& p) : p_(p) {}
  void on_reduced(std::size_t chunk, std::int64_t columns) override {
    EXPECT_EQ(chunk, next_) << "chunks come in the order of announcement";
    next_ = (chunk + 1) % p_.chunks.size();
    columns_of_updates += chunk == 0 ? columns : 0;
    p_.weights.memory().synchronize();
    const std::size_t at = p_.offset(p_.chunks[chunk]);
    for (std::size_t i = at; i < at + p_.count(p_.chunks[chunk]); ++i)
      p_.weights.data()[i] -= 0.125f * p_.gradients.data()[i];
  }
  void reset_momentum() override { ++resets; }
  StepRates rates() const override { return {0.125, 0}; }
  int resets = 0;
  std::int64_t columns_of_updates = 0;

 private:
  Parameters& p_;
  std::size_t next_ = 0;
};

// What a run leaves on a rank.
struct Left {
  std::vector<float> shown, own;
  std::int64_t samples = 0, columns = 0;
  double criterion = 0;
  int resets = 0;
  bool operator==(const Left&) const = default;
};

// Ranks of a run may each stand for several: `parts` lists whose gradients and samples a rank adds up.
struct Course {
  int ranks = 4, epochs = 2, steps = 5;
  std::vector<std::vector<int>> parts = {};  // by rank; empty: rank r is r alone
  int save_at = -1;                          // after that step the state is saved, and a new player loads it
  bool whole_numbers = true;

  std::vector<int> of(int rank) const {
    return parts.empty() ? std::vector<int>{rank} : parts[static_cast<std::size_t>(rank)];
  }
};

struct ShareSize {
  std::int64_t samples = 0, columns = 0;
};
inline ShareSize share_of(int part, int t) { return {(part + t) % 4 == 3 ? 0 : 5 + part, 6 + part}; }

// Rank 0's file: what is common, and each rank's own part.
struct Saved {
  MemoryArchive common;
  std::vector<MemoryArchive> own;
};

inline void save(Saved& saved, Player& s, Parameters& p, Descent& sink, Communicator& comm,
                 std::vector<float>& weights) {
  s.drain(sink);
  s.show_common_weights();
  if (comm.rank() == 0) s.archive_common(saved.common);
  s.archive(saved.own[static_cast<std::size_t>(comm.rank())]);
  weights.assign(p.weights.data(), p.weights.data() + p.size());
  s.take_back_weights();
  comm.barrier();
}

inline void load(Saved& saved, Player& s, Parameters& p, Communicator& comm, const std::vector<float>& weights) {
  std::copy(weights.begin(), weights.end(), p.weights.data());
  s.start(p);
  MemoryArchive common = saved.common, own = saved.own[static_cast<std::size_t>(comm.rank())];
  common.rewind_to_load();
  own.rewind_to_load();
  s.archive_common(common);
  s.archive(own);
}

inline void one_step(const Course& run, Player& s, Parameters& p, Descent& sink, int rank, int t, Left& left) {
  if (!s.joins_step(5)) return;
  std::int64_t all = 0, all_columns = 0;
  ShareSize mine;
  for (int r = 0; r < run.ranks; ++r)
    for (const int part : run.of(r)) {
      const ShareSize share = share_of(part, t);
      all += share.samples, all_columns += share.columns;
      if (r == rank) mine.samples += share.samples, mine.columns += share.columns;
    }
  std::vector<float> g(p.size());
  for (const int part : run.of(rank)) {
    const auto more = gradient(p, part, t, run.whole_numbers);
    for (std::size_t i = 0; i < g.size(); ++i) g[i] += share_of(part, t).samples > 0 ? more[i] : 0;
  }
  StepMetrics metrics;
  metrics.samples = mine.samples, metrics.columns = mine.columns;
  metrics.criterion = static_cast<double>(mine.samples * (t + 1)),
  metrics.criterion_count = static_cast<double>(mine.samples);
  metrics = step(s, p, sink, g, metrics, s.step_info({mine.samples, mine.columns, all, all_columns}));
  left.samples += metrics.samples, left.criterion += metrics.criterion;
  s.exchange_weights(all);
}

inline void drain(Player& s, Descent& sink, Left& left) {
  s.drain(sink);
  for (const StepMetrics& t : {s.pending_metrics_and_reset(), s.metrics_of_others_and_reset()})
    left.samples += t.samples, left.criterion += t.criterion;
}

inline std::vector<Left> train(const Course& run, const std::string& text) {
  std::vector<Left> result(static_cast<std::size_t>(run.ranks));
  Saved saved;
  saved.own.resize(static_cast<std::size_t>(run.ranks));
  const ParallelTrainOptions o = options(text);
  run_ranks(run.ranks, [&](Communicator& comm) {
    Left left;
    Parameters p = parameters_of(kShapes, 3);
    p.sparse_rows.resize(p.slices.size());
    const auto start = gradient(p, 77, 0, true);
    std::copy(start.begin(), start.end(), p.weights.data());
    const auto optimizer = make_optimizer(OptimizerOptions());
    optimizer->bind(p);
    const auto make = [&] {
      auto made = play(o, comm);
      made->bind(*optimizer, [] { return make_optimizer(OptimizerOptions()); });
      return made;
    };
    auto s = make();
    s->start(p);
    Descent sink(p);
    for (int e = 0; e < run.epochs; ++e) {
      s->begin_epoch(e);
      for (int i = 0; i < run.steps; ++i) {
        const int t = e * run.steps + i;
        one_step(run, *s, p, sink, comm.rank(), t, left);
        if (t != run.save_at) continue;
        std::vector<float> weights;
        drain(*s, sink, left);
        save(saved, *s, p, sink, comm, weights);
        s = make();
        load(saved, *s, p, comm, weights);
        s->begin_epoch(e);
      }
      drain(*s, sink, left);
      s->end_epoch(sink);
    }
    p.weights.memory().synchronize();
    left.own.assign(p.weights.data(), p.weights.data() + p.size());
    s->show_common_weights();
    left.shown.assign(p.weights.data(), p.weights.data() + p.size());
    s->take_back_weights();
    EXPECT_EQ(std::vector<float>(p.weights.data(), p.weights.data() + p.size()), left.own);
    left.resets = sink.resets, left.columns = sink.columns_of_updates;
    result[static_cast<std::size_t>(comm.rank())] = left;
  });
  return result;
}

inline void expect_equal(const Left& is, const Left& expected, int rank) {
  EXPECT_TRUE(reference::same(is.shown, expected.shown)) << "rank " << rank << ", the weights that are shown";
  EXPECT_TRUE(reference::same(is.own, expected.own)) << "rank " << rank << ", its own weights";
  EXPECT_EQ(is.samples, expected.samples) << "rank " << rank;
  EXPECT_EQ(is.criterion, expected.criterion) << "rank " << rank;
  EXPECT_EQ(is.resets, expected.resets) << "rank " << rank;
}

struct Grouping {
  std::string key;
  int ranks;
  std::vector<std::vector<int>> groups;
};

inline const std::vector<Grouping>& groupings() {
  static const std::vector<Grouping> all{
      {"size:2", 4, {{0, 1}, {2, 3}}},      {"n:2", 3, {{0, 1}, {2}}},
      {"size:2", 3, {{0, 1}, {2}}},         {"size:4", 6, {{0, 1, 2, 3}, {4, 5}}},
      {"n:3", 6, {{0, 1}, {2, 3}, {4, 5}}}, {"size:3", 4, {{0, 1, 2}, {3}}},
  };
  return all;
}

}  // namespace tutti::training

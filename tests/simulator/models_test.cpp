// SPDX-License-Identifier: Apache-2.0
// The models in cases whose result is known: one rank, a link without limit, no computing, shared cores.
#include "simulator/models.h"

#include <gtest/gtest.h>

#include "simulator/reduce_pipeline.h"

namespace tutti::simulator::models_test {
namespace {

constexpr double kStep = 8e-3, kUpdate = 1e-9;

void add_slice(Parameters& p, std::size_t rows, std::size_t columns) {
  Slice s;
  s.name = "w" + std::to_string(p.slices.size());
  s.offset = p.slices.empty() ? 0 : p.slices.back().offset + p.slices.back().size();
  s.rows = rows, s.columns = columns;
  p.chunks.push_back({p.slices.size(), 0, columns});
  p.slices.push_back(s);
}

// Three layers, whose columns can be divided by 64. Only computing takes time, the same for each number of samples.
Parts free_parts() {
  Parts p;
  add_slice(p.layout, 512, 256), add_slice(p.layout, 512, 512), add_slice(p.layout, 256, 512);
  for (const int samples : {1, 1024}) p.steps.push_back({samples, kStep, {0.4 * kStep, 0.7 * kStep, kStep}});
  p.update = kUpdate;
  for (const char* name : {"32", "16", "float16", "4", "1"}) p.codecs[name] = {};
  return p;
}

Parts costly_parts() {
  Parts p = free_parts();
  for (auto& [name, cost] : p.codecs) cost = {1e-9, 0.5e-9, 0.6e-9};
  p.pass = 0.5e-9;
  p.message = {5e-6, 0.4e-9, 20e-6};
  return p;
}

Workload workload() {
  Workload w;
  w.minibatch = 512, w.epoch = 51200;
  w.averaging = {2560}, w.momentum = {5120};
  return w;
}

double values() { return 512.0 * 256 + 512 * 512 + 256 * 512; }

TEST(Models, OneRankOnlyComputes) {
  const Parts parts = costly_parts();
  for (const Model& m : models(workload()))
    if (m.bits == "32") {
      EXPECT_NEAR(m.estimate(parts, {.ranks = 1}, workload()).seconds, 100 * (kStep + values() * kUpdate), 1e-9)
          << m.method;
    }
}

TEST(Models, WithoutCostsALinkWithoutLimitLeavesTheComputing) {
  const Parts parts = free_parts();
  for (const Model& m : models(workload())) {
    if (m.method == "EASGD, async" || m.method == "DataParallelASGD") continue;  // their threads sleep between looks
    for (const int ranks : {2, 8, 64})
      EXPECT_NEAR(m.estimate(parts, {.ranks = ranks}, workload()).seconds, 100 * (kStep + values() * kUpdate), 1e-9)
          << m.method << " in " << m.bits;
  }
}

TEST(Models, WithoutComputingTheBytesDecide) {
  Parts parts = free_parts();
  parts.steps = {{256, 0, {0, 0, 0}}}, parts.update = 0;
  for (const int ranks : {2, 4, 64}) {
    const Cluster c{.ranks = ranks, .bandwidth = 1e7};
    const double bytes = 8 * values() * (ranks - 1) / ranks;
    for (const Model& m : models(workload())) {
      if (m.method != "DataParallelSGD") continue;
      const Estimate e = m.estimate(parts, c, workload());
      EXPECT_LE(e.bytes, bytes);
      if (m.bits == "32") {
        EXPECT_DOUBLE_EQ(e.bytes, bytes);
      }
      EXPECT_NEAR(e.seconds, 100 * e.bytes / 1e7, 1e-9 * e.seconds) << m.bits;
    }
  }
}

TEST(Models, BlocksAreExchangedAsOftenAsTheySay) {
  Parts parts = free_parts();
  parts.steps = {{256, 0, {0, 0, 0}}}, parts.update = 0;
  const Cluster c{.ranks = 2, .bandwidth = 1e7};
  const double exchange = 4 * values() / 1e7;
  for (const Model& m : models(workload())) {
    // 100 steps; blocks of 10 and 20 steps and one exchange at the end; a period of 10, which the end is one of.
    const double exchanges = m.method == "ModelAveragingSGD"  ? 11
                             : m.method == "BlockMomentumSGD" ? 6
                             : m.method == "EASGD"            ? 10
                                                              : 0;
    if (exchanges > 0) {
      EXPECT_NEAR(m.estimate(parts, c, workload()).seconds, exchanges * exchange, 1e-9) << m.method;
    }
  }
}

TEST(Models, WithoutABlockWeightsAreAveragedAfterEveryMinibatch) {
  Workload w = workload();
  w.averaging = {};
  for (const Model& m : models(w)) {
    if (m.method != "ModelAveragingSGD") continue;
    EXPECT_EQ(m.settings, "parallelizationMethod=ModelAveragingSGD");
    EXPECT_DOUBLE_EQ(m.estimate(free_parts(), {.ranks = 2}, w).bytes, 101 * 4 * values() / 100);
  }
}

// Groups of 2 and 1. Between them the leaders exchange 6 times, and that of the larger group broadcasts.
TEST(Models, TheLastGroupMayBeSmaller) {
  Workload w = workload();
  w.group = 2, w.momentum = {0, 10240};
  const Model groups = models(w).back();
  EXPECT_DOUBLE_EQ(groups.estimate(free_parts(), {.ranks = 3}, w).bytes, (100 * 4 + 6 * (4 + 4)) * values() / 100);
}

TEST(Models, AFasterLinkIsNeverSlower) {
  const Parts parts = costly_parts();
  for (const Model& m : models(workload()))
    for (const int ranks : {2, 8, 32}) {
      double before = std::numeric_limits<double>::infinity();
      for (const double bandwidth : {1e6, 1e7, 1e8, 1e9, 1e10, 1e12}) {
        const double now = m.estimate(parts, {.ranks = ranks, .bandwidth = bandwidth}, workload()).seconds;
        // What arrives earlier is summed earlier, perhaps before a bucket has left: a little may be lost by that.
        EXPECT_LE(now, before * 1.02) << m.method << " in " << m.bits << " on " << ranks << " ranks at " << bandwidth;
        before = now;
      }
    }
}

TEST(Models, ComputingHidesTheFirstBuckets) {
  const Parts parts = free_parts();
  const Cluster c{.ranks = 2, .bandwidth = 1e9};
  const ReduceLoad load = reduce_load(parts.layout, "32", 2);
  ASSERT_EQ(load.buckets.size(), 3U);
  // Sums are made when a chunk is announced. So the second bucket's sums, and all of the last bucket, travel after the
  // step, which nothing hides but the updates of the other buckets.
  const double last = (load.buckets[2].scatter_out + load.buckets[1].gather_out + load.buckets[2].gather_out) / 1e9;
  const Model first = models(workload())[0];
  EXPECT_NEAR(first.estimate(parts, c, workload()).seconds / 100, kStep + last + 256 * 512 * kUpdate, 1e-9);
}

TEST(Models, LateSumsAreHiddenByTheNextStep) {
  const Parts parts = free_parts();
  Model late, in_step;
  for (const Model& m : models(workload())) {
    if (m.method == "DataParallelSGD, late") late = m;
    if (m.method == "DataParallelSGD" && m.bits == "1") in_step = m;
  }
  for (const double bandwidth : {1e6, 3e6, 1e7, 1e8}) {
    const Cluster c{.ranks = 4, .bandwidth = bandwidth};
    const Estimate e = late.estimate(parts, c, workload());
    EXPECT_LE(e.seconds, in_step.estimate(parts, c, workload()).seconds * 1.0001);
    EXPECT_GE(e.seconds * 1.0001, 100 * std::max(e.bytes / bandwidth, kStep + values() * kUpdate));
  }
}

TEST(Models, SharedCoresMultiplyTheComputing) {
  const Parts parts = free_parts();
  const Model first = models(workload())[0];
  const double own = first.estimate(parts, {.ranks = 8}, workload()).seconds;
  EXPECT_NEAR(first.estimate(parts, {.ranks = 8, .shared_cores = 2}, workload()).seconds, 4 * own, 1e-9);
}

// Groups that compute at once share the cores, which may leave less than one core to each.
TEST(Models, GroupsHaveNoMoreCoresThanThereAre) {
  const Parts parts = free_parts();
  Workload w = workload();
  w.group = 2;
  const Model groups = models(w).back();
  ASSERT_EQ(groups.method, "BlockMomentumSGD, groups of 2");
  const double own = groups.estimate(parts, {.ranks = 16}, w).seconds;
  for (const int cores : {1, 2, 4, 8, 16})
    EXPECT_NEAR(groups.estimate(parts, {.ranks = 16, .shared_cores = double(cores)}, w).seconds, 16 / cores * own, 1e-9)
        << cores << " cores";
}

// 4 samples on more and more ranks: at best, each step takes the time of one sample.
TEST(Models, MoreRanksThanSamplesAreNoFaster) {
  Parts parts = free_parts();
  parts.steps = {{1, 1e-3, {1e-3, 1e-3, 1e-3}}, {4, 4e-3, {4e-3, 4e-3, 4e-3}}};
  parts.update = 0;
  Workload w = workload();
  w.minibatch = 4, w.epoch = 400;
  for (const Model& m : models(w))
    for (const int ranks : {4, 8, 64}) EXPECT_GE(m.estimate(parts, {.ranks = ranks}, w).seconds, 0.0999) << m.method;
}

// Of 4 samples on 3 ranks, one has two.
TEST(Models, TheRankWithMostSamplesDecides) {
  Parts parts = free_parts();
  parts.steps = {{1, 1e-3, {1e-3, 1e-3, 1e-3}}, {4, 4e-3, {4e-3, 4e-3, 4e-3}}};
  parts.update = 0;
  Workload w = workload();
  w.minibatch = 4, w.epoch = 400;
  for (const Model& m : models(w)) {
    if (m.method == "EASGD, async" || m.method == "DataParallelASGD") continue;  // there nobody waits for it
    EXPECT_NEAR(m.estimate(parts, {.ranks = 3}, w).seconds, 0.2, 1e-9) << m.method << " in " << m.bits;
  }
}

TEST(Parts, StepsLieOnALine) {
  Parts parts;
  parts.steps = {{64, 2, {1}}, {128, 3, {2}}, {256, 7, {4}}};
  EXPECT_DOUBLE_EQ(step_of(parts, 96).seconds, 2.5);
  EXPECT_DOUBLE_EQ(step_of(parts, 192).ready[0], 3);
  EXPECT_DOUBLE_EQ(step_of(parts, 32).seconds, 1.5);
  EXPECT_DOUBLE_EQ(step_of(parts, 512).seconds, 15);
  parts.steps = {{4, 5, {1}}, {8, 9, {2}}};
  EXPECT_DOUBLE_EQ(step_of(parts, 0.25).seconds, 2);
}

TEST(Parts, OneMeasuredStepGivesOthersInProportion) {
  Parts parts;
  parts.steps = {{400, 2, {1}}};
  EXPECT_DOUBLE_EQ(step_of(parts, 400).seconds, 2);
  EXPECT_DOUBLE_EQ(step_of(parts, 4000).seconds, 20);
  EXPECT_DOUBLE_EQ(step_of(parts, 4000).ready[0], 10);
}

}  // namespace
}  // namespace tutti::simulator::models_test

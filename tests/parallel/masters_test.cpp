// SPDX-License-Identifier: Apache-2.0
// Hierarchies of masters: parameter servers within groups whose weights are workers of servers between the groups.
// Descent only adds up whole numbers, so neither order nor staleness changes the result where everything arrives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <map>

#include "course.h"

namespace tutti::masters_test {
namespace {

using namespace training;
using testing::HasSubstr;

std::string hierarchy(const std::string& between, const std::string& groups, const std::string& inside) {
  return between + ";groups=" + groups + ";insideGroups=[" + inside + "]";
}
std::string asgd(const std::string& settings) { return "parallelizationMethod=ASGD;ASGD=[" + settings + "]"; }
std::string easgd(const std::string& settings) {
  return "parallelizationMethod=EASGD;EASGD=[policy=async;" + settings + "]";
}

TEST(Masters, LearnAllThatTheirWorkersLearn) {
  for (const Grouping& g : groupings()) {
    const auto expected = train({.ranks = g.ranks}, "parallelizationMethod=DataParallelSGD");
    for (const std::string between :
         {"syncPeriod=1", "syncPeriod=30", "syncPeriod=1000", "syncPeriod=20;usePipeline=true",
          "syncPeriod=20;fetchPeriod=50", "syncPeriod=10;maxStaleness=1", "syncPeriod=20;policy=mixed"})
      for (const std::string inside : {"syncPeriod=1", "syncPeriod=10;usePipeline=true", "push=gradients",
                                       "syncPeriod=1000", "push=gradients;policy=sync", "syncPeriod=6;policy=sync"}) {
        SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + ", " + between + " over " + inside);
        const auto is = train({.ranks = g.ranks}, hierarchy(asgd(between), g.key, asgd(inside)));
        for (int r = 0; r < g.ranks; ++r) expect_equal(is[static_cast<std::size_t>(r)], expected[0], r);
      }
  }
}

TEST(Masters, ThatWaitForEachOtherLearnAll) {
  for (const Grouping& g : groupings()) {
    const auto expected = train({.ranks = g.ranks}, "parallelizationMethod=DataParallelSGD");
    for (const std::string inside : {"push=gradients;policy=sync", "syncPeriod=6;policy=sync"})
      for (const int save_at : {-1, 6}) {
        SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + ", " + inside + ", saved " + std::to_string(save_at));
        const auto is = train({.ranks = g.ranks, .save_at = save_at},
                              hierarchy(asgd("policy=sync;syncPeriod=20"), g.key, asgd(inside)));
        for (int r = 0; r < g.ranks; ++r) expect_equal(is[static_cast<std::size_t>(r)], expected[0], r);
      }
  }
}

// The last ranks of each group, and of all, have nothing but weights.
TEST(Masters, MayBeServedByRanksOfTheirOwn) {
  for (const std::string between : {"syncPeriod=10", "syncPeriod=10;servers=1", "syncPeriod=10;policy=sync;servers=1"})
    for (const std::string inside : {"syncPeriod=4;servers=1", "push=gradients;policy=sync;servers=1"}) {
      SCOPED_TRACE(between + " over " + inside);
      const bool serves = between.ends_with("servers=1");
      const auto waits = [](const std::string& settings) { return settings.find("policy=sync") != std::string::npos; };
      if (waits(between) && !waits(inside)) continue;  // refused
      Course run{.ranks = 6 + serves, .parts = {{0}, {1}, {}, {2}, {3}, {}}};
      run.parts.resize(static_cast<std::size_t>(run.ranks));
      const auto expected = train({.ranks = 4}, "parallelizationMethod=DataParallelSGD");
      const auto is = train(run, hierarchy(asgd(between), "n:2", asgd(inside)));
      for (const auto& left : is) EXPECT_TRUE(reference::same(left.shown, expected[0].shown));
      EXPECT_EQ(is[0].samples, expected[0].samples);
    }
}

// A single group is one worker, whose weights are the common ones.
TEST(Masters, OfOneGroupAreItsServers) {
  for (const std::string inside : {"push=gradients;policy=sync", "policy=sync;syncPeriod=12;exchangeBits=4"})
    for (const std::string& between : {asgd("syncPeriod=15"), easgd("movingRate=0.5;period=2")}) {
      SCOPED_TRACE(between + " over " + inside);
      const bool elastic = between.starts_with("parallelizationMethod=EASGD");
      const auto expected = train({.ranks = 3, .whole_numbers = false}, asgd(inside));
      const auto is = train({.ranks = 3, .whole_numbers = false}, hierarchy(between, "n:1", asgd(inside)));
      for (std::size_t r = 0; r < 3; ++r) {
        EXPECT_TRUE(elastic || reference::same(is[r].own, expected[r].own)) << r;
        EXPECT_EQ(reference::same(is[r].shown, expected[r].shown), !elastic) << r;
        EXPECT_TRUE(reference::same(is[r].shown, is[0].shown)) << r;
      }
    }
}

TEST(Masters, ThatDoNotPullTrainAsTheirGroupsAlone) {
  for (const std::string& inside :
       {asgd("push=gradients;policy=sync"), asgd("syncPeriod=7"), easgd("movingRate=0.5")}) {
    SCOPED_TRACE(inside);
    const auto is = train({.ranks = 4}, hierarchy(easgd("movingRate=0;period=2"), "n:2", inside));
    for (const auto& left : is) EXPECT_TRUE(reference::same(left.shown, is[0].shown));
    if (inside.find("EASGD") != std::string::npos) continue;  // asynchronous, and order matters
    for (const int group : {0, 1}) {
      const auto alone =
          train({.ranks = 2, .parts = {{2 * group}, {2 * group + 1}}}, "parallelizationMethod=DataParallelSGD");
      for (const int r : {0, 1})
        EXPECT_TRUE(reference::same(is[static_cast<std::size_t>(2 * group + r)].own, alone[0].own)) << group << r;
    }
  }
}

// Another period would round differently.
TEST(Masters, WhoseWorkersPushTogetherCountTheSamplesOfTheirGroup) {
  for (const std::string servers : {"", ";servers=1"})
    for (const std::string waits : {"policy=sync;syncPeriod=9", "maxStaleness=0;syncPeriod=9"}) {
      SCOPED_TRACE(waits + servers);
      const bool serves = !servers.empty();
      const std::string inside = asgd(waits + servers);
      Course run{.ranks = 4 + 2 * serves, .whole_numbers = false};
      if (serves) run.parts = {{0}, {1}, {}, {2}, {3}, {}};
      const auto is = train(run, hierarchy(easgd("movingRate=0;period=2"), "n:2", inside));
      for (const int group : {0, 1}) {
        Course alone{.ranks = 2 + serves, .parts = {{2 * group}, {2 * group + 1}}, .whole_numbers = false};
        if (serves) alone.parts.emplace_back();
        const auto expected = train(alone, inside);
        for (int r = 0; r < 2; ++r) {
          const auto place = static_cast<std::size_t>(r), first = static_cast<std::size_t>(group * alone.ranks);
          EXPECT_TRUE(reference::same(is[first + place].own, expected[place].own)) << group << r;
        }
      }
    }
}

// Everything that any level keeps for itself: common weights are equal on all ranks, and a pull is one.
TEST(Masters, ElasticOnAnyLevelShowOneSetOfWeights) {
  for (const Grouping& g : groupings())
    for (const auto& [between, inside] :
         {std::pair(easgd("period=1;movingRate=0.25"), asgd("syncPeriod=5")),
          std::pair(easgd("period=1;movingRate=0.25"), asgd("push=gradients;policy=sync")),
          std::pair(asgd("syncPeriod=10"), easgd("period=1;movingRate=0.25")),
          std::pair(easgd("period=2;movingRate=0.5;exchangeBits=4"), easgd("period=1;movingRate=0.25;exchangeBits=2")),
          std::pair(asgd("syncPeriod=10;exchangeBits=1"), asgd("syncPeriod=5;exchangeBits=2"))})
      for (const int save_at : {-1, 6}) {
        SCOPED_TRACE(between + " over " + inside + ", " + g.key + " of " + std::to_string(g.ranks));
        const auto is = train({.ranks = g.ranks, .save_at = save_at}, hierarchy(between, g.key, inside));
        const auto start = gradient(parameters_of(kShapes, 3), 77, 0, true);
        EXPECT_FALSE(reference::same(is[0].shown, start)) << "the center did not move";
        for (const auto& left : is) {
          EXPECT_TRUE(reference::same(left.shown, is[0].shown));
          EXPECT_EQ(left.samples, is[0].samples);
        }
      }
}

// Numbers of a plain loop: two groups of one worker and one server in turns would be ASGD of two; here the pull of a
// center of centers, one rank at a time.
TEST(Masters, OneWorkerInAGroupIsAWorkerBetweenThem) {
  Course run{.ranks = 4, .parts = {{0}, {}, {1}, {}}};
  const auto is =
      train(run, hierarchy(asgd("policy=sync;syncPeriod=11"), "n:2", asgd("policy=sync;syncPeriod=1;servers=1")));
  const auto expected = train({.ranks = 2}, asgd("policy=sync;syncPeriod=11"));
  EXPECT_TRUE(reference::same(is[0].shown, expected[0].shown));
  EXPECT_TRUE(reference::same(is[3].shown, expected[0].shown));
}

// Every unit has one taker; those of a group whose ranks keep step are taken by the group.
TEST(Masters, HandOutUnitsToWorkersOrGroups) {
  for (const bool of_groups : {false, true})
    for (const Grouping& g : groupings()) {
      SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + (of_groups ? ", of groups" : ""));
      constexpr std::int64_t units = 60;
      std::vector<std::vector<std::int64_t>> taken(static_cast<std::size_t>(g.ranks));
      const std::string text =
          hierarchy(asgd("syncPeriod=5"), g.key, asgd(of_groups ? "policy=sync;syncPeriod=5" : "syncPeriod=5"));
      run_ranks(g.ranks, [&](Communicator& comm) {
        Parameters p = parameters_of(kShapes, 3);
        const auto s = play(options(text), comm);
        s->start(p);
        Descent sink(p);
        s->begin_epoch(0);
        ASSERT_NE(s->work_queue(), nullptr);
        const DataDivision::Share share = s->method().data.unit_share;
        EXPECT_EQ(share.ranks, of_groups ? static_cast<int>(g.groups.size()) : g.ranks);
        EXPECT_EQ(share.rank, of_groups ? 0 : comm.rank());
        for (const int range : {0, 1}) {
          s->work_queue()->start_range();
          for (std::int64_t unit = s->work_queue()->next(); unit < units; unit = s->work_queue()->next())
            taken[static_cast<std::size_t>(comm.rank())].push_back(range * units + unit);
          s->drain(sink);
        }
      });
      std::map<std::int64_t, int> times;
      for (const auto& members : g.groups)
        for (const int r : members) {
          const auto& mine = taken[static_cast<std::size_t>(r)];
          EXPECT_TRUE(!of_groups || mine == taken[static_cast<std::size_t>(members[0])]);
          if (!of_groups || r == members[0])
            for (const std::int64_t unit : mine) ++times[unit];
        }
      EXPECT_EQ(times.size(), 2 * units);
      for (const auto& [unit, n] : times) EXPECT_EQ(n, 1) << unit;
    }
}

// Four ranks make `steps`; rank `held` stands still before step `at` until all others have made theirs. `drained` is
// called on every rank when nothing is in flight any more.
template <class Drained>
void run_held(const std::string& text, int held, int at, int steps, const Drained& drained) {
  std::promise<void> others_done;
  const auto released = others_done.get_future().share();
  std::atomic<int> left = 3;
  run_ranks(4, [&](Communicator& comm) {
    Parameters p = parameters_of(kShapes, 3);
    p.sparse_rows.resize(p.slices.size());
    const auto optimizer = make_optimizer(OptimizerOptions());
    optimizer->bind(p);
    auto s = play(options(text), comm);
    s->bind(*optimizer, [] { return make_optimizer(OptimizerOptions()); });
    s->start(p);
    Descent sink(p);
    s->begin_epoch(0);
    Left unused;
    for (int t = 0; t < steps; ++t) {
      if (t == at && comm.rank() == held) released.wait();
      one_step({}, *s, p, sink, comm.rank(), t, unused);
    }
    if (comm.rank() != held && --left == 0) others_done.set_value();
    drain(*s, sink, unused);
    drained(*s, comm.rank());
    s->end_epoch(sink);
  });
}

// Of each minibatch every worker gets a unit, whoever serves between the groups.
TEST(Masters, ServersOfTheirOwnTakeNoShare) {
  for (const int servers : {1, 2})
    run_ranks(4 + servers, [&](Communicator& comm) {
      const std::string between = "syncPeriod=5;servers=" + std::to_string(servers);
      const auto s = play(options(hierarchy(asgd(between), "n:2", asgd("syncPeriod=5"))), comm);
      const DataDivision::Share share = s->method().data.unit_share;
      EXPECT_EQ(share.ranks, 4);
      EXPECT_EQ(share.rank, comm.rank() < 4 ? comm.rank() : -1);
    });
}

// A rank that stands still, a leader too, holds back neither its group nor the others.
TEST(Masters, AHeldRankHoldsNobody) {
  for (const std::string& text : {hierarchy(asgd("syncPeriod=10"), "n:2", asgd("syncPeriod=5")),
                                  hierarchy(easgd("period=1"), "n:2", asgd("push=gradients")),
                                  hierarchy(asgd("syncPeriod=10"), "n:2", easgd("period=1"))})
    for (const int held : {0, 1, 3}) {
      SCOPED_TRACE(text + ", held: " + std::to_string(held));
      run_held(text, held, 1, 12, [](Player&, int) {});
    }
}

// A group goes on while its last rank stands still. In these steps the other one always has samples.
TEST(Masters, GroupsMayHaveBackupWorkers) {
  std::array<std::int64_t, 4> dropped{};
  run_held(hierarchy(asgd("syncPeriod=10"), "n:2", asgd("policy=sync;push=gradients;backupWorkers=1")), 3, 2, 5,
           [&](Player& s, int rank) { dropped[static_cast<std::size_t>(rank)] = s.dropped_samples_and_reset(); });
  for (const std::int64_t samples : dropped) EXPECT_EQ(samples, dropped[0]) << "all ranks know what was dropped";
  EXPECT_GE(dropped[0], 5 * 3) << "those of the rank that stood still";
}

TEST(Masters, SayWhatDoesNotGo) {
  const std::string inside = asgd("syncPeriod=9");
  EXPECT_EQ(train({.ranks = 4, .epochs = 1}, hierarchy(asgd(""), "n:2", inside)).size(), 4u);
  for (const auto& [text, words] :
       {std::pair(hierarchy("parallelizationMethod=DataParallelSGD", "n:2", inside), "DataParallelSGD in insideGroups"),
        std::pair(hierarchy("parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=80]", "n:2", inside),
                  "only parameter servers can work between"),
        std::pair(hierarchy(asgd("push=gradients"), "n:2", inside), "push = gradients may stand in insideGroups"),
        std::pair(hierarchy(asgd("SimModelAverage=true"), "n:2", asgd("policy=sync")), "remove SimModelAverage"),
        std::pair(hierarchy(asgd("policy=sync;push=gradients;backupWorkers=1"), "n:2", asgd("policy=sync")),
                  "drops gradients of single ranks"),
        std::pair(hierarchy(asgd("policy=sync"), "n:2", inside), "groups can wait for each other only if"),
        std::pair(hierarchy(asgd("maxStaleness=0"), "n:2", inside), "groups can wait for each other only if"),
        std::pair(hierarchy(asgd("policy=sync"), "n:2", asgd("policy=sync;push=gradients;backupWorkers=1")),
                  "groups can wait for each other only if"),
        std::pair(hierarchy(asgd(""), "n:2", hierarchy(asgd(""), "n:2", asgd(""))), "has two levels")})
    EXPECT_THAT(errors_of(text), HasSubstr(words)) << text;
  EXPECT_THROW(
      run_ranks(3, [&](Communicator& comm) { play(options(hierarchy(asgd(""), "n:2", asgd("servers=1"))), comm); }),
      ConfigError);
}

}  // namespace
}  // namespace tutti::masters_test

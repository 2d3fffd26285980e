// SPDX-License-Identifier: Apache-2.0
// Methods within and between groups against simpler runs, bit for bit: gradients are whole numbers, so that sums do not
// depend on their order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <thread>

#include "course.h"
#include "parallel/groups/groups.h"

namespace tutti::groups_test {
namespace {

using namespace training;
using testing::HasSubstr;

const char* kInFull = "insideGroups=[parallelizationMethod=DataParallelSGD]";

// One bit between groups over a sum through shared memory within; late on either level; blocks around both.
TEST(Groups, EveryLevelMayTakeSharedMemory) {
  const std::string sums = "insideGroups=[parallelizationMethod=DataParallelSGD;",
                    late =
                        "DataParallelSGD=["
                        "useBufferedAsyncGradientAggregation=true;gradientBits=";
  for (const std::string& text :
       {"parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1];" + sums,
        "parallelizationMethod=DataParallelSGD;" + late + "1];" + sums + "DataParallelSGD=[gradientBits=8];",
        "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=2];" + sums + late + "32];",
        "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=70;exchangeBits=4];" + sums})
    for (const Grouping& g : groupings()) {
      const auto by = [&](const std::string& between, const std::string& within) {
        return train({.ranks = g.ranks},
                     "groups=" + g.key + ";transport=" + between + ";" + text + "transport=" + within + "]");
      };
      const auto plain = by("messages", "messages");
      for (const char* between : {"messages", "sharedMemory"}) {
        SCOPED_TRACE(testing::Message() << text << ", " << g.key << " on " << g.ranks << ", between by " << between);
        const auto shared = by(between, "sharedMemory");
        for (std::size_t r = 0; r < plain.size(); ++r) expect_equal(shared[r], plain[r], static_cast<int>(r));
      }
    }
}

TEST(GroupLayout, OfSizesNumbersAndNames) {
  for (const Grouping& g : groupings())
    run_ranks(g.ranks, [&](Communicator& comm) {
      const GroupLayout layout = lay_out_groups(options("parallelizationMethod=EASGD;groups=" + g.key).groups, comm);
      const auto& members = g.groups[static_cast<std::size_t>(layout.group)];
      EXPECT_EQ(layout.members, members);
      EXPECT_EQ(members[static_cast<std::size_t>(layout.local)], comm.rank());
      ASSERT_EQ(layout.sizes.size(), g.groups.size());
      for (std::size_t i = 0; i < g.groups.size(); ++i)
        EXPECT_EQ(layout.sizes[i], static_cast<int>(g.groups[i].size()));
    });
  const GroupLayout mixed = group_by_name({"a", "b", "a", "c", "b", "a"}, 4);
  EXPECT_EQ(mixed.group, 1);
  EXPECT_EQ(mixed.local, 1);
  EXPECT_EQ(mixed.members, (std::vector<int>{1, 4}));
  EXPECT_EQ(mixed.sizes, (std::vector<int>{3, 2, 1}));
  EXPECT_EQ(mixed.text(), "3 groups of 3 + 2 + 1 ranks");
  EXPECT_FALSE(mixed.even());
  EXPECT_EQ(mixed.smallest(), 1);
}

TEST(GroupLayout, RanksOfOneProcessAreOneNode) {
  run_ranks(3, [](Communicator& comm) {
    EXPECT_EQ(lay_out_groups(options("parallelizationMethod=ASA;groups=byNode").groups, comm).sizes,
              std::vector<int>{3});
  });
}

TEST(GroupOptions, SayWhatIsWrong) {
  const std::string method = "parallelizationMethod=DataParallelSGD\n";
  for (const char* bad : {"size:0", "size:", "n:x", "4", "size:-1", "by node", "n:2:3"})
    EXPECT_THAT(errors_of(method + "groups=\"" + bad + "\""), HasSubstr("names no groups")) << bad;
  for (const char* good : {"byNode", "BYNODE", "size:4", "Size:1", "n:2", "none", "\"n:2\""})
    EXPECT_EQ(errors_of(method + "groups=" + good), "") << good;
  EXPECT_THAT(errors_of("groups=n:2"), HasSubstr("groups need a method"));
  EXPECT_THAT(errors_of(method + "insideGroups=[gradientBits=1]"),
              HasSubstr("it belongs in the block DataParallelSGD"));
  EXPECT_THAT(errors_of(method + "insideGroups=[parallelizationMethod=EASGD]"),
              HasSubstr("insideGroups has no effect without groups"));
  EXPECT_THAT(errors_of(method + "groups=n:2;insideGroups=[parallelizationMethod=none]"),
              HasSubstr("must exchange gradients or weights"));
  EXPECT_THAT(errors_of(method + "groups=n:2;insideGroups=[parallelizationStartEpoch=2]"),
              HasSubstr("has no 'parallelizationStartEpoch'"));
  EXPECT_THROW(run_ranks(3, [&](Communicator& comm) { play(options(method + "groups=n:4"), comm); }), ConfigError);
  EXPECT_THROW(
      run_ranks(3,
                [&](Communicator& comm) {
                  play(options(method + "groups=size:2;insideGroups=[parallelizationMethod=ModelAveragingSGD]"), comm);
                }),
      ConfigError);
}

// The samples of a late update are not known in time.
TEST(GroupOptions, AveragesInFragmentsNeedGradientsInTime) {
  const std::string late = "groups=n:2;insideGroups=[DataParallelSGD=[useBufferedAsyncGradientAggregation=true]]";
  const std::string averaging = "parallelizationMethod=ModelAveragingSGD;";
  for (const char* streams : {"fragments=2", "overlap=1"})
    EXPECT_THAT(errors_of(averaging + "ModelAveragingSGD=[" + streams + "];" + late),
                HasSubstr("averages by the samples of each group"))
        << streams;
  EXPECT_EQ(errors_of(averaging + late), "");
  const std::string blocks = "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=60;fragments=2];";
  EXPECT_EQ(errors_of(blocks + late), "");
}

TEST(GroupOptions, InsideInheritsNothing) {
  const auto o = options(
      "parallelizationMethod=DataParallelSGD;groups=n:2;DataParallelSGD=[gradientBits=1];syncPerfStats=7\n"
      "insideGroups=[syncPerfStats=3]");
  EXPECT_TRUE(std::holds_alternative<DataParallelOptions>(o.inside().method));
  EXPECT_EQ(std::get<DataParallelOptions>(o.inside().method).gradient_bits.at(0), 32);
  EXPECT_FALSE(o.inside().groups.any());
  EXPECT_EQ(o.inside().sync_perf_stats, 3);
  EXPECT_EQ(o.name(), "DataParallelSGD between groups (n:2) with DataParallelSGD");
  const auto deep = options(
      "parallelizationMethod=EASGD;groups=n:2\n"
      "insideGroups=[parallelizationMethod=ASA;groups=size:2;insideGroups=[DataParallelSGD=[gradientBits=4]]]");
  EXPECT_EQ(std::get<DataParallelOptions>(deep.inside().inside().method).gradient_bits.at(0), 4);
  EXPECT_TRUE(std::holds_alternative<AsaOptions>(deep.inside().method));
}

TEST(Groups, OneGroupOverGradientsIsTheInsideAndGroupsOfOneAreTheOutside) {
  const std::string inside = "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=2]";
  const std::string outside = "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=40]";
  const std::string gradients = "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]";
  const Course run{.ranks = 3, .whole_numbers = false};
  EXPECT_EQ(train(run, gradients + ";groups=byNode;insideGroups=[" + inside + "]"), train(run, inside));
  EXPECT_EQ(train(run, gradients + ";groups=n:1;insideGroups=[" + inside + "]"), train(run, inside));
  EXPECT_EQ(train(run, outside + ";groups=size:1;insideGroups=[" + inside + "]"), train(run, outside));
  EXPECT_EQ(train(run, outside + ";groups=n:3"), train(run, outside));
}

TEST(Groups, OneGroupIsOneWorkerOfAMethodThatExchangesWeights) {
  for (const std::string method :
       {"parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=40;blockMomentumPerSync=0.5]",
        "parallelizationMethod=EASGD;EASGD=[period=3]", "parallelizationMethod=ModelAveragingSGD",
        "parallelizationMethod=ASGD;ASGD=[policy=sync;push=gradients]",
        "parallelizationMethod=EASGD;EASGD=[policy=async;division=static;period=2]"}) {
    SCOPED_TRACE(method);
    const auto expected = train({.ranks = 1, .parts = {{0, 1, 2}}}, method);
    const auto is = train({.ranks = 3}, method + ";groups=size:4;" + kInFull);
    for (int r = 0; r < 3; ++r) expect_equal(is[static_cast<std::size_t>(r)], expected[0], r);
  }
}

TEST(Groups, OneGroupIsTold) {
  const auto warning = [](const std::string& text, int ranks) {
    std::vector<std::string> said(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](Communicator& comm) {
      said[static_cast<std::size_t>(comm.rank())] = single_group_warning(options(text), comm);
    });
    return said[0];
  };
  const std::string elastic = "parallelizationMethod=EASGD;groups=";
  EXPECT_EQ(warning(elastic + "size:4", 3),
            "groups = size:4 makes one group of all 3 ranks: EASGD runs with one worker, the group, in which "
            "DataParallelSGD works. fix: groups = n:2 for two groups");
  EXPECT_THAT(warning("parallelizationMethod=DataParallelSGD;groups=byNode", 2),
              HasSubstr("nothing is exchanged between groups, and DataParallelSGD within the group is all"));
  EXPECT_THAT(warning("parallelizationMethod=ASGD;ASGD=[servers=1];groups=size:2", 3), HasSubstr("all 2 ranks"));
  EXPECT_EQ(warning(elastic + "size:2", 3), "");
  EXPECT_EQ(warning(elastic + "size:4", 1), "");
  EXPECT_EQ(warning("parallelizationMethod=EASGD", 3), "");
}

TEST(GroupedGradients, InFullAreThePlainSum) {
  for (const Grouping& g : groupings()) {
    const auto plain = train({.ranks = g.ranks}, "parallelizationMethod=DataParallelSGD");
    for (const std::string between : {"DataParallelSGD", "ASA", "ASA;ASA=[allReduce=library]"})
      for (const std::string inside : {"DataParallelSGD", "ASA;ASA=[allReduce=library]"}) {
        SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + ", " + between + " over " + inside);
        EXPECT_EQ(train({.ranks = g.ranks}, "parallelizationMethod=" + between + ";groups=" + g.key +
                                                ";insideGroups=[parallelizationMethod=" + inside + "]"),
                  plain);
      }
  }
}

// One bit over the groups' sums is what as many ranks as groups would do with those sums, however many ranks of a group
// carry columns.
TEST(GroupedGradients, InOneBitAreThoseOfAsManyRanksAsGroups) {
  for (const Grouping& g : groupings())
    for (const std::string bits :
         {"gradientBits=1", "gradientBits=2*1:1", "gradientBits=1;useBufferedAsyncGradientAggregation=true"}) {
      SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + ", " + bits);
      const std::string method = "parallelizationMethod=DataParallelSGD;DataParallelSGD=[" + bits + "]";
      const auto expected = train({.ranks = static_cast<int>(g.groups.size()), .parts = g.groups}, method);
      const auto is = train({.ranks = g.ranks}, method + ";groups=" + g.key + ";" + kInFull);
      for (int r = 0; r < g.ranks; ++r) expect_equal(is[static_cast<std::size_t>(r)], expected[0], r);
    }
}

TEST(GroupedGradients, MayRunBehindOnEitherLevel) {
  const std::string behind = "DataParallelSGD=[useBufferedAsyncGradientAggregation=true]";
  for (const Grouping& g : groupings()) {
    const auto expected = train({.ranks = g.ranks}, "parallelizationMethod=DataParallelSGD");
    for (const std::string& text : {behind + ";insideGroups=[DataParallelSGD=[gradientBits=32]]",
                                    "insideGroups=[" + behind + "]", behind + ";insideGroups=[" + behind + "]"}) {
      SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + ", " + text);
      const auto is = train({.ranks = g.ranks}, "parallelizationMethod=DataParallelSGD;groups=" + g.key + ";" + text);
      for (int r = 0; r < g.ranks; ++r) {
        // Descent only adds up, so the order of updates does not matter.
        expect_equal(is[static_cast<std::size_t>(r)], expected[0], r);
        EXPECT_EQ(is[static_cast<std::size_t>(r)].columns, expected[0].columns);
      }
    }
  }
}

// Other ranks may wait for a rank in a layer of the backward pass. So none waits for sums before it has announced all.
// The ranks that are `ahead` begin a step before the others have sent the sums of the last one, and hold theirs back.
void expect_no_wait_during_backward(const std::string& text, int ranks, const std::function<bool(int)>& ahead) {
  SCOPED_TRACE(text + " on " + std::to_string(ranks));
  std::atomic<int> behind = 0;
  for (int r = 0; r < ranks; ++r) behind += ahead(r) ? 0 : 1;
  run_ranks(ranks, [&](Communicator& comm) {
    Parameters p = parameters_of({{300, 250}, {300, 1}, {500, 150}}, 50);
    p.sparse_rows.resize(p.slices.size());
    const auto player = play(options(text), comm);
    player->start(p);
    player->begin_epoch(0);
    Descent sink(p);
    GradientExchange& gradients = *player->method().gradients;
    const bool leads = ahead(comm.rank());
    const StepInfo info{.own_samples = 1, .samples = ranks, .columns = ranks, .global_samples = ranks};
    const auto announce = [&] {
      p.gradients.memory().synchronize();
      std::ranges::fill(p.gradients.span(), 1.0f);
      for (std::size_t chunk = 0; chunk < p.chunks.size(); ++chunk) {
        gradients.chunk_ready(chunk);
        if (!leads) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // sums inside a group arrive
      }
    };
    if (!leads) comm.barrier();
    gradients.begin_step(info, sink);
    announce();
    gradients.finish_step();
    gradients.begin_step(info, sink);
    if (leads) comm.barrier();
    for (int looks = 0; leads && behind > 0 && looks < 5000; ++looks)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(!leads || behind == 0) << "the others wait for this rank";
    announce();
    if (!leads) --behind;
    gradients.finish_step();
    gradients.drain(sink);
    p.weights.memory().synchronize();
    for (const Slice& s : p.slices) EXPECT_EQ(p.weights.data()[s.offset], -0.25f * static_cast<float>(ranks));
  });
}

TEST(LateGradients, AreNotWaitedForDuringBackward) {
  const std::string late =
      "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32;"
      "useBufferedAsyncGradientAggregation=true]";
  const auto odd = [](int rank) { return rank % 2 == 1; };
  for (const std::string transport : {";transport=messages", ";transport=sharedMemory"})
    for (const int ranks : {2, 5}) {
      if (transport == ";transport=sharedMemory" && !is_host(*parameter_memory)) continue;
      expect_no_wait_during_backward(late + transport, ranks, odd);
    }
  expect_no_wait_during_backward(late + ";groups=n:2;" + kInFull, 4, [](int rank) { return rank > 1; });
  expect_no_wait_during_backward("parallelizationMethod=DataParallelSGD;groups=n:2;insideGroups=[" + late + "]", 4,
                                 odd);
}

const std::vector<std::string>& weight_methods() {
  static const std::vector<std::string> all{
      "parallelizationMethod=ModelAveragingSGD",
      "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=60]",
      "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=60]",
      "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=90;outerOptimizer=adam;exchangeBits=bf16]",
      "parallelizationMethod=EASGD;EASGD=[period=2;movingRate=0.25]",
      "parallelizationMethod=ASA;ASA=[exchange=weights;exchangeBits=4]",
      "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=60;outerOptimizer=nesterov;fragments=3]",
      "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=90;fragments=2;overlap=2;exchangeBits=4]",
      "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=70;overlap=1;overlapMixing=0.5]",
  };
  return all;
}

// A group that sums its gradients is one worker with the samples of all its ranks.
TEST(GroupedWeights, AGroupIsOneWorker) {
  for (const Grouping& g : groupings())
    for (const std::string& method : weight_methods()) {
      SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + ", " + method);
      const auto expected = train({.ranks = static_cast<int>(g.groups.size()), .parts = g.groups}, method);
      const auto is = train({.ranks = g.ranks}, method + ";groups=" + g.key + ";" + kInFull);
      for (std::size_t group = 0; group < g.groups.size(); ++group)
        for (const int r : g.groups[group]) {
          expect_equal(is[static_cast<std::size_t>(r)], expected[group], r);
          EXPECT_EQ(is[static_cast<std::size_t>(r)].columns, expected[group].columns);
        }
    }
}

// Gradients between peers, weights within groups: peers with one place in their groups are one worker.
TEST(GroupedWeights, MayMeetWithinGroupsWhilePeersSumGradients) {
  for (const std::string& method : weight_methods())
    for (const auto& [key, peers] : {std::pair<std::string, std::vector<std::vector<int>>>{"n:2", {{0, 2}, {1, 3}}},
                                     {"n:2", {{0, 3}, {1, 4}, {2, 5}}},
                                     {"size:2", {{0, 2, 4}, {1, 3, 5}}}}) {
      const int ranks = static_cast<int>(peers.size() * peers[0].size());
      SCOPED_TRACE(key + " of " + std::to_string(ranks) + ", " + method);
      const auto expected = train({.ranks = static_cast<int>(peers.size()), .parts = peers}, method);
      const auto is = train({.ranks = ranks},
                            "parallelizationMethod=DataParallelSGD;groups=" + key + ";insideGroups=[" + method + "]");
      for (std::size_t p = 0; p < peers.size(); ++p)
        for (const int r : peers[p]) expect_equal(is[static_cast<std::size_t>(r)], expected[p], r);
    }
}

// With a center that nobody moves and nobody is moved by, groups are alone with their inner method.
TEST(GroupedWeights, WithoutPullGroupsTrainAsIfAlone) {
  for (const std::string& method : weight_methods()) {
    SCOPED_TRACE(method);
    const auto is =
        train({.ranks = 4},
              "parallelizationMethod=EASGD;EASGD=[movingRate=0;period=1000];groups=n:2;insideGroups=[" + method + "]");
    Course alone{.ranks = 2, .parts = {{0}, {1}}};
    const auto first = train(alone, method);
    for (int r = 0; r < 2; ++r)
      EXPECT_TRUE(reference::same(is[static_cast<std::size_t>(r)].own, first[static_cast<std::size_t>(r)].own)) << r;
    alone.parts = {{2}, {3}};
    const auto second = train(alone, method);
    for (int r = 0; r < 2; ++r)
      EXPECT_TRUE(reference::same(is[static_cast<std::size_t>(r + 2)].own, second[static_cast<std::size_t>(r)].own))
          << r;
  }
}

// The exchange after the last step of an epoch is the last one: another would pull once more.
TEST(GroupedWeights, ElasticGroupsArePulledOnceAfterTheLastStep) {
  const auto after_a_step = [](const std::string& rate) {
    return train({.ranks = 4, .epochs = 1, .steps = 1},
                 "parallelizationMethod=EASGD;EASGD=[period=1;movingRate=" + rate +
                     "];groups=n:2;insideGroups=[parallelizationMethod=ModelAveragingSGD]");
  };
  const auto alone = after_a_step("0"), pulled = after_a_step("0.25");
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t i = 0; i < alone[r].own.size(); ++i) {
      const float center = alone[r].shown[i], own = alone[r].own[i];
      EXPECT_NEAR(pulled[r].own[i], own + 0.25f * (center - own), 1e-3f) << r << " " << i;
    }
}

// Averages of averages by samples are the average by samples, apart from rounding.
TEST(GroupedWeights, AveragesOfAveragesAreTheAverage) {
  for (const Grouping& g : groupings()) {
    SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks));
    const std::string every = "parallelizationMethod=ModelAveragingSGD";
    const auto expected = train({.ranks = g.ranks}, every);
    const auto is = train({.ranks = g.ranks}, every + ";groups=" + g.key + ";insideGroups=[" + every + "]");
    for (int r = 0; r < g.ranks; ++r) {
      const Left& left = is[static_cast<std::size_t>(r)];
      EXPECT_EQ(left.samples, expected[0].samples);
      EXPECT_EQ(left.criterion, expected[0].criterion);
      EXPECT_EQ(left.shown, is[0].shown);
      for (std::size_t i = 0; i < left.shown.size(); ++i) EXPECT_NEAR(left.shown[i], expected[0].shown[i], 1e-3f) << i;
    }
  }
}

TEST(Groups, OfGroups) {
  const std::string inner = "groups=size:2;insideGroups=[parallelizationMethod=DataParallelSGD]";
  // Gradients all the way: the plain sum.
  EXPECT_EQ(
      train({.ranks = 8},
            "parallelizationMethod=DataParallelSGD;groups=n:2;insideGroups=[parallelizationMethod=ASA;" + inner + "]"),
      train({.ranks = 8}, "parallelizationMethod=DataParallelSGD"));
  // One bit between nodes over sums of sums.
  const std::vector<std::vector<int>> nodes{{0, 1, 2, 3}, {4, 5, 6, 7}};
  const std::string one_bit = "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]";
  const auto coded = train({.ranks = 2, .parts = nodes}, one_bit);
  const auto deep =
      train({.ranks = 8}, one_bit + ";groups=n:2;insideGroups=[parallelizationMethod=DataParallelSGD;" + inner + "]");
  for (int r = 0; r < 8; ++r) expect_equal(deep[static_cast<std::size_t>(r)], coded[0], r);
  // Weights over weights over gradients: pairs are workers, four of them in two groups.
  for (const std::string& method : weight_methods()) {
    SCOPED_TRACE(method);
    const std::string top = "parallelizationMethod=EASGD;EASGD=[period=1];groups=n:2;insideGroups=[" + method;
    const auto pairs = train({.ranks = 4, .parts = {{0, 1}, {2, 3}, {4, 5}, {6, 7}}}, top + "]");
    const auto is = train({.ranks = 8}, top + ";" + inner + "]");
    for (int r = 0; r < 8; ++r)
      expect_equal(is[static_cast<std::size_t>(r)], pairs[static_cast<std::size_t>(r / 2)], r);
  }
  // Gradients over weights over gradients: two workers, each a pair of both nodes.
  for (const std::string& method : weight_methods()) {
    SCOPED_TRACE(method);
    const auto workers = train({.ranks = 2, .parts = {{0, 1, 4, 5}, {2, 3, 6, 7}}}, method);
    const auto is = train(
        {.ranks = 8}, "parallelizationMethod=DataParallelSGD;groups=n:2;insideGroups=[" + method + ";" + inner + "]");
    for (int r = 0; r < 8; ++r)
      expect_equal(is[static_cast<std::size_t>(r)], workers[static_cast<std::size_t>(r / 2 % 2)], r);
  }
}

// Servers between groups. Descent only adds up, so that neither order nor staleness changes where all arrive.
TEST(GroupsAtServers, LearnAllThatTheirRanksLearn) {
  for (const Grouping& g : groupings()) {
    const auto expected = train({.ranks = g.ranks}, "parallelizationMethod=DataParallelSGD");
    for (const std::string settings :
         {"syncPeriod=1", "syncPeriod=20", "syncPeriod=1000", "syncPeriod=10;usePipeline=true", "push=gradients",
          "syncPeriod=10;fetchPeriod=30", "syncPeriod=10;maxStaleness=1", "syncPeriod=10;policy=sync",
          "push=gradients;policy=sync", "push=gradients;policy=mixed"})
      for (const std::string inside : {"DataParallelSGD", "ASA;ASA=[allReduce=library]",
                                       "DataParallelSGD;DataParallelSGD=[useBufferedAsyncGradientAggregation=true]"}) {
        if (settings.starts_with("push") && inside.find("Buffered") != std::string::npos) continue;
        SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + ", " + settings + " over " + inside);
        const auto is = train({.ranks = g.ranks}, "parallelizationMethod=ASGD;ASGD=[" + settings + "];groups=" + g.key +
                                                      ";insideGroups=[parallelizationMethod=" + inside + "]");
        for (int r = 0; r < g.ranks; ++r) expect_equal(is[static_cast<std::size_t>(r)], expected[0], r);
      }
  }
}

const std::vector<std::string>& waiting_servers() {
  static const std::vector<std::string> all{
      "parallelizationMethod=ASGD;ASGD=[policy=sync;syncPeriod=12]",
      "parallelizationMethod=ASGD;ASGD=[policy=sync;syncPeriod=12;exchangeBits=2]",
      "parallelizationMethod=ASGD;ASGD=[SimModelAverage=true;syncPeriod=12]",
      "parallelizationMethod=ASGD;ASGD=[push=gradients;policy=sync]",
  };
  return all;
}

TEST(GroupsAtServers, ThatWaitAreOneWorkerEach) {
  for (const Grouping& g : groupings())
    for (const std::string& method : waiting_servers()) {
      SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + ", " + method);
      const auto expected = train({.ranks = static_cast<int>(g.groups.size()), .parts = g.groups}, method);
      const auto is = train({.ranks = g.ranks}, method + ";groups=" + g.key + ";" + kInFull);
      for (std::size_t group = 0; group < g.groups.size(); ++group)
        for (const int r : g.groups[group]) expect_equal(is[static_cast<std::size_t>(r)], expected[group], r);
    }
}

// The last ranks have nothing but the weights of all.
TEST(GroupsAtServers, MayHaveRanksThatOnlyServe) {
  for (const std::string settings : {"policy=sync;syncPeriod=12;servers=1", "push=gradients;policy=sync;servers=2",
                                     "SimModelAverage=true;syncPeriod=12;servers=1"})
    for (const Grouping& g : groupings()) {
      SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + ", " + settings);
      const int servers = settings.back() - '0';
      Course run{.ranks = g.ranks + servers}, single{.ranks = static_cast<int>(g.groups.size()) + servers};
      for (int r = 0; r < g.ranks; ++r) run.parts.push_back({r});
      single.parts = g.groups;
      for (Course* c : {&run, &single}) c->parts.resize(static_cast<std::size_t>(c->ranks));
      const std::string method = "parallelizationMethod=ASGD;ASGD=[" + settings + "]";
      const auto expected = train(single, method), is = train(run, method + ";groups=" + g.key);
      for (std::size_t group = 0; group < g.groups.size(); ++group)
        for (const int r : g.groups[group]) expect_equal(is[static_cast<std::size_t>(r)], expected[group], r);
      for (int s = 0; s < servers; ++s) {
        EXPECT_TRUE(reference::same(is[static_cast<std::size_t>(g.ranks + s)].shown, expected[0].shown));
        EXPECT_EQ(is[static_cast<std::size_t>(g.ranks + s)].samples, expected[0].samples);
      }
    }
}

TEST(GroupsAtServers, LearnAllWithRanksThatOnlyServe) {
  for (const Grouping& g : groupings())
    for (const std::string settings : {"syncPeriod=10;servers=1", "push=gradients;servers=2"}) {
      SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + ", " + settings);
      const auto expected = train({.ranks = g.ranks}, "parallelizationMethod=DataParallelSGD");
      Course run{.ranks = g.ranks + (settings.back() - '0')};
      for (int r = 0; r < g.ranks; ++r) run.parts.push_back({r});
      run.parts.resize(static_cast<std::size_t>(run.ranks));
      const auto is = train(run, "parallelizationMethod=ASGD;ASGD=[" + settings + "];groups=" + g.key);
      for (int r = 0; r < g.ranks; ++r) expect_equal(is[static_cast<std::size_t>(r)], expected[0], r);
    }
}

TEST(GroupsAtServers, ThatDoNotPullTrainAsIfAlone) {
  const auto is =
      train({.ranks = 4}, "parallelizationMethod=EASGD;EASGD=[policy=async;movingRate=0;period=2];groups=n:2");
  for (const int group : {0, 1}) {
    const auto alone =
        train({.ranks = 2, .parts = {{2 * group}, {2 * group + 1}}}, "parallelizationMethod=DataParallelSGD");
    for (const int r : {0, 1}) {
      const auto& left = is[static_cast<std::size_t>(2 * group + r)];
      EXPECT_TRUE(reference::same(left.own, alone[static_cast<std::size_t>(r)].own)) << group << r;
      EXPECT_TRUE(reference::same(left.shown, is[0].shown)) << group << r;
      EXPECT_EQ(left.samples, is[0].samples);
    }
  }
}

// With one pull to a center, a group of EASGD has one set of weights, not one for each rank.
TEST(GroupsAtServers, RanksOfAGroupStayEqualWhenPulled) {
  for (const Grouping& g : groupings()) {
    const auto is = train({.ranks = g.ranks},
                          "parallelizationMethod=EASGD;EASGD=[policy=async;period=2;movingRate=0.25];"
                          "groups=" +
                              g.key);
    const auto unpulled = train({.ranks = g.ranks},
                                "parallelizationMethod=EASGD;EASGD=[policy=async;movingRate=0];"
                                "groups=" +
                                    g.key);
    for (const auto& group : g.groups)
      for (const int r : group) {
        const auto at = static_cast<std::size_t>(r), first = static_cast<std::size_t>(group[0]);
        EXPECT_TRUE(reference::same(is[at].own, is[first].own)) << g.key << r;
        EXPECT_TRUE(reference::same(is[at].shown, is[0].shown)) << g.key << r;
        EXPECT_EQ(is[at].samples, unpulled[at].samples);
        EXPECT_FALSE(reference::same(is[at].own, unpulled[at].own)) << "nobody was pulled";
      }
  }
}

// A group whose ranks stand still holds the other one back neither in its steps nor in its exchanges.
TEST(GroupsAtServers, AHeldGroupHoldsNobody) {
  for (const std::string method :
       {"parallelizationMethod=ASGD;ASGD=[syncPeriod=5]", "parallelizationMethod=ASGD;ASGD=[push=gradients]",
        "parallelizationMethod=EASGD;EASGD=[policy=async;period=1]"})
    for (const int held : {2, 3, 0, 1}) {
      SCOPED_TRACE(method + ", held: " + std::to_string(held));
      const ParallelTrainOptions o = options(method + ";groups=n:2");
      std::promise<void> others_done;
      const auto released = others_done.get_future().share();
      std::atomic<int> left = 2;
      constexpr int steps = 12;
      std::array<int, 4> made{};
      run_ranks(4, [&](Communicator& comm) {
        const auto me = static_cast<std::size_t>(comm.rank());
        Parameters p = parameters_of(kShapes, 3);
        p.sparse_rows.resize(p.slices.size());
        const auto optimizer = make_optimizer(OptimizerOptions());
        optimizer->bind(p);
        auto s = play(o, comm);
        s->bind(*optimizer, [] { return make_optimizer(OptimizerOptions()); });
        s->start(p);
        Descent sink(p);
        s->begin_epoch(0);
        Left unused;
        for (int t = 0; t < steps; ++t, ++made[me]) {
          if (t == 1 && comm.rank() == held) released.wait();
          one_step({}, *s, p, sink, comm.rank(), t, unused);
        }
        if (comm.rank() / 2 != held / 2 && --left == 0) others_done.set_value();
        drain(*s, sink, unused);
        s->end_epoch(sink);
      });
      EXPECT_EQ(made, (std::array<int, 4>{steps, steps, steps, steps}));
    }
}

// Units go to whole groups; one that is held up takes no more of them, and each has one taker.
TEST(GroupsAtServers, HandOutUnitsToGroups) {
  for (const std::string method :
       {"parallelizationMethod=ASGD;ASGD=[syncPeriod=5]", "parallelizationMethod=ASGD;ASGD=[policy=mixed;softSync=1]",
        "parallelizationMethod=EASGD;EASGD=[policy=async]"})
    for (const Grouping& g : groupings()) {
      SCOPED_TRACE(method + ", " + g.key + " of " + std::to_string(g.ranks));
      constexpr std::int64_t units = 60;
      std::vector<std::vector<std::int64_t>> taken(static_cast<std::size_t>(g.ranks));
      std::promise<void> others_done;
      const auto released = others_done.get_future().share();
      std::atomic<int> left = static_cast<int>(g.groups.size()) - 1;
      const std::vector<int>& held = g.groups.back();
      run_ranks(g.ranks, [&](Communicator& comm) {
        Parameters p = parameters_of(kShapes, 3);
        const auto s = play(options(method + ";groups=" + g.key), comm);
        s->start(p);
        Descent sink(p);
        s->begin_epoch(0);
        ASSERT_NE(s->work_queue(), nullptr);
        const auto group = std::find_if(g.groups.begin(), g.groups.end(), [&](const auto& members) {
          return std::find(members.begin(), members.end(), comm.rank()) != members.end();
        });
        const DataDivision::Share share = s->method().data.unit_share;
        EXPECT_EQ(share.ranks, static_cast<int>(g.groups.size()));
        EXPECT_EQ(share.parts, static_cast<int>(group->size()));
        EXPECT_EQ((*group)[static_cast<std::size_t>(share.part)], comm.rank());
        auto& mine = taken[static_cast<std::size_t>(comm.rank())];
        for (const int range : {0, 1}) {
          s->work_queue()->start_range();
          const std::size_t before = mine.size();
          for (std::int64_t unit = s->work_queue()->next(); unit < units; unit = s->work_queue()->next()) {
            mine.push_back(range * units + unit);
            if (range == 1 && comm.rank() == held[0] && mine.size() == before + 1) released.wait();
          }
          if (range == 1 && share.part == 0 && comm.rank() != held[0] && --left == 0) others_done.set_value();
          s->drain(sink);
        }
      });
      std::map<std::int64_t, int> times;
      for (const auto& members : g.groups) {
        const auto& first = taken[static_cast<std::size_t>(members[0])];
        for (const int r : members) EXPECT_EQ(taken[static_cast<std::size_t>(r)], first) << r;
        for (const std::int64_t unit : first) ++times[unit];
      }
      EXPECT_EQ(times.size(), 2 * units);
      for (const auto& [unit, n] : times) EXPECT_EQ(n, 1) << unit;
      const auto& slow = taken[static_cast<std::size_t>(held[0])];
      EXPECT_LE(std::count_if(slow.begin(), slow.end(), [](std::int64_t unit) { return unit >= units; }), 1);
    }
}

TEST(GroupsAtServers, ThatWaitForEachOtherShareTheirData) {
  for (const std::string method : {"parallelizationMethod=ASGD;ASGD=[policy=sync]",
                                   "parallelizationMethod=EASGD;EASGD=[policy=async;division=static]"})
    run_ranks(3, [&](Communicator& comm) {
      Parameters p = parameters_of(kShapes, 3);
      const auto s = play(options(method + ";groups=n:2"), comm);
      s->start(p);
      EXPECT_EQ(s->work_queue(), nullptr);
      EXPECT_EQ(s->method().data.share.rank, comm.rank());
      EXPECT_EQ(s->method().data.share.ranks, 3);
    });
}

// As the servers do with as many single ranks as groups.
TEST(GroupsAtServers, SaveAndLoadAsSingleRanksDo) {
  for (const Grouping& g : groupings())
    for (const std::string& method : waiting_servers()) {
      SCOPED_TRACE(g.key + " of " + std::to_string(g.ranks) + ", " + method);
      const auto expected =
          train({.ranks = static_cast<int>(g.groups.size()), .parts = g.groups, .save_at = 6}, method);
      const auto is = train({.ranks = g.ranks, .save_at = 6}, method + ";groups=" + g.key + ";" + kInFull);
      for (std::size_t group = 0; group < g.groups.size(); ++group)
        for (const int r : g.groups[group]) expect_equal(is[static_cast<std::size_t>(r)], expected[group], r);
    }
}

TEST(GroupsAtServers, SaveAndLoadWithoutABreak) {
  const std::string inside = ";groups=size:2;insideGroups=[DataParallelSGD=[gradientBits=4]]";
  const std::string method = "parallelizationMethod=ASGD;ASGD=[push=gradients;policy=sync]";
  for (const int ranks : {4, 3}) {
    const auto whole = train({.ranks = ranks, .whole_numbers = false}, method + inside);
    const auto broken = train({.ranks = ranks, .save_at = 6, .whole_numbers = false}, method + inside);
    for (int r = 0; r < ranks; ++r)
      expect_equal(broken[static_cast<std::size_t>(r)], whole[static_cast<std::size_t>(r)], r);
  }
}

TEST(GroupsAtServers, SayWhatDoesNotGo) {
  const std::string asgd = "parallelizationMethod=ASGD;groups=n:2;";
  EXPECT_EQ(errors_of(asgd), "");
  EXPECT_EQ(errors_of(asgd + "ASGD=[push=gradients]"), "");
  EXPECT_EQ(errors_of("parallelizationMethod=EASGD;groups=n:2;EASGD=[policy=async]"), "");
  EXPECT_THAT(errors_of(asgd + "ASGD=[policy=sync;push=gradients;backupWorkers=1]"),
              HasSubstr("drops gradients of single ranks"));
  EXPECT_THAT(errors_of(asgd + "ASGD=[push=gradients;syncPeriod=9]"), HasSubstr("after every minibatch"));
  EXPECT_THAT(
      errors_of(asgd + "ASGD=[push=gradients];insideGroups=[DataParallelSGD=[useBufferedAsyncGradientAggregation"
                       "=true]]"),
      HasSubstr("delayed gradients inside groups"));
  EXPECT_THAT(errors_of(asgd + "insideGroups=[parallelizationMethod=ModelAveragingSGD]"),
              HasSubstr("must sum gradients"));
  EXPECT_THROW(run_ranks(2, [&](Communicator& comm) { play(options(asgd + "ASGD=[servers=2]"), comm); }), ConfigError);
  EXPECT_THROW(run_ranks(3, [&](Communicator& comm) { play(options(asgd + "ASGD=[servers=2]"), comm); }), ConfigError);
  EXPECT_THAT(errors_of("parallelizationMethod=DataParallelSGD;groups=n:2;insideGroups=[parallelizationMethod=ASGD]"),
              HasSubstr("DataParallelSGD in insideGroups"));
}

// Ranks 0 and 2 stand for their groups, of which the second has no other rank.
TEST(Groups, TellTheBytesOfEachLevel) {
  for (const std::string method : {"parallelizationMethod=DataParallelSGD", "parallelizationMethod=ModelAveragingSGD",
                                   "parallelizationMethod=ASGD;ASGD=[policy=sync;syncPeriod=1]"})
    for (const bool grouped : {true, false}) {
      SCOPED_TRACE(method + (grouped ? ", grouped" : ""));
      run_ranks(3, [&](Communicator& comm) {
        Parameters p = parameters_of(kShapes, 3);
        p.sparse_rows.resize(p.slices.size());
        const auto s = play(options(method + (grouped ? ";groups=n:2" : "")), comm);
        s->start(p);
        Descent sink(p);
        s->begin_epoch(0);
        Left unused;
        one_step({.ranks = 3}, *s, p, sink, comm.rank(), 0, unused);
        drain(*s, sink, unused);
        const ExchangeStats stats = s->exchange_stats_and_reset();
        EXPECT_EQ(stats.groups, grouped);
        EXPECT_GT(stats.bytes_sent, 0);
        // Where gradients are summed between groups, metrics go from every rank to every other.
        const bool all_send = method == "parallelizationMethod=DataParallelSGD";
        EXPECT_EQ(stats.bytes_between > 0, grouped && (all_send || comm.rank() != 1));
        EXPECT_EQ(stats.bytes_between == stats.bytes_sent, grouped && comm.rank() == 2);
        EXPECT_EQ(s->exchange_stats_and_reset().bytes_sent, 0);
      });
    }
}

TEST(Groups, SaveAndLoadWithoutABreak) {
  const std::vector<std::string> within{
      "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=4]",
      "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=25]",
      "parallelizationMethod=EASGD;EASGD=[period=2]",
      "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=35;exchangeBits=2;resetSGDMomentum=false]",
      "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=40;fragments=2;overlap=2]",
  };
  std::vector<std::string> between = weight_methods();
  between.push_back("parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]");
  for (const int ranks : {4, 3})
    for (const std::string& b : between)
      for (const std::string& w : within) {
        if (ranks == 3 && b.find("gradientBits") != std::string::npos && w.find("gradientBits") == std::string::npos)
          continue;
        SCOPED_TRACE(std::to_string(ranks) + " ranks, " + b + " over " + w);
        const std::string text = b + ";groups=size:2;insideGroups=[" + w + "]";
        const auto whole = train({.ranks = ranks, .whole_numbers = false}, text);
        const auto broken = train({.ranks = ranks, .save_at = 6, .whole_numbers = false}, text);
        for (int r = 0; r < ranks; ++r) {
          const auto at = static_cast<std::size_t>(r);
          EXPECT_TRUE(reference::same(broken[at].shown, whole[at].shown)) << r;
          EXPECT_TRUE(reference::same(broken[at].own, whole[at].own)) << r;
          EXPECT_EQ(broken[at].samples, whole[at].samples);
        }
      }
}

}  // namespace
}  // namespace tutti::groups_test

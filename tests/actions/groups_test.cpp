// SPDX-License-Identifier: Apache-2.0
// Whole training runs with one method within groups of ranks and another between them: they end, count each sample
// once, resume exactly, and checkpoints within epochs disturb nothing.
#include "method_table.h"

namespace tutti::actions::groups_test {
namespace {

struct Level {
  std::string name, settings;
  bool gradients = false;
  bool servers = false;  // between groups, over gradients
  bool repeats = true;   // the same bits in every run
};

const std::vector<Level>& levels() {
  static const std::vector<Level> all{
      {"gradients", "parallelizationMethod=DataParallelSGD", true},
      {"onebit", "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=1]", true},
      {"late",
       "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=4;useBufferedAsyncGradientAggregation="
       "true]",
       true},
      {"asa", "parallelizationMethod=ASA;ASA=[exchangeBits=16]", true},
      {"weights", "parallelizationMethod=ASA;ASA=[exchange=weights]"},
      {"averaging", "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=60]"},
      {"blocks", "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=80;resetSGDMomentum=false]"},
      {"elastic", "parallelizationMethod=EASGD;EASGD=[period=3]"},
  };
  return all;
}

// What may be between groups.
const std::vector<Level>& upper_levels() {
  static const std::vector<Level> all = [] {
    std::vector<Level> result = levels();
    result.push_back({"fragments", block_momentum("outerOptimizer=nesterov;fragments=3;overlap=1")});
    result.push_back({"servers", servers("syncPeriod=20"), false, true, false});
    result.push_back({"servers-late", servers("syncPeriod=20;usePipeline=true;exchangeBits=4"), false, true, false});
    result.push_back({"servers-bounded", servers("maxStaleness=1;syncPeriod=10"), false, true, false});
    result.push_back({"servers-gradients", servers("push=gradients"), false, true, false});
    result.push_back({"servers-sync", servers("push=gradients;policy=sync"), false, true});
    result.push_back({"servers-apart", servers("syncPeriod=20;servers=1"), false, true, false});
    result.push_back({"servers-averaging", servers("SimModelAverage=true;syncPeriod=30"), false, true});
    result.push_back({"elastic-free", "parallelizationMethod=EASGD;EASGD=[period=2;policy=async]", false, true, false});
    return result;
  }();
  return all;
}

std::string in_groups(const Level& between, const std::string& groups, const Level& inside) {
  return in_parallel_block(between.settings + ";groups=" + groups + ";insideGroups=[" + inside.settings + "]");
}

bool serves_only(const Level& level) { return level.settings.find("servers=1") != std::string::npos; }

bool may_be(const Level& between, const Level& inside, bool even) {
  if (between.servers)
    return inside.gradients && (inside.name != "late" || between.settings.find("push=") == std::string::npos);
  return even || !between.gradients || inside.gradients;
}

// Minibatches of 4: an epoch of less than one, of one, of uneven ones; with fewer samples than ranks.
TEST_F(TrainRun, EverySampleCountsOnceAnEpochWithGroups) {
  for (const Level& between : upper_levels())
    for (const Level& inside : levels())
      for (const auto& [ranks, groups] : {std::pair(4, "n:2"), std::pair(3, "size:2"), std::pair(6, "size:4"),
                                          std::pair(3, "n:1"), std::pair(1, "byNode")})
        for (const int samples : {2, 7}) {
          if (!may_be(between, inside, ranks != 3 && ranks != 6)) continue;
          if (ranks == 1 && serves_only(between)) continue;
          if ((ranks == 6 || groups == std::string("n:1")) && samples == 7 && between.name != "blocks") continue;
          const std::string model = fmt::format("{}-{}-{}-{}-{}", between.name, inside.name, ranks, groups, samples);
          expect_every_sample_once(ranks, model, in_groups(between, groups, inside), samples);
          if (HasFatalFailure()) return;
        }
}

TEST_F(TrainRun, GroupsResumeExactlyAndCheckpointsDisturbNothing) {
  for (const Level& between : upper_levels())
    for (const Level& inside : levels())
      for (const auto& [ranks, groups] : {std::pair(4, "n:2"), std::pair(3, "n:2")}) {
        if (!may_be(between, inside, ranks == 4)) continue;
        if (!between.repeats) continue;
        if (ranks == 3 && inside.name != "gradients" && inside.name != "averaging") continue;
        const std::string settings = in_groups(between, groups, inside);
        const std::string model = fmt::format("{}-{}-{}", between.name, inside.name, ranks);
        train(ranks, model, settings);
        const std::string undisturbed = bytes(model);
        forget_after_second_epoch(path(model));
        train(ranks, model, settings);
        EXPECT_EQ(bytes(model), undisturbed) << model;
        if (between.servers || between.name == "late" || inside.name == "late")
          continue;  // they make a pause at each checkpoint
        train(ranks, model + "-often", settings + "\nTrain=[SGD=[checkpointEverySamples=40]]");
        EXPECT_EQ(bytes(model + "-often"), undisturbed) << model;
      }
}

TEST_F(TrainRun, GroupsGoOnWithAnotherNumberOfRanks) {
  for (const Level& between : upper_levels()) {
    const std::string settings = in_groups(between, "n:2", levels().front());
    train(4, between.name, settings);
    forget_after_second_epoch(path(between.name));
    train(3, between.name, settings);
    EXPECT_FALSE(bytes(between.name).empty());
  }
}

// Servers between groups over servers within them.
std::vector<Level> hierarchies() {
  const std::vector<Level> between{{"servers", servers("syncPeriod=20")},
                                   {"servers-sync", servers("policy=sync;syncPeriod=20")},
                                   {"elastic", "parallelizationMethod=EASGD;EASGD=[period=2;policy=async]"}};
  const std::vector<Level> inside{
      {"servers", servers("syncPeriod=6"), false, true, false},
      {"gradients", servers("push=gradients;policy=sync")},
      {"backup", servers("push=gradients;policy=sync;backupWorkers=1"), false, true, false},
      {"apart", servers("push=gradients;servers=1"), false, true, false},
      {"elastic", "parallelizationMethod=EASGD;EASGD=[period=1;policy=async]", false, true, false}};
  std::vector<Level> all;
  for (const Level& b : between)
    for (const Level& i : inside) {
      if (b.name == "servers-sync" && i.name != "gradients") continue;
      all.push_back({b.name + "-" + i.name, b.settings + ";groups=n:2;insideGroups=[" + i.settings + "]", false, true,
                     b.name == "servers-sync" && i.name == "gradients"});
    }
  return all;
}

TEST_F(TrainRun, EverySampleCountsOnceAnEpochWithMasters) {
  for (const Level& h : hierarchies())
    for (const int ranks : {4, 5})
      for (const int samples : {2, 7, 40}) {
        if (h.name.find("backup") != std::string::npos) continue;  // they drop samples
        const std::string model = fmt::format("{}-{}-{}", h.name, ranks, samples);
        expect_every_sample_once(ranks, model, in_parallel_block(h.settings), samples);
        if (HasFatalFailure()) return;
      }
}

TEST_F(TrainRun, MastersResumeOnAnyNumberOfRanks) {
  for (const Level& h : hierarchies()) {
    const std::string settings = in_parallel_block(h.settings) + "\nTrain=[SGD=[checkpointEverySamples=40]]";
    train(4, h.name, settings);
    const std::string undisturbed = bytes(h.name);
    forget_after_second_epoch(path(h.name));
    train(4, h.name, settings);
    EXPECT_TRUE(!h.repeats || bytes(h.name) == undisturbed) << h.name;
    forget_after_second_epoch(path(h.name));
    train(6, h.name, settings);
    EXPECT_FALSE(bytes(h.name).empty());
  }
}

}  // namespace
}  // namespace tutti::actions::groups_test

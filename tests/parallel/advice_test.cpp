// SPDX-License-Identifier: Apache-2.0
// What is said before a training starts about settings that will not serve it, and when nothing is.
#include "parallel/advice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"

namespace tutti::advice_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ParallelTrainOptions read(const std::string& text) {
  ParallelTrainOptions options;
  Problems problems;
  config::Notices notices;
  config::read_fields(
      config::record_from_text(text), "ParallelTrain", [&](config::Fields& f) { options.describe(f); }, problems,
      notices);
  problems.throw_if_any();
  return options;
}

std::vector<std::string> advice(const std::string& text, const TrainingLength& length, int ranks = 4) {
  return exchange_advice(read(text), length, ranks);
}

TEST(UnusedSettings, BlocksOfOtherMethodsAtEveryLevel) {
  EXPECT_THAT(unused_settings(read("parallelizationMethod=EASGD;EASGD=[period=2];ASA=[];DataParallelSGD=[]")),
              ElementsAre("ParallelTrain: the blocks DataParallelSGD, ASA have no effect with parallelizationMethod = "
                          "EASGD"));
  EXPECT_THAT(unused_settings(read("parallelizationMethod=auto;EASGD=[period=2]")),
              ElementsAre("ParallelTrain: the block EASGD has no effect with parallelizationMethod = auto"));
  const std::string groups = "parallelizationMethod=EASGD;groups=n:2;insideGroups=[parallelizationMethod=";
  EXPECT_THAT(unused_settings(read(groups + "DataParallelSGD;ModelAveragingSGD=[blockSize=5]]")),
              ElementsAre("insideGroups: the block ModelAveragingSGD has no effect with parallelizationMethod = "
                          "DataParallelSGD"));
  EXPECT_THAT(
      unused_settings(read(groups + "ASA;groups=n:2;insideGroups=[parallelizationMethod=ASA;EASGD=[period=2]]]")),
      ElementsAre(HasSubstr("insideGroups: the block EASGD has no effect")));
  EXPECT_THAT(unused_settings(read(groups + "DataParallelSGD;DataParallelSGD=[gradientBits=1]]")), IsEmpty());
}

TEST(UnusedSettings, WithoutAMethod) {
  EXPECT_THAT(unused_settings(read("parallelizationStartEpoch=2;parallelizationStartSample=5;syncPerfStats=3;"
                                   "faultHook=[rank=0;sleep=1]")),
              ElementsAre("parallelizationStartEpoch has no effect with parallelizationMethod = none",
                          "parallelizationStartSample has no effect with parallelizationMethod = none",
                          "syncPerfStats has no effect with parallelizationMethod = none",
                          "faultHook has no effect with parallelizationMethod = none"));
  EXPECT_THAT(unused_settings(read("parallelizationStartEpoch=1;syncPerfStats=0")), IsEmpty());
  EXPECT_THAT(unused_settings(read("parallelizationMethod=EASGD;parallelizationStartEpoch=2;syncPerfStats=3")),
              IsEmpty());
}

TEST(UnusedSettings, OfQuantisationWithoutIt) {
  const auto gradients = [](const char* keys) {
    return unused_settings(read(fmt::format("parallelizationMethod=DataParallelSGD;DataParallelSGD=[{}]", keys)));
  };
  EXPECT_THAT(gradients("resetResidualsEachEpoch=true"), ElementsAre(HasSubstr("there are no residuals")));
  EXPECT_THAT(gradients("gradientBits=2;useZeroThresholdFor1BitQuantization=false"),
              ElementsAre(HasSubstr("useZeroThresholdFor1BitQuantization has no effect")));
  for (const char* keys : {"gradientBits=32:1;useZeroThresholdFor1BitQuantization=false;resetResidualsEachEpoch=true",
                           "exchangeBits=4;resetResidualsEachEpoch=true",
                           "useZeroThresholdFor1BitQuantization=true;resetResidualsEachEpoch=false"})
    EXPECT_THAT(gradients(keys), IsEmpty()) << keys;
}

TEST(UnusedSettings, OfParameterServers) {
  const auto servers = [](const char* keys) {
    return unused_settings(read(fmt::format("parallelizationMethod=DataParallelASGD;ASGD=[{}]", keys)));
  };
  EXPECT_THAT(servers("SimModelAverage=true;usePipeline=true"),
              ElementsAre("usePipeline has no effect with SimModelAverage: averages are waited for"));
  EXPECT_THAT(servers("syncPeriod=200:100;fetchPeriod=100"),
              ElementsAre(HasSubstr("fetchPeriod = 100 has no effect: a worker pushes every 100 samples")));
  for (const char* keys :
       {"SimModelAverage=true", "usePipeline=true", "syncPeriod=100;fetchPeriod=101", "push=gradients;fetchPeriod=10"})
    EXPECT_THAT(servers(keys), IsEmpty()) << keys;
}

TEST(Advice, FewExchangesOfEasgd) {
  const auto easgd = [](std::int64_t period, std::int64_t epochs, std::int64_t samples) {
    return advice(fmt::format("parallelizationMethod=EASGD;EASGD=[period={}]", period),
                  {.epochs = epochs, .samples_per_epoch = samples, .minibatch = 100});
  };
  EXPECT_THAT(easgd(1000, 1, 800),
              ElementsAre(AllOf(HasSubstr("has only 1 exchange (8 minibatches per epoch, period = 1000)"),
                                HasSubstr("fix: set period = 1 or less"))));
  EXPECT_THAT(easgd(10, 4, 800), ElementsAre(HasSubstr("has only 4 exchanges")));
  EXPECT_THAT(easgd(10, 5, 800), IsEmpty());  // one at the end of each epoch
  EXPECT_THAT(easgd(10, 1, 5000), IsEmpty());
  EXPECT_THAT(easgd(10, 1, 4000), ElementsAre(HasSubstr("has only 4 exchanges (40 minibatches")));
}

TEST(Advice, KeptMomentumIsSaidUnlessItIsWanted) {
  const auto blocks = [](const char* keys) {
    return advice(fmt::format("parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=100000;{}]", keys),
                  {.epochs = 10, .samples_per_epoch = 60000, .minibatch = 64});
  };
  EXPECT_THAT(blocks(""), IsEmpty());
  EXPECT_THAT(blocks("fragments=4"),
              ElementsAre(AllOf(HasSubstr("momentum of SGD is kept"), HasSubstr("fix: ModelAveragingSGD"))));
  EXPECT_THAT(blocks("fragments=4;outerOptimizer=nesterov"), ElementsAre(HasSubstr("fix: outerMomentum = 0.6")));
  EXPECT_THAT(blocks("fragments=4;resetSGDMomentum=false"), IsEmpty());
}

TEST(Advice, ShortBlocksWithOverlap) {
  const auto averaging = [](const char* keys) {
    return advice(fmt::format("parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[{}]", keys),
                  {.epochs = 10, .samples_per_epoch = 60000, .minibatch = 64});
  };
  EXPECT_THAT(averaging("blockSize=640;overlap=2"),
              ElementsAre(AllOf(HasSubstr("a block has 10 minibatches"), HasSubstr("2 minibatches late"),
                                HasSubstr("blockSize = 1280 or more"))));
  EXPECT_THAT(averaging("blockSize=1280;overlap=2"), IsEmpty());
  EXPECT_THAT(averaging("blockSize=1280;overlap=2;fragments=2"), ElementsAre(HasSubstr("blockSize = 2560")));
  EXPECT_THAT(averaging("blockSize=64;fragments=2"), IsEmpty());
  EXPECT_THAT(averaging("blockSizePerWorker=320;overlap=2"), IsEmpty());  // four workers
}

TEST(Advice, TwoLevelsThatRunBehind) {
  const std::string late = "DataParallelSGD=[useBufferedAsyncGradientAggregation=true]";
  const auto groups = [&](const std::string& between, const std::string& within) {
    return advice("parallelizationMethod=DataParallelSGD;groups=n:2;" + between + ";insideGroups=[" + within + "]",
                  {.epochs = 10, .samples_per_epoch = 60000, .minibatch = 64});
  };
  EXPECT_THAT(groups(late, late), ElementsAre(HasSubstr("two minibatches late")));
  EXPECT_THAT(groups(late, ""), IsEmpty());
  EXPECT_THAT(groups("", late), IsEmpty());
}

}  // namespace
}  // namespace tutti::advice_test

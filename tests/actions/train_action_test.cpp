// SPDX-License-Identifier: Apache-2.0
// Whole training runs from a config text, ranks as threads: what must come out equal does so byte by byte.
#include "train_run.h"

namespace tutti::actions::train_action_test {
namespace {

constexpr const char* one_bit = "Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=1]]]]";
constexpr const char* no_dropout = "Train=[SGD=[dropoutRate=0]]";

TEST_F(TrainRun, OneRankWithoutQuantisationIsPlainTraining) {
  train(1, "parallel", "");
  train(1, "plain", "Train=[SGD=[ParallelTrain=[parallelizationMethod=none]]]");
  EXPECT_EQ(bytes("parallel"), bytes("plain"));
}

TEST_F(TrainRun, TheSameRanksGiveTheSameBits) {
  for (const int ranks : {1, 2, 3}) {
    train(ranks, fmt::format("a{}", ranks), one_bit);
    train(ranks, fmt::format("b{}", ranks), one_bit);
    EXPECT_EQ(bytes(fmt::format("a{}", ranks)), bytes(fmt::format("b{}", ranks))) << ranks;
  }
  EXPECT_NE(bytes("a1"), bytes("a2"));
}

TEST_F(TrainRun, AResumedRunEndsInTheSameBits) {
  for (const int ranks : {1, 3}) {
    const std::string model = fmt::format("m{}", ranks);
    train(ranks, model, one_bit);
    const std::string undisturbed = bytes(model);
    forget_after_second_epoch(path(model));
    train(ranks, model, one_bit);
    EXPECT_EQ(bytes(model), undisturbed) << ranks;
  }
}

TEST_F(TrainRun, BufferedAggregationResumesExactlyToo) {
  const std::string async = std::string(one_bit) +
                            "\nTrain=[SGD=[ParallelTrain=[DataParallelSGD=["
                            "useBufferedAsyncGradientAggregation=true]]]]";
  train(2, "m", async);
  const std::string undisturbed = bytes("m");
  forget_after_second_epoch(path("m"));
  train(2, "m", async);
  EXPECT_EQ(bytes("m"), undisturbed);
  train(2, "sync", one_bit);
  EXPECT_NE(bytes("sync"), undisturbed);
}

TEST_F(TrainRun, AloneBeforeTheStartEpoch) {
  const std::string late = "Train=[SGD=[ParallelTrain=[parallelizationStartEpoch=5]]]";
  train(1, "one", "");
  train(2, "two", late);  // never parallel: each rank does the work of one
  EXPECT_EQ(bytes("one"), bytes("two"));
}

TEST_F(TrainRun, ACheckpointWithinAnEpochChangesNothing) {
  train(2, "plain", one_bit);
  train(2, "often", std::string(one_bit) + "\nTrain=[SGD=[checkpointEverySamples=40]]");
  EXPECT_EQ(bytes("plain"), bytes("often"));
}

TEST_F(TrainRun, MoreRanksThanSamplesOfAMinibatch) {
  const std::string tiny = "Train=[SGD=[minibatchSize=4;epochSize=10];reader=[samples=10]]";
  train(5, "m", std::string(no_dropout) + "\n" + tiny);
  EXPECT_FALSE(bytes("m").empty());
}

TEST_F(TrainRun, LambdasAreNotCheckedAsGradients) {
  std::ofstream(path("data")) << "|x 1 2 |gain 1 |query 1\n|x 2 1 |gain 0 |query 1\n";
  const std::string text = fmt::format(R"(
modelPath = "{}"
Train = [
  BrainScriptNetworkBuilder = [
    x = Input {{2}} ; gain = Input {{1}} ; query = Input {{1}}
    rank = LambdaRank (gain, LinearLayer {{1}} (x), query) ; criterionNodes = (rank)
  ]
  SGD = [ maxEpochs = 1 ; minibatchSize = 2 ; learningRatesPerMB = 0.1 ; gradientcheck = true ]
  reader = [ readerType = CNTKTextFormatReader ; file = "{}"
    input = [ x = [ dim = 2 ; format = dense ] ; gain = [ dim = 1 ; format = dense ]
              query = [ dim = 1 ; format = dense ] ] ]
]
)",
                                       path("m"), path("data"));
  try {
    run(1, text);
    FAIL() << "not refused";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("gradientcheck cannot judge 'rank'"), std::string::npos) << e.what();
  }
  EXPECT_NO_THROW(run(1, text + "Train=[SGD=[gradientcheck=false]]"));
}

}  // namespace
}  // namespace tutti::actions::train_action_test

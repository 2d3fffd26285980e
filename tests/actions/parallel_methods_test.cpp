// SPDX-License-Identifier: Apache-2.0
// Whole training runs under every method of exchange: they end, resume exactly, start warm, and see each sample once.
#include "parallel_methods.h"

namespace tutti::actions {
namespace {

TEST_F(TrainRun, AveragingOnOneRankIsPlainTraining) {
  train(1, "plain", "Train=[SGD=[ParallelTrain=[parallelizationMethod=none]]]");
  for (const auto& [name, settings] : some_methods()) {
    if (settings.find("Model") == std::string::npos) continue;
    train(1, name, in_parallel_block(settings));
    EXPECT_EQ(bytes(name), bytes("plain")) << name;
  }
}

TEST_F(TrainRun, BlockMethodsResumeExactly) {
  for (const auto& [name, settings] : some_methods()) {
    train(3, name, in_parallel_block(settings));
    const std::string undisturbed = bytes(name);
    forget_after_second_epoch(path(name));
    train(3, name, in_parallel_block(settings));
    EXPECT_EQ(bytes(name), undisturbed) << name;
  }
}

// Every 40 samples, exchanges every 80 or later. (tests/end_to_end/resume_test.py continues from such a checkpoint.)
TEST_F(TrainRun, ACheckpointWithinABlockChangesNothing) {
  for (const auto& [name, settings] : some_methods()) {
    train(3, name, in_parallel_block(settings));
    train(3, name + "-often", in_parallel_block(settings) + "\nTrain=[SGD=[checkpointEverySamples=40]]");
    EXPECT_EQ(bytes(name), bytes(name + "-often")) << name;
  }
}

TEST_F(TrainRun, SettingsThatMayNotWorkAreWarnedAbout) {
  const std::string block = "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=80;";
  const auto says = [&](const std::string& settings) {
    log::open({path("warnings.log"), false, 0, false});
    train(2, "m", in_parallel_block(settings) + "\nTrain=[makeMode=false]");
    log::close();
    return bytes("warnings.log");
  };
  EXPECT_NE(says(block + "exchangeBits=1]").find("1 bit swing"), std::string::npos);
  EXPECT_EQ(says(block + "exchangeBits=2]").find("WARNING"), std::string::npos);
  EXPECT_NE(says(block + "blockLearningRate=3]").find("may overshoot"), std::string::npos);
  EXPECT_NE(says(block + "blockMomentumPerSync=0]").find("blockMomentum equals to zero"), std::string::npos);
  EXPECT_NE(says("parallelizationMethod=EASGD;EASGD=[movingRate=0.7]").find("beyond the mean"), std::string::npos);
}

TEST_F(TrainRun, BlockMethodsGoOnWithAnotherNumberOfRanks) {
  for (const auto& [name, settings] : some_methods()) {
    train(3, name, in_parallel_block(settings));
    forget_after_second_epoch(path(name));
    train(2, name, in_parallel_block(settings));
    EXPECT_FALSE(bytes(name).empty());
  }
}

TEST_F(TrainRun, BlockMethodsStartWarm) {
  train(1, "one", "Train=[SGD=[ParallelTrain=[parallelizationMethod=none]]]");
  for (const auto& [name, settings] : some_methods()) {
    train(3, name, in_parallel_block(settings + ";parallelizationStartEpoch=3"));
    EXPECT_EQ(bytes(name + ".2"), bytes("one.2")) << name;
    EXPECT_NE(bytes(name + ".3"), bytes("one.3")) << name;
    train(3, name + "-end", in_parallel_block(settings + ";parallelizationStartSample=150"));
    EXPECT_EQ(bytes(name + "-end.1"), bytes("one.1")) << name;
    train(3, name + "-never", in_parallel_block(settings + ";parallelizationStartEpoch=5"));
    EXPECT_EQ(bytes(name + "-never"), bytes("one")) << name;
  }
}

// Two minibatches alone, the rest together; the run continues behind that place as if it had not been stopped.
TEST_F(TrainRun, StartsWarmWithinAnEpochAndResumes) {
  train(3, "epoch", in_parallel_block("parallelizationMethod=ModelAveragingSGD;parallelizationStartEpoch=2"));
  for (const auto& [name, settings] : some_methods()) {
    const std::string late = in_parallel_block(settings + ";parallelizationStartEpoch=2;parallelizationStartSample=80");
    train(3, name, late);
    const std::string undisturbed = bytes(name);
    EXPECT_EQ(bytes(name + ".1"), bytes("epoch.1"));
    EXPECT_NE(bytes(name + ".2"), bytes("epoch.2"));
    forget_after_second_epoch(path(name));
    train(3, name, late);
    EXPECT_EQ(bytes(name), undisturbed) << name;
    train(3, name + "-often", late + "\nTrain=[SGD=[checkpointEverySamples=40]]");
    EXPECT_EQ(bytes(name + "-often"), undisturbed) << name;
  }
}

TEST_F(TrainRun, MoreRanksThanSamplesUnderEveryMethod) {
  const std::string tiny = "Train=[SGD=[minibatchSize=4;epochSize=10;dropoutRate=0];reader=[samples=10]]";
  for (const auto& [name, settings] : some_methods()) {
    train(5, name, in_parallel_block(settings) + "\n" + tiny);
    EXPECT_FALSE(bytes(name).empty()) << name;
  }
}

}  // namespace
}  // namespace tutti::actions

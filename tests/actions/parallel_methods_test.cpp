// SPDX-License-Identifier: Apache-2.0
// Whole training runs under every method of exchange: they resume exactly, at an epoch's end and within it, and start
// warm. (every_sample_test.cpp has the samples that they use, adjust_test.cpp rates that adjust themselves.)
#include "method_table.h"
#include "text_run.h"

namespace tutti::actions::parallel_methods_test {
namespace {

class Methods : public TextRun {
 protected:
  bool same(const std::string& a, const std::string& b) const { return bytes(a) == bytes(b); }
  // The weights are numbers, and not those at the start.
  void expect_trained(const std::string& model) const {
    EXPECT_FALSE(bytes(model).empty()) << model;
    EXPECT_FALSE(same(model, model + ".0")) << model;
  }
};

TEST_F(Methods, OfOneRankWithAveragingArePlainTraining) {
  train(1, "plain", "Train=[SGD=[ParallelTrain=[parallelizationMethod=none]]]");
  for (const Method& m : methods()) {
    if (!m.plain_alone) continue;
    train(1, m.name, in_parallel_block(m));
    EXPECT_TRUE(same(m.name, "plain")) << m.name;
  }
  for (const char* mean : {"blockMomentumPerSync=0", "outerOptimizer=sgd;outerLearningRate=1"}) {
    train(1, mean, in_parallel_block(block_momentum(mean + std::string(";resetSGDMomentum=false"))));
    EXPECT_TRUE(same(mean, "plain")) << mean;
  }
}

// Shares of a minibatch differ, so that ranks come to the end of a period at different places.
TEST_F(Methods, WithoutStalenessAreSynchronous) {
  for (const int ranks : {2, 3, 4})
    for (const char* push : {"syncPeriod=25", "push=gradients", "push=gradients;syncPeriod=25"}) {
      train(ranks, "sync", in_parallel_block(servers(push + std::string(";policy=sync"))) + "\nTrain=[makeMode=false]");
      train(ranks, "none",
            in_parallel_block(servers(push + std::string(";maxStaleness=0"))) + "\nTrain=[makeMode=false]");
      EXPECT_TRUE(same("sync", "none")) << ranks << " " << push;
    }
}

// Sequences of different lengths: the updates at the servers count padding as those of DataParallelSGD do.
TEST_F(Methods, OfServersThatWaitTrainOnSequencesAsDataParallelSgd) {
  write_data(kSequences, 70);
  run(4, config(kSequences, "sums", 30, 2) + in_parallel_block("parallelizationMethod=DataParallelSGD"));
  for (const char* groups : {"", ";groups=n:2"}) {
    run(4, config(kSequences, "served", 30, 2) + in_parallel_block(servers("push=gradients;policy=sync") + groups) +
               "\nTrain=[makeMode=false]");
    EXPECT_LE(distance("sums", "served"), 1e-5) << groups;
  }
}

// P ranks x B/P samples = 1 rank x B, to the last bit: data and rate are such that no sum is rounded.
TEST_F(Methods, ThatSumGradientsAreOneRank) {
  write_whole_numbers(24);
  const std::string exact = R"(
    Train=[ BrainScriptNetworkBuilder = [ x = Input {3} ; y = Input {2} ; m = Input {1}
      W = ParameterTensor {(2:3), init = 'fixedValue', value = 0}
      z = W * x
      error = SquareError (y, z)
      criterionNodes = (error) ; outputNodes = (z) ]
      SGD = [ learningRatesPerMB = 0.25 ; momentumPerMB = 0 ] ]
)";
  run(1, config(kDense, "alone", 8, 1) + exact);
  for (const Method& m : methods())
    for (const int ranks : {1, 2, 3, 4, 5}) {
      if (!m.sums) continue;
      const std::string model = fmt::format("{}-{}", m.name, ranks);
      run(ranks, config(kDense, model, 8, 1) + exact + in_parallel_block(m));
      EXPECT_TRUE(same(model, "alone")) << model;
      expect_trained(model);
    }
}

TEST_F(Methods, ResumeExactly) {
  for (const Method& m : methods()) {
    train(3, m.name, in_parallel_block(m));
    const std::string undisturbed = bytes(m.name);
    forget_after_second_epoch(path(m.name));
    train(3, m.name, in_parallel_block(m));
    EXPECT_FALSE(bytes(m.name).empty());
    EXPECT_TRUE(!m.repeats || bytes(m.name) == undisturbed) << m.name;
  }
}

// Epochs of 35 samples of 70 in file order, a checkpoint after every minibatch of 10. Epoch 2 comes upon a sample that
// makes the network fail; then the file is mended, and the run goes on with the third of its minibatches. `start` is
// where in epoch 2 the ranks start to share.
TEST_F(Methods, ResumeExactlyWithinAnEpoch) {
  for (const Method& m : methods())
    for (const int start : {0, 5}) {
      SCOPED_TRACE(m.name);
      const std::string settings =
          in_parallel_block(m.settings + (start ? ";parallelizationStartEpoch=2;parallelizationStartSample=5" : "")) +
          "\nTrain=[SGD=[epochSize=35;checkpointEverySamples=10];reader=[randomize=false]]";
      const std::string model = fmt::format("{}-{}", m.name, start), stopped = model + "-stopped";
      write_data(kDense, 70);
      run(3, config(kDense, model, 10, 3) + settings);
      write_data(kDense, 70, 60);
      EXPECT_THROW(run(3, config(kDense, stopped, 10, 3) + settings), Error);
      EXPECT_TRUE(fs::exists(path(stopped + ".2.mid")));
      write_data(kDense, 70);
      run(3, config(kDense, stopped, 10, 3) + settings);
      EXPECT_TRUE(!m.repeats || same(model, stopped));
      expect_trained(stopped);
    }
}

// Every 40 samples, exchanges every 80 or later. (tests/end_to_end/resume_test.py kills runs that make checkpoints.)
TEST_F(Methods, ACheckpointWithinAnEpochChangesNothing) {
  for (const Method& m : methods()) {
    if (!m.repeats || m.drains) continue;
    train(3, m.name, in_parallel_block(m));
    train(3, m.name + "-often", in_parallel_block(m) + "\nTrain=[SGD=[checkpointEverySamples=40]]");
    EXPECT_TRUE(same(m.name, m.name + "-often")) << m.name;
  }
}

TEST_F(Methods, SettingsThatMayNotWorkAreWarnedAbout) {
  const std::string block = "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=80;";
  const auto says = [&](const std::string& settings) {
    log::open({path("warnings.log"), false, 0, false});
    train(2, "m", in_parallel_block(settings) + "\nTrain=[makeMode=false]");
    log::close();
    return bytes("warnings.log");
  };
  EXPECT_EQ(says(block + "exchangeBits=1]").find("WARNING"), std::string::npos);
  EXPECT_NE(says(block + "blockLearningRate=3]").find("may overshoot"), std::string::npos);
  EXPECT_NE(says(block + "blockMomentumPerSync=0]").find("blockMomentum equals to zero"), std::string::npos);
  EXPECT_NE(says("parallelizationMethod=EASGD;EASGD=[movingRate=0.7]").find("overshoots the mean"), std::string::npos);
  const std::string late = "parallelizationMethod=ASA;parallelizationStartSample=";
  EXPECT_EQ(says(late + "150").find("StartSample = 150 is more"), std::string::npos);
  EXPECT_NE(says(late + "151").find("StartSample = 151 exceeds the 150 samples"), std::string::npos);
}

TEST_F(Methods, GoOnWithAnotherNumberOfRanks) {
  for (const Method& m : methods())
    for (const auto& [before, after] : {std::pair(3, 2), std::pair(1, 3), std::pair(4, 1)}) {
      const std::string model = fmt::format("{}-{}-{}", m.name, before, after);
      train(before, model, in_parallel_block(m));
      forget_after_second_epoch(path(model));
      train(after, model, in_parallel_block(m));
      expect_trained(model);
    }
}

TEST_F(Methods, StartWarm) {
  train(1, "one", "Train=[SGD=[ParallelTrain=[parallelizationMethod=none]]]");
  for (const Method& m : methods()) {
    if (m.name == "none") continue;
    train(3, m.name, in_parallel_block(m.settings + ";parallelizationStartEpoch=3"));
    EXPECT_TRUE(same(m.name + ".2", "one.2")) << m.name;
    EXPECT_FALSE(same(m.name + ".3", "one.3")) << m.name;
    train(3, m.name + "-end", in_parallel_block(m.settings + ";parallelizationStartSample=150"));
    EXPECT_TRUE(same(m.name + "-end.1", "one.1")) << m.name;
    train(3, m.name + "-never", in_parallel_block(m.settings + ";parallelizationStartEpoch=5"));
    EXPECT_TRUE(same(m.name + "-never", "one")) << m.name;
  }
}

// Servers of groups and servers between them, which begin together.
TEST_F(Methods, AHierarchyStartsWarm) {
  train(1, "one", "Train=[SGD=[ParallelTrain=[parallelizationMethod=none]]]");
  const std::string masters = servers("syncPeriod=20") + ";groups=n:2;insideGroups=[" + servers("syncPeriod=10") + "]";
  train(4, "late", in_parallel_block(masters + ";parallelizationStartEpoch=3"));
  EXPECT_TRUE(same("late.2", "one.2"));
  EXPECT_FALSE(same("late.3", "one.3"));
  train(4, "never", in_parallel_block(masters + ";parallelizationStartEpoch=5"));
  EXPECT_TRUE(same("never", "one"));
  // A run that is stopped before they begin goes on with the weights that it has.
  forget_after_second_epoch(path("late"));
  train(4, "late", in_parallel_block(masters + ";parallelizationStartEpoch=3"));
  expect_trained("late");
}

// Two minibatches alone, the rest together; the run continues behind that place as if it had not been stopped.
TEST_F(Methods, StartWarmWithinAnEpochAndResume) {
  train(3, "epoch", in_parallel_block("parallelizationMethod=ModelAveragingSGD;parallelizationStartEpoch=2"));
  for (const Method& m : methods()) {
    if (m.name == "none") continue;
    const std::string late =
        in_parallel_block(m.settings + ";parallelizationStartEpoch=2;parallelizationStartSample=80");
    train(3, m.name, late);
    const std::string undisturbed = bytes(m.name);
    EXPECT_TRUE(same(m.name + ".1", "epoch.1"));
    EXPECT_FALSE(same(m.name + ".2", "epoch.2"));
    forget_after_second_epoch(path(m.name));
    train(3, m.name, late);
    EXPECT_TRUE(!m.repeats || bytes(m.name) == undisturbed) << m.name;
    train(3, m.name + "-often", late + "\nTrain=[SGD=[checkpointEverySamples=40]]");
    EXPECT_TRUE(!m.repeats || m.drains || bytes(m.name + "-often") == undisturbed) << m.name;
  }
}

// The seed is where every rank starts.
TEST_F(Methods, StartWarmFromASeedModel) {
  write_data(kDense, 70);
  run(1, config(kDense, "seed", 10, 1));
  const std::string load = fmt::format("Train=[BrainScriptNetworkBuilder=(BS.Network.Load (\"{}\"))]\n", path("seed"));
  for (const Method& m : methods()) {
    run(3, config(kDense, m.name, 10, 2) + load + in_parallel_block(m));
    EXPECT_TRUE(same(m.name + ".0", "seed")) << m.name;
    expect_trained(m.name);
  }
}

TEST_F(Methods, WorkWithMoreRanksThanSamples) {
  const std::string tiny = "Train=[SGD=[minibatchSize=4;epochSize=10;dropoutRate=0];reader=[samples=10]]";
  for (const Method& m : methods()) {
    train(5, m.name, in_parallel_block(m) + "\n" + tiny);
    EXPECT_FALSE(bytes(m.name).empty()) << m.name;
  }
}

}  // namespace
}  // namespace tutti::actions::parallel_methods_test

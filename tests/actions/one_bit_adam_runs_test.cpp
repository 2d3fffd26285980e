// SPDX-License-Identifier: Apache-2.0
// Whole trainings with gradUpdateType = oneBitAdam: what they equal, how they resume, and what is refused.
#include "text_run.h"

namespace tutti::actions::one_bit_adam_runs_test {
namespace {

class OneBitAdamRuns : public TextRun {
 protected:
  static std::string settings(const std::string& rule, const std::string& parallel) {
    return "Train=[SGD=[learningRatesPerMB=0.01;" + rule + ";ParallelTrain=[" + parallel + "]]]";
  }
  static std::string one_bit(int warmup) { return fmt::format("gradUpdateType=oneBitAdam;warmupSamples={}", warmup); }
  static std::string in_bits(int bits) {
    return fmt::format("parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits={}]", bits);
  }
  bool same(const std::string& a, const std::string& b) const { return bytes(a) == bytes(b); }
  std::string refused(const std::string& settings) const {
    try {
      train(2, "refused", settings);
    } catch (const ConfigError& e) {
      EXPECT_FALSE(fs::exists(path("refused.0"))) << "it has been started";
      return e.what();
    }
    return "not refused";
  }
};

TEST_F(OneBitAdamRuns, EqualAdamWhileTheyWarmUp) {
  for (const int ranks : {1, 2, 3, 4}) {
    const std::string adam = fmt::format("adam-{}", ranks), warm = fmt::format("warm-{}", ranks);
    train(ranks, adam, settings("gradUpdateType=adam", in_bits(32)));
    train(ranks, warm, settings(one_bit(100000), in_bits(1)));
    EXPECT_TRUE(same(adam, warm)) << ranks;
    train(ranks, warm + "-short", settings(one_bit(200), in_bits(1)));
    EXPECT_FALSE(same(adam, warm + "-short")) << ranks;
  }
}

// Four epochs of 150 samples; the second ends before, at and after the end of the warm-up.
TEST_F(OneBitAdamRuns, ResumeExactly) {
  for (const int warmup : {450, 300, 200}) {
    const std::string model = fmt::format("resumed-{}", warmup);
    for (const std::string& more : {std::string(), std::string("\nTrain=[SGD=[checkpointEverySamples=40]]")}) {
      train(3, model, settings(one_bit(warmup), in_bits(1)) + more + "\nTrain=[makeMode=false]");
      const std::string undisturbed = bytes(model);
      forget_after_second_epoch(path(model));
      train(3, model, settings(one_bit(warmup), in_bits(1)) + more);
      EXPECT_EQ(bytes(model), undisturbed) << warmup;
    }
  }
}

TEST_F(OneBitAdamRuns, GoOnWithAnotherNumberOfRanks) {
  for (const auto& [before, after] : {std::pair(3, 2), std::pair(1, 3), std::pair(4, 1)}) {
    const std::string model = fmt::format("ranks-{}-{}", before, after);
    train(before, model, settings(one_bit(200), in_bits(1)));
    forget_after_second_epoch(path(model));
    train(after, model, settings(one_bit(200), in_bits(1)));
    EXPECT_FALSE(same(model, model + ".2"));
  }
}

TEST_F(OneBitAdamRuns, LearnFromDenseAndSparseInputsAndSequences) {
  for (const Kind& kind : {kDense, kSparse, kSequences})
    for (const int ranks : {1, 3}) {
      write_data(kind, 70);
      const std::string model = fmt::format("{}-{}", kind.name, ranks);
      run(ranks, config(kind, model, 10, 4) + settings(one_bit(70), in_bits(1)));
      const std::string twice = bytes(model);
      run(ranks, config(kind, model, 10, 4) + settings(one_bit(70), in_bits(1)) + "\nTrain=[makeMode=false]");
      EXPECT_EQ(bytes(model), twice);
      run(ranks, config(kind, model + "-adam", 10, 4) + settings("gradUpdateType=adam", in_bits(32)));
      // Of sequences the gaps of packing count, too: there the warm-up may end within the first epoch.
      if (!kind.sequences) {
        EXPECT_TRUE(same(model + ".1", model + "-adam.1")) << model;
      }
      EXPECT_FALSE(same(model, model + "-adam")) << model;
      EXPECT_FALSE(same(model, model + ".1")) << model;
    }
}

// All ranks alone, the warm-up ending meanwhile; then together.
TEST_F(OneBitAdamRuns, StartWarm) {
  const std::string alone = settings(one_bit(200), "parallelizationMethod=none");
  train(1, "one", alone);
  train(3, "late", settings(one_bit(200), in_bits(1) + ";parallelizationStartEpoch=3"));
  EXPECT_TRUE(same("one.2", "late.2"));
  EXPECT_FALSE(same("one.3", "late.3"));
}

TEST_F(OneBitAdamRuns, ResumeExactlyInGroups) {
  const std::string grouped = settings(one_bit(300), in_bits(1) + ";groups=size:2");
  train(3, "grouped", grouped);
  const std::string undisturbed = bytes("grouped");
  forget_after_second_epoch(path("grouped"));
  train(3, "grouped", grouped);
  EXPECT_EQ(bytes("grouped"), undisturbed);
}

TEST_F(OneBitAdamRuns, WhatDoesNotGoTogetherIsRefusedAtOnce) {
  const auto says = [&](const std::string& settings, const char* what) {
    const std::string text = refused(settings);
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  const std::string rule = one_bit(200);
  for (const char* method :
       {"parallelizationMethod=ModelAveragingSGD", "parallelizationMethod=EASGD",
        "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=80]", "parallelizationMethod=ASGD",
        "parallelizationMethod=ASA;ASA=[exchange=weights]", "parallelizationMethod=ASA;ASA=[allReduce=library]",
        "parallelizationMethod=DataParallelSGD;DataParallelSGD=["
        "useBufferedAsyncGradientAggregation=true]",
        "parallelizationMethod=DataParallelSGD;groups=size:1;DataParallelSGD=["
        "useBufferedAsyncGradientAggregation=true]",
        "parallelizationMethod=ModelAveragingSGD;groups=size:1"})
    says(settings(rule, method), "needs an exchange that sums over all ranks");
  says(settings(rule + ";clippingThresholdPerSample=1", in_bits(1)), "cannot clip");
  says(settings("gradUpdateType=oneBitAdam", in_bits(1)), "needs warmupSamples");
  says(settings(one_bit(0), in_bits(1)), "at least 1");
  says(settings("gradUpdateType=adam;warmupSamples=5", in_bits(1)),
       "has an effect with gradUpdateType = oneBitAdam only");
}

}  // namespace
}  // namespace tutti::actions::one_bit_adam_runs_test

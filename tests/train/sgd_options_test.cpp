// SPDX-License-Identifier: Apache-2.0
#include "train/sgd_options.h"

#include <fmt/format.h>
#include <fmt/printf.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>

#include "config/load.h"

namespace tutti::sgd_options_test {
namespace {

struct Result {
  SgdOptions options;
  std::string problems;
  std::vector<std::string> notices;
};

Result read(const std::string& text, const std::string& outside = "") {
  Result r;
  Problems problems;
  config::Notices notices;
  const auto record = config::record_from_text(outside + "SGD = [\n" + text + "\n]", "a.cntk");
  r.options = read_sgd_options(record.block("SGD"), problems, notices);
  r.notices = notices.lines;
  try {
    problems.throw_if_any();
  } catch (const ConfigError& e) {
    for (const Diagnostic& d : e.diagnostics()) r.problems += d.message + "\n";
  }
  return r;
}

TEST(SgdOptions, DefaultsAreTheOriginals) {
  const Result r = read("maxEpochs = 3\nlearningRatesPerMB = 0.1");
  EXPECT_EQ(r.problems, "");
  EXPECT_TRUE(r.notices.empty());
  EXPECT_EQ(r.options.minibatch_size.at(0), 256);
  EXPECT_EQ(r.options.momentum_per_mb.at(0), 0.9);
  EXPECT_EQ(r.options.num_mbs_to_show_result, 10);
  EXPECT_TRUE(r.options.optimizer.momentum);
  EXPECT_EQ(r.options.optimizer.min_learning_rate, 1e-9);
  EXPECT_EQ(r.options.optimizer.rule, UpdateRule::sgd);
  EXPECT_TRUE(std::isinf(r.options.optimizer.clipping_per_sample));
}

TEST(SgdOptions, RatesAreSinglePrecisionAndTheLastOneRepeats) {
  const Result r = read("maxEpochs = 3\nminibatchSize = 25:50\nlearningRatesPerMB = 0.2:0.1");
  EXPECT_EQ(fmt::sprintf("%.8g", r.options.learning_rate_per_sample(0)), "0.0080000004");
  EXPECT_EQ(r.options.learning_rate_per_sample(1), 0.1f / 50.0f);
  EXPECT_EQ(r.options.learning_rate_per_sample(9), 0.1f / 50.0f);
  EXPECT_EQ(read("maxEpochs=1\nlearningRatesPerSample = 0.3").options.learning_rate_per_sample(0),
            static_cast<double>(0.3f));
}

TEST(SgdOptions, MomentaAreRoundedBeforeAnyPower) {
  const Result mb = read("maxEpochs = 3\nlearningRatesPerMB = 1\nminibatchSize = 100\nmomentumPerMB = 0.9");
  EXPECT_EQ(mb.options.momentum_per_sample(0), std::pow(static_cast<double>(0.9f), 0.01));
  EXPECT_NEAR(std::pow(mb.options.momentum_per_sample(0), 100), 0.9f, 1e-12);
  EXPECT_EQ(fmt::sprintf("%.1f", mb.options.momentum_time_constant(0)), "949.1");
  const Result tc = read("maxEpochs = 3\nlearningRatesPerMB = 1\nmomentumAsTimeConstant = 2500:0");
  EXPECT_EQ(tc.options.momentum_per_sample(0), static_cast<double>(static_cast<float>(std::exp(-1 / 2500.0))));
  EXPECT_EQ(tc.options.momentum_per_sample(1), 0);
  EXPECT_EQ(tc.options.momentum_time_constant(1), 0);
  EXPECT_TRUE(tc.options.optimizer.momentum);
  EXPECT_FALSE(read("maxEpochs=1\nlearningRatesPerMB=1\nmomentumAsTimeConstant=0*3:0").options.optimizer.momentum);
  EXPECT_FALSE(read("maxEpochs=1\nlearningRatesPerMB=1\nmomentumPerMB=0").options.optimizer.momentum);
  const Result ps = read("maxEpochs = 3\nlearningRatesPerMB = 1\nmomentumPerSample = 0.999");
  EXPECT_EQ(ps.options.momentum_per_sample(5), static_cast<double>(0.999f));
}

TEST(SgdOptions, UpdateRulesByName) {
  const auto rule = [](const std::string& name) {
    const Result r = read("maxEpochs=1\nlearningRatesPerMB=1\ngradUpdateType=" + name);
    EXPECT_EQ(r.problems, "") << name;
    return r.options.optimizer.rule;
  };
  EXPECT_EQ(rule("none"), UpdateRule::sgd);
  EXPECT_EQ(rule("Simple"), UpdateRule::sgd);
  EXPECT_EQ(rule("adaGrad"), UpdateRule::adagrad);
  EXPECT_EQ(rule("FSAdagrad"), UpdateRule::fs_adagrad);
  EXPECT_EQ(rule("rmsprop"), UpdateRule::rms_prop);
  EXPECT_EQ(rule("adam"), UpdateRule::adam);
  EXPECT_EQ(rule("rmsPropTextbook"), UpdateRule::rms_prop_textbook);
}

TEST(SgdOptions, NormalizationTimeConstantsCountFromTheFirstThatIsNotZero) {
  const Result r = read(
      "maxEpochs = 5\nlearningRatesPerMB = 0.1\nbatchNormalizationTimeConstant = 0*2:100:0\n"
      "batchNormalizationBlendTimeConstant = 0:1#INF\ndisableRegInBatchNormalization = true");
  EXPECT_EQ(r.problems, "");
  EXPECT_TRUE(r.notices.empty());
  EXPECT_TRUE(r.options.no_regularization_in_normalization);
  EXPECT_TRUE(read("maxEpochs = 5\nlearningRatesPerMB = 0.1\ndisableWkInBatchNormal = true")
                  .options.no_regularization_in_normalization);
  const auto constant = [&](std::size_t epoch) {
    return SgdOptions::once_set(r.options.normalization_time_constant, epoch);
  };
  EXPECT_EQ(constant(0), std::nullopt);
  EXPECT_EQ(constant(1), std::nullopt);
  EXPECT_EQ(constant(2), 100);
  EXPECT_EQ(constant(3), 0);
  EXPECT_EQ(constant(9), 0);
  EXPECT_EQ(SgdOptions::once_set(r.options.normalization_blend_time_constant, 1),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(SgdOptions::once_set(0.0, 7), std::nullopt);
}

TEST(SgdOptions, BrokenRulesAreNamedTogether) {
  const std::string ok = "maxEpochs=2\nlearningRatesPerMB=1\n";
  const auto problem = [&](const std::string& text) { return read(ok + text).problems; };
  EXPECT_EQ(read("learningRatesPerMB=1").problems, "SGD needs 'maxEpochs'\n");
  EXPECT_EQ(read("maxEpochs=2").problems, "no learning rate is given\n");
  EXPECT_EQ(problem("learningRatesPerSample=1"), "both learningRatesPerMB and learningRatesPerSample are given\n");
  EXPECT_EQ(problem("momentumPerMB=0.9\nmomentumAsTimeConstant=100"),
            "both momentumPerMB and momentumAsTimeConstant are given\n");
  EXPECT_EQ(problem("momentumPerMB=0.9:1"), "momentum must lie in [0, 1)\n");
  EXPECT_EQ(problem("momentumPerSample=-0.1"), "momentum must lie in [0, 1)\n");
  EXPECT_NE(problem("momentumAsTimeConstant=-3"), "");
  EXPECT_NE(problem("momentumAsTimeConstant=inf"), "");
  EXPECT_EQ(problem("dropoutRate=0.5:1"), "dropoutRate must lie in [0, 1)\n");
  EXPECT_EQ(read("maxEpochs=2\nlearningRatesPerMB=()").problems, "no learning rate is given\n");
  EXPECT_EQ(read("maxEpochs=2\nlearningRatesPerSample=\"\"").problems, "no learning rate is given\n");
  EXPECT_EQ(read("maxEpochs=2\nlearningRatesPerSample=x").problems,
            "'learningRatesPerSample' takes a number, not 'x'\n");
  for (const char* key : {"minibatchSize", "momentumPerMB", "dropoutRate", "batchNormalizationTimeConstant",
                          "batchNormalizationBlendTimeConstant"})
    EXPECT_EQ(problem(std::string(key) + "=()"), "'" + std::string(key) + "' has no elements\n");
  EXPECT_EQ(problem("minibatchSize=0"), "minibatchSize must be at least 1\n");
  EXPECT_EQ(problem("minibatchSize=4:9223372036854775807"), "minibatchSize must be at most 2147483647\n");
  EXPECT_EQ(problem("epochSize=9223372036854775807"), "epochSize must be at most 1000000000000000\n");
  EXPECT_EQ(read("maxEpochs=9223372036854775807\nlearningRatesPerMB=1").problems,
            "maxEpochs must be at most 1000000000\n");
  EXPECT_EQ(problem("epochSize=100"),
            "epochSize 100 is smaller than minibatchSize 256: epoch size must be larger than mbsize.\n");
  EXPECT_EQ(problem("L2RegWeight=-1\nclippingThresholdPerSample=0"),
            "L2RegWeight must not be negative\nclippingThresholdPerSample must be positive\n");
  EXPECT_EQ(problem("checkpointEverySamples=-1"), "checkpointEverySamples must be at least 0\n");
  EXPECT_EQ(problem("truncated=true;checkpointEverySamples=9"),
            "a checkpoint within an epoch does not hold the states of truncated sequences, so it could not be "
            "resumed\n");
  const auto parallel = [](const std::string& start) {
    return "truncated=true;ParallelTrain=[ parallelizationMethod=DataParallelSGD; " + start + " ]";
  };
  EXPECT_EQ(problem(parallel("parallelizationStartSample=9")),
            "parallelizationStartSample divides the data anew within an epoch, where truncated sequences would lose "
            "their states\n");
  EXPECT_EQ(problem(parallel("parallelizationStartEpoch=2")), "");
  EXPECT_EQ(problem("AutoAdjust=[ autoAdjustLR=adjustAfterEpoch; autoAdjustMinibatch=true ]"), "");
  EXPECT_EQ(problem("AutoAdjust=[ learnRateDecreaseFactor=1.5; learnRateIncreaseFactor=0.5 ]"),
            "learnRateDecreaseFactor must lie above 0, up to 1\nlearnRateIncreaseFactor must be 1 or more\n");
  EXPECT_EQ(problem("AutoAdjust=[ autoAdjustLR=adjustAfterEpoch; learnRateDecreaseFactor=1 ]"),
            "with loadBestModel = true, learnRateDecreaseFactor = 1 repeats an epoch that is no better for ever\n");
  for (const std::string ends : {"loadBestModel=false", "continueReduce=true"})
    EXPECT_EQ(problem("AutoAdjust=[ autoAdjustLR=adjustAfterEpoch; learnRateDecreaseFactor=1; " + ends + " ]"), "");
  EXPECT_EQ(problem("AutoAdjust=[ learnRateAdjustInterval=0 ]"), "learnRateAdjustInterval must be at least 1 epoch\n");
  EXPECT_EQ(problem("AutoAdjust=[ numSamples4Search=100; numMiniBatch4LRSearch=2 ]"),
            "both numSamples4Search and numMiniBatch4LRSearch are given\n");
  EXPECT_EQ(problem("learningRatePerMB=1"), "SGD has no 'learningRatePerMB'\n");
  EXPECT_EQ(problem("beta1=1"), "beta1 must lie in [0, 1)\n");
}

TEST(SgdOptions, WhatBelongsToAutoAdjustMayStandOutside) {
  const std::string ok = "maxEpochs=2\nlearningRatesPerMB=0.5:0.25:\n";
  const Result alone = read(ok + "loadBestModel=false\nperfTraceLevel=1");
  EXPECT_EQ(alone.problems, "");
  EXPECT_EQ(alone.options.learning_rates_per_mb.values, (std::vector<double>{0.5, 0.25})) << "a ':' at the end";
  ASSERT_EQ(alone.notices.size(), 2u);
  EXPECT_NE(alone.notices[0].find("'perfTraceLevel' in SGD has no effect"), std::string::npos);
  EXPECT_NE(alone.notices[1].find("'loadBestModel' in SGD has no effect here because there is no block AutoAdjust"),
            std::string::npos);
  const Result both = read(ok + "loadBestModel=false\nAutoAdjust=[ autoAdjustLR=adjustAfterEpoch ]");
  EXPECT_TRUE(both.notices.empty());
  EXPECT_FALSE(both.options.auto_adjust->load_best_model);
  EXPECT_EQ(read(ok + "loadBestModle=false").problems, "SGD has no 'loadBestModle'\n");
}

TEST(SgdOptions, TheModelPathMayStandInside) {
  const std::string ok = "maxEpochs=2\nlearningRatesPerMB=1\n";
  EXPECT_EQ(read(ok, "modelPath=outer\n").options.model_path, "outer");
  EXPECT_EQ(read(ok + "modelPath=inner", "modelPath=outer\n").options.model_path, "inner");
}

TEST(SgdOptions, TheParallelBlockIsReadInPlace) {
  const std::string ok = "maxEpochs=2\nlearningRatesPerMB=1\n";
  const Result r = read(ok +
                        "ParallelTrain=[ parallelizationMethod=DataParallelSGD; parallelizationStartEpoch=2\n"
                        "DataParallelSGD=[ gradientBits=32:1 ] ]");
  EXPECT_EQ(r.problems, "");
  EXPECT_TRUE(std::holds_alternative<DataParallelOptions>(r.options.parallel.method));
  EXPECT_EQ(r.options.parallel.start_epoch, 2);
  EXPECT_EQ(std::get<DataParallelOptions>(r.options.parallel.method).gradient_bits.at(5), 1);
  const std::string wide = "ParallelTrain=[ DataParallelSGD=[ gradientBits=64 ] ]\n";
  EXPECT_NE(read(ok + wide).problems, "");
  EXPECT_EQ(read(ok + wide, "precision=\"Double\"\n").problems, "");
}

TEST(SgdOptions, HelpAndDumpShowEveryKey) {
  SgdOptions o;
  const auto describe = [&](config::Fields& f) { o.describe(f); };
  for (const std::string& text : {config::help_fields("SGD", describe), config::dump_fields("SGD", describe)})
    for (const char* key : {"maxEpochs", "gradUpdateType", "checkpointEverySamples", "beta1", "ParallelTrain"})
      EXPECT_NE(text.find(key), std::string::npos) << key << " in\n" << text;
}

TEST(SgdOptions, KeysWithoutEffectAreAcceptedAndSaidOnce) {
  const Result r = read("maxEpochs=2\nlearningRatesPerMB=1\nunroll=false\nhsmoothingWeight=0.9");
  EXPECT_EQ(r.problems, "");
  EXPECT_EQ(r.notices.size(), 2u);
}

TEST(SgdOptions, SettingsThatOthersLeaveWithoutEffectAreNamed) {
  const std::string ok = "maxEpochs=2\nlearningRatesPerMB=1\n";
  const auto notices = [&](const std::string& text, const std::string& outside = "") {
    const Result r = read(ok + text, outside);
    EXPECT_EQ(r.problems, "") << text;
    return fmt::format("{}", fmt::join(r.notices, "\n"));
  };
  EXPECT_EQ(notices("beta1=0.8"), "'beta1' in SGD has no effect with gradUpdateType = none");
  EXPECT_EQ(notices("gradUpdateType=adam\nmomentumPerMB=0.9\nuseNAG=true\nbeta1=0.8"),
            "'momentumPerMB' in SGD has no effect with gradUpdateType = adam\n"
            "'useNAG' in SGD has no effect with gradUpdateType = adam");
  EXPECT_EQ(notices("gradUpdateType=adam\nmomentumPerMB=0\nuseNAG=false"), "");
  EXPECT_EQ(notices("gradUpdateType=fsAdagrad\nmomentumPerMB=0.9\nvarianceTimeConstant=1000"), "");
  EXPECT_EQ(notices("gradUpdateType=adam", "useNAG=true\nmomentumPerMB=0.5\n"), "") << "not of the block itself";
  EXPECT_EQ(notices("maxRewinds=2"), "'maxRewinds' in SGD has no effect without onNaN = rewind");
  EXPECT_EQ(notices("maxRewinds=2\nnanRateFactor=0.1\nonNaN=rewind"), "");
  const std::string truncation = "'gradientClippingWithTruncation' in SGD has no effect ";
  EXPECT_EQ(notices("gradientClippingWithTruncation=false"), truncation + "without clippingThresholdPerSample");
  EXPECT_EQ(notices("gradientClippingWithTruncation=false\nclippingGlobalNormPerSample=1"),
            truncation + "with clippingGlobalNormPerSample");
  EXPECT_EQ(notices("gradientClippingWithTruncation=false\nclippingThresholdPerSample=1"), "");
  EXPECT_EQ(notices("gradientClippingWithTruncation=true"), "");
  EXPECT_EQ(notices("sigFigs=4"), "'sigFigs' in SGD has no effect without gradientcheck = true");
  EXPECT_EQ(notices("sigFigs=4\ngradientcheck=true"), "");
  EXPECT_EQ(notices("stallTimeout=20"), "");
  EXPECT_EQ(notices("stallTimeout=20\nstallWarning=60"),
            "'stallWarning' in SGD has no effect because stallTimeout = 20 ends the run before");
}

}  // namespace
}  // namespace tutti::sgd_options_test

// SPDX-License-Identifier: Apache-2.0
// Whole trainings with AdamW, LAMB, LARS and clipping by the global norm: ranks together are one rank, runs resume
// exactly under every method, and what does not work is refused before the start.
#include "method_table.h"
#include "text_run.h"

namespace tutti::actions::optimizer_runs_test {
namespace {

struct RuleSettings {
  const char *name, *settings;
};
// With an epsilon that hides the order of sums.
constexpr RuleSettings kRules[] = {
    {"adamW", "gradUpdateType=adamW;weightDecay=0.1;epsilon=0.01"},
    {"lamb", "gradUpdateType=lamb;weightDecay=0.01;epsilon=0.01"},
    {"lars", "gradUpdateType=lars;weightDecay=0.001;trustCoefficient=0.5"},
    {"global", "clippingGlobalNormPerSample=0.05"},
};
constexpr const char* kBroken = "clippingGlobalNormPerSample does not work where servers apply gradients";

std::string in_sgd(const std::string& settings) { return "\nTrain=[SGD=[" + settings + "]]"; }
bool updates_at_servers(const Method& m) { return m.settings.find("push=gradients") != std::string::npos; }

class OptimizerRuns : public TextRun {
 protected:
  bool same(const std::string& a, const std::string& b) const { return bytes(a) == bytes(b); }
  std::string refused(int ranks, const std::string& settings) {
    write_data(kDense, 33);
    try {
      run(ranks, config(kDense, "refused", 8, 1) + settings);
    } catch (const ConfigError& e) {
      EXPECT_FALSE(fs::exists(path("refused.0"))) << "it has been started";
      return e.what();
    }
    return "not refused";
  }
};

// 33 samples in minibatches of 8: the last one leaves some ranks without samples.
TEST_F(OptimizerRuns, RanksTogetherAreOneRank) {
  for (const Kind& kind : {kDense, kSparse})
    for (const RuleSettings& rule : kRules) {
      SCOPED_TRACE(std::string(kind.name) + ", " + rule.name);
      write_data(kind, 33);
      run(1, config(kind, "one", 8, 3) + in_sgd(rule.settings) + "\nTrain=[makeMode=false]");
      EXPECT_GT(distance("one", "one.0"), 2e-3) << "nothing was learned";
      for (const Method& m : methods()) {
        const bool at_servers = m.name == "servers-sync" && rule.name != std::string("global");
        if (!m.sums && !at_servers) continue;
        for (const int ranks : {2, 3}) {
          run(ranks, config(kind, "several", 8, 3) + in_sgd(rule.settings) + "\n" + in_parallel_block(m) +
                         "\nTrain=[makeMode=false]");
          EXPECT_LE(distance("one", "several"), 2e-5) << m.name << ' ' << ranks;
        }
      }
    }
}

// As Methods.ResumeExactlyWithinAnEpoch: a sample that makes the network fail ends the run; then the file is mended.
TEST_F(OptimizerRuns, ResumeExactlyUnderEveryMethod) {
  for (const RuleSettings& rule : kRules)
    for (const Method& m : methods()) {
      SCOPED_TRACE(std::string(rule.name) + ", " + m.name);
      const std::string settings =
          in_sgd(rule.settings) + "\n" + in_parallel_block(m.settings) +
          "\nTrain=[SGD=[epochSize=35;checkpointEverySamples=10];reader=[randomize=false]]";
      const std::string model = m.name + "-" + rule.name, stopped = model + "-stopped";
      if (rule.name == std::string("global") && updates_at_servers(m)) {
        EXPECT_NE(refused(3, settings).find(kBroken), std::string::npos);
        continue;
      }
      write_data(kDense, 70);
      run(3, config(kDense, model, 10, 3) + settings);
      write_data(kDense, 70, 60);
      EXPECT_THROW(run(3, config(kDense, stopped, 10, 3) + settings), Error);
      EXPECT_TRUE(fs::exists(path(stopped + ".2.mid")));
      write_data(kDense, 70);
      run(3, config(kDense, stopped, 10, 3) + settings);
      EXPECT_TRUE(!m.repeats || same(model, stopped));
      EXPECT_FALSE(same(model, model + ".0"));
    }
}

TEST_F(OptimizerRuns, WhatDoesNotGoTogetherIsRefusedAtOnce) {
  const auto says = [&](const std::string& settings, const char* what) {
    const std::string text = refused(3, in_sgd(settings));
    EXPECT_NE(text.find(what), std::string::npos) << settings << '\n' << text;
  };
  const std::string sums = ";ParallelTrain=[parallelizationMethod=DataParallelSGD]";
  const std::string global = kRules[3].settings;
  says(global + ";shardOptimizer=true" + sums, "needs the gradients of all parameters");
  says(global + ";ParallelTrain=[parallelizationMethod=ASGD;groups=size:2;DataParallelASGD=[push=gradients]]", kBroken);
  says(global + ";gradUpdateType=oneBitAdam;warmupSamples=10" + sums, "cannot clip");
  says(global + ";clippingThresholdPerSample=1", "both clippingThresholdPerSample and clippingGlobalNormPerSample");
  says("clippingGlobalNormPerSample=0", "must be positive");
  says("gradUpdateType=lamb", "need weightDecay");
  says("gradUpdateType=lars;weightDecay=-1", "weightDecay must be a number, 0 or more");
  says("gradUpdateType=adam;weightDecay=0.1", "weightDecay has an effect with gradUpdateType = adamW, lamb or lars");
  says("gradUpdateType=lamb;weightDecay=0;trustCoefficient=1", "trustCoefficient has an effect with");
}

}  // namespace
}  // namespace tutti::actions::optimizer_runs_test

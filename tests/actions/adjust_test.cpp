// SPDX-License-Identifier: Apache-2.0
// Rates and minibatch sizes that adjust themselves, under every method of exchange: what a run has found, written down
// as a schedule, trains to the same bytes. So nothing of the epochs that were taken back and of the trials remains.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <regex>

#include "method_table.h"

namespace tutti::actions::adjust_test {
namespace {

using testing::HasSubstr;

std::string adjust(const std::string& settings) { return "\nTrain=[SGD=[AutoAdjust=[" + settings + "]]]"; }

class Adjust : public TrainRun {
 protected:
  std::string train_logged(int ranks, const std::string& model, const std::string& settings) const {
    log::close();
    log::open({path(model + ".log"), false, 0, false});
    train(ranks, model, settings);
    log::close();
    log::open({path("log"), false, 0, false});
    return bytes(model + ".log");
  }

  // Values of `what` in the last line of each epoch, from 1.
  static std::map<int, double> by_epoch(const std::string& text, const std::string& line, const std::string& what) {
    std::map<int, double> found;
    const std::regex pattern(line + R"([^\n]*\b)" + what + R"( ?=? ?(is )?([-+.e0-9]+))");
    for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i)
      found[std::stoi((*i)[1])] = std::stod((*i)[3]);
    return found;
  }
  static std::map<int, double> rates(const std::string& text) {
    return by_epoch(text, R"(Finished Epoch\[ *(\d+) of)", "learningRatePerSample");
  }
  static int lines(const std::string& text, const std::string& what) {
    int n = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  }
  // Ranks that are threads all write into one log.
  static int count(const std::string& text, const std::string& what) {
    return lines(text, what) / lines(text, "Training criterion:");
  }
};

// A rate so high that epochs get worse: they are taken back and tried again with half of it.
TEST_F(Adjust, AfterEpochsTakesBackWhatGotWorse) {
  const double first = 3.2;
  int taken_back = 0, compared = 0;
  for (const auto& [name, settings] : exact_methods()) {
    const std::string block = in_parallel_block(settings) + "\nTrain=[SGD=[dropoutRate=0;momentumPerMB=0]]";
    const std::string text = train_logged(3, name,
                                          block + fmt::format("\nTrain=[SGD=[learningRatesPerMB={}]]", first) +
                                              adjust("autoAdjustLR=adjustAfterEpoch;learnRateDecreaseFactor=0.5"));
    std::string schedule;
    for (const auto& [epoch, rate] : rates(text)) {
      const double halvings = std::round(std::log2(first / 40 / rate));
      schedule += fmt::format("{}{}", schedule.empty() ? "" : ":", std::ldexp(first, -static_cast<int>(halvings)));
    }
    const int back = count(text, "Loading (rolling back to) previous model");
    taken_back += back;
    EXPECT_EQ(back, count(text, "SGD: revoke back to"));
    EXPECT_FALSE(bytes(name).empty());
    if (count(text, "Training complete.") > 0) continue;  // no rate was small enough
    EXPECT_EQ(count(text, "Finished Epoch["), 4 + back) << name << text;
    train(3, name + "-schedule", block + "\nTrain=[SGD=[learningRatesPerMB=" + schedule + "]]");
    EXPECT_TRUE(bytes(name) == bytes(name + "-schedule")) << name << " " << schedule;
    ++compared;
  }
  EXPECT_GT(taken_back, 0);
  EXPECT_GT(compared, 4);
}

// Every judgement makes the rate absurd, the epoch after it comes to no numbers and is taken back: each epoch but the
// listed one and the one after it is trained twice.
const char* const kAbsurd =
    "autoAdjustLR=adjustAfterEpoch;increaseLearnRateIfImproveMoreThan=-100;reduceLearnRateIfImproveLessThan=-100;"
    "learnRateIncreaseFactor=1e30;learnRateDecreaseFactor=1e-30";
const char* const kCalm = "\nTrain=[SGD=[learningRatesPerMB=0.05;dropoutRate=0;momentumPerMB=0]]";

TEST_F(Adjust, AfterEpochsBearsNumbersThatAreNone) {
  for (const auto& [name, settings] : exact_methods()) {
    const std::string text = train_logged(2, name, in_parallel_block(settings) + kCalm + adjust(kAbsurd));
    EXPECT_EQ(count(text, "rolling back"), 2) << name << text;
    EXPECT_EQ(count(text, "Finished Epoch[ 2 of 4]"), 1);
    EXPECT_EQ(count(text, "Finished Epoch[ 3 of 4]"), 2);
    EXPECT_EQ(count(text, "Finished Epoch[ 4 of 4]"), 2);
    EXPECT_FALSE(bytes(name).empty());
  }
}

TEST_F(Adjust, IntervalsAreTakenBackAsAWhole) {
  const std::string text = train_logged(
      2, "m",
      std::string(kCalm) + "\nTrain=[SGD=[maxEpochs=9]]" + adjust(kAbsurd + std::string(";learnRateAdjustInterval=3")));
  EXPECT_EQ(count(text, "rolling back"), 1) << text;
  EXPECT_THAT(text, HasSubstr("revoke back to and update checkpoint file for epoch 6\n"));
  EXPECT_EQ(count(text, "Finished Epoch[ 6 of 9]"), 1);
  for (const int epoch : {7, 8, 9}) EXPECT_EQ(count(text, fmt::format("Finished Epoch[ {} of 9]", epoch)), 2);
}

// The rate is one per sample: a larger minibatch does not lower it, as it would a listed rate per minibatch.
TEST_F(Adjust, TheRateGoesOnBehindTheList) {
  const std::string text = train_logged(
      2, "m",
      "Train=[SGD=[learningRatesPerMB=0.2:0.4;minibatchSize=40:50:80]]" +
          adjust("autoAdjustLR=afterEpoch;reduceLearnRateIfImproveLessThan=-100;learnRateAdjustInterval=3"));
  const auto near = [](double rate) { return testing::DoubleNear(rate, 1e-8); };
  EXPECT_THAT(rates(text), testing::ElementsAre(testing::Pair(1, near(0.005)), testing::Pair(2, near(0.008)),
                                                testing::Pair(3, near(0.008)), testing::Pair(4, near(0.008))));
}

TEST_F(Adjust, ContinueReduceEndsTheTrainingTheSecondTime) {
  const std::string text =
      train_logged(2, "m",
                   "Train=[SGD=[maxEpochs=20]]" + adjust("autoAdjustLR=adjustAfterEpoch;continueReduce=true;"
                                                         "reduceLearnRateIfImproveLessThan=0.9;loadBestModel=false"));
  EXPECT_THAT(text, HasSubstr("learnRatePerSample reduced to"));
  EXPECT_THAT(text, HasSubstr("Finished training and saved final model"));
  EXPECT_LT(count(text, "Finished Epoch["), 20);
  EXPECT_FALSE(bytes("m").empty());
}

TEST_F(Adjust, IncreasesAndEndsBelowTheLeastRate) {
  const std::string up =
      train_logged(1, "up", adjust("autoAdjustLR=adjustAfterEpoch;increaseLearnRateIfImproveMoreThan=0"));
  EXPECT_THAT(up, HasSubstr("learnRatePerSample increased to"));
  const std::string down =
      train_logged(2, "down",
                   "Train=[SGD=[minLearningRatePerSample=0.001;maxEpochs=30]]" +
                       adjust("autoAdjustLR=adjustAfterEpoch;reduceLearnRateIfImproveLessThan=0.9"));
  EXPECT_THAT(down, HasSubstr("is less than minLearningRatePerSample"));
  EXPECT_FALSE(bytes("down").empty()) << "the final model is written";
}

// The found rates as a schedule; the trials have left nothing behind.
TEST_F(Adjust, SearchedRatesTrainLikeASchedule) {
  for (const auto& [name, settings] : exact_methods()) {
    const std::string block = in_parallel_block(settings);
    const std::string text =
        train_logged(2, name,
                     block + adjust("autoAdjustLR=searchBeforeEpoch;numSamples4Search=100;numBestSearchEpoch=2") +
                         "\nTrain=[traceLevel=1;SGD=[numMBsToShowResult=1]]");
    const auto found = by_epoch(text, R"(SearchForBestLearnRate Epoch\[(\d+)\]: Best)", "learningRatePerSample");
    ASSERT_EQ(found.size(), 3u) << text;
    std::string schedule = "0.2";
    for (const auto& [epoch, rate] : found) schedule += fmt::format(":{:.12g}", rate * 40);
    EXPECT_GE(count(text, "  BaseAdaptiveLearnRateSearch: Epoch["), 3 * 3) << text;
    EXPECT_GE(count(text, " Finished Mini-Epoch[2]: "), 4);
    train(2, name + "-schedule", block + "\nTrain=[SGD=[learningRatesPerMB=" + schedule + "]]");
    EXPECT_TRUE(bytes(name) == bytes(name + "-schedule")) << name << " " << schedule;
    forget_after_second_epoch(path(name));
    const std::string first = bytes(name + "-schedule");
    const std::string again = train_logged(
        2, name, block + adjust("autoAdjustLR=searchBeforeEpoch;numSamples4Search=100;numBestSearchEpoch=2"));
    EXPECT_EQ(count(again, "SearchForBestLearnRate"), 2);
    EXPECT_TRUE(bytes(name) == first) << name << "resumed";
  }
}

// Three ranks in groups of two and one: not all of them take part in the exchange between groups.
TEST_F(Adjust, SearchedRatesOfGroupsTrainLikeASchedule) {
  const std::string between[] = {"parallelizationMethod=DataParallelSGD", block_momentum(""),
                                 "parallelizationMethod=EASGD;EASGD=[period=2]", servers("policy=sync;syncPeriod=30")};
  int run = 0;
  for (const std::string& method : between)
    for (const char* inside : {"DataParallelSGD", "ModelAveragingSGD"}) {
      if (method == between[3] && inside[0] == 'M') continue;  // a group is one worker
      if (method == between[0] && inside[0] == 'M') continue;  // wants groups of one size
      const std::string block =
          in_parallel_block(method + fmt::format(";groups=size:2;insideGroups=[parallelizationMethod={}]", inside));
      const std::string name = fmt::format("m{}", ++run);
      const std::string text =
          train_logged(3, name, block + adjust("autoAdjustLR=searchBeforeEpoch;numSamples4Search=100"));
      const auto found = by_epoch(text, R"(SearchForBestLearnRate Epoch\[(\d+)\]: Best)", "learningRatePerSample");
      ASSERT_EQ(found.size(), 3u) << text;
      std::string schedule = "0.2";
      for (const auto& [epoch, rate] : found) schedule += fmt::format(":{:.12g}", rate * 40);
      train(3, name + "-schedule", block + "\nTrain=[SGD=[learningRatesPerMB=" + schedule + "]]");
      EXPECT_TRUE(bytes(name) == bytes(name + "-schedule")) << block << " " << schedule;
    }
}

TEST_F(Adjust, SearchedMinibatchSizesTrainLikeASchedule) {
  for (const auto& [name, settings] : exact_methods()) {
    const std::string block = in_parallel_block(settings) + "\nTrain=[SGD=[momentumPerMB=0;minibatchSize=64]]";
    const std::string text =
        train_logged(2, name,
                     block + adjust("autoAdjustMinibatch=true;numSamples4Search=150;minibatchSizeTuningMax=128;"
                                    "minibatchSearchCriterionErrorMargin=100"));
    std::string sizes = "64", rates = "0.2";
    const std::regex pattern("New minibatchSize is ([0-9]+)");
    int searches = 0;
    for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i, ++searches) {
      if (searches % 2 != 0) continue;  // of the other rank
      sizes += ":" + std::string((*i)[1]);
      rates += fmt::format(":{}", 0.2 / 64 * std::stod((*i)[1]));
    }
    ASSERT_EQ(searches, 2 * 3) << text;
    EXPECT_THAT(text, HasSubstr(" AdaptiveMinibatchSearch Epoch[2]: Evaluating minibatchSizes 64..128"));
    EXPECT_THAT(text, HasSubstr("Minibatch size adapted to"));
    EXPECT_EQ(count(text, " Computed baseCriterion"), 3);
    train(2, name + "-schedule",
          block + "\nTrain=[SGD=[minibatchSize=" + sizes + ";learningRatesPerMB=" + rates + "]]");
    EXPECT_TRUE(bytes(name) == bytes(name + "-schedule")) << name << " " << sizes;
  }
}

// What AutoAdjust has found does not outlive its settings.
TEST_F(Adjust, ALongerListOfRatesCountsWhenTheRunGoesOn) {
  const std::string lowers = adjust("autoAdjustLR=adjustAfterEpoch;reduceLearnRateIfImproveLessThan=0.9");
  train_logged(2, "m", std::string("Train=[SGD=[maxEpochs=4]]") + lowers);
  const std::string text = train_logged(2, "m", "Train=[SGD=[maxEpochs=6;learningRatesPerMB=0.02*10]]" + lowers);
  const auto near = [](double rate) { return testing::DoubleNear(rate, 1e-8); };
  EXPECT_THAT(rates(text), testing::ElementsAre(testing::Pair(5, near(0.0005)), testing::Pair(6, near(0.0005))));
  EXPECT_EQ(count(text, "Epoch 5 has the learning rate of the settings, 0.0005"), 1) << text;
}

TEST_F(Adjust, MinibatchesAreOfTheSettingsOnceAutoAdjustIsGone) {
  train_logged(2, "m",
               "Train=[SGD=[minibatchSize=64;maxEpochs=3]]" +
                   adjust("autoAdjustMinibatch=true;numSamples4Search=150;minibatchSizeTuningMax=128;"
                          "minibatchSearchCriterionErrorMargin=100"));
  const std::string text =
      train_logged(2, "m", "Train=[traceLevel=1;SGD=[minibatchSize=20;maxEpochs=4;numMBsToShowResult=1]]");
  EXPECT_EQ(count(text, "Epoch 4 has the minibatchSize of the settings, 20, and no longer "), 1) << text;
  EXPECT_THAT(text, testing::ContainsRegex("Epoch\\[ 4 of 4\\]-Minibatch\\[ *8- *8,")) << "150 samples" << text;
}

}  // namespace
}  // namespace tutti::actions::adjust_test

// SPDX-License-Identifier: Apache-2.0
// Whole trainings whose only weight moves by the learning rate: what LearningRateSchedule sets, minibatch by minibatch,
// on any number of ranks, and after a restart within an epoch.
#include <numbers>

#include "text_run.h"

namespace tutti::actions::schedule_runs_test {
namespace {

constexpr int kSamples = 10, kMinibatch = 4, kEpochs = 3;
constexpr double kRate = 0.5;

double cosine(double epochs) { return (1 + std::cos(std::numbers::pi * epochs / kEpochs)) / 2; }

class ScheduleRuns : public TextRun {
 protected:
  // The gradient of every sample is 1, but for broken ones, which are no numbers.
  void write(int broken = kSamples, int samples = kSamples) const {
    std::ofstream out(path("data"));
    for (int i = 0; i < samples; ++i) out << "|x 1 |m " << (i < broken ? 0 : 1000) << '\n';
  }
  std::string text(const std::string& model, const std::string& sgd) const {
    return fmt::format(R"(
command = Train
modelPath = "{}"
Train = [
  BrainScriptNetworkBuilder = [
    x = Input {{1}} ; m = Input {{1}} ; w = ParameterTensor {{1, init = 'fixedValue', value = 0}}
    ce = w .* x + Exp (m) * Constant (0)
    criterionNodes = (ce)
  ]
  SGD = [ maxEpochs = {} ; minibatchSize = {} ; learningRatesPerSample = {} ; momentumPerMB = 0 ; {} ]
  reader = [ readerType = CNTKTextFormatReader ; file = "{}" ; randomize = false
    input = [ x = [ dim = 1 ; format = dense ] ; m = [ dim = 1 ; format = dense ] ] ]
]
)",
                       path(model), kEpochs, kMinibatch, kRate, sgd, path("data"));
  }
  float weight(const std::string& model) const {
    float value = 0;
    ContainerReader(path(model), "model").floats("value/w", {&value, 1});
    return value;
  }
};

const char* const kCosine = "LearningRateSchedule = [ shape = cosine ]";

// Epochs of one minibatch: the models tell every rate.
TEST_F(ScheduleRuns, EveryRateIsThatOfTheFormula) {
  write(12, 12);
  for (const int ranks : {1, 2, 3}) {
    const std::string model = fmt::format("each-{}", ranks);
    run(ranks, text(model,
                    "LearningRateSchedule = [ shape = cosine ; warmupEpochs = 6 ]\n"
                    "ParallelTrain = [ parallelizationMethod = DataParallelSGD ]") +
                   "\nTrain=[SGD=[epochSize=4;maxEpochs=30]]");
    for (int e = 0; e < 30; ++e) {
      const double middle = e + 0.5;
      const double factor = middle < 6 ? middle / 6 : (1 + std::cos(std::numbers::pi * (middle - 6) / 24)) / 2;
      const std::string after = e == 29 ? model : fmt::format("{}.{}", model, e + 1);
      EXPECT_NEAR(weight(fmt::format("{}.{}", model, e)) - weight(after), 4 * kRate * factor, 1e-5) << e;
    }
  }
}

// Minibatches of 4, 4 and 2 samples.
TEST_F(ScheduleRuns, TheRateOfAMinibatchIsThatOfItsMiddle) {
  write();
  run(1, text("m", kCosine));
  for (int e = 0; e < kEpochs; ++e) {
    const double sum = 4 * cosine(e + 0.2) + 4 * cosine(e + 0.6) + 2 * cosine(e + 0.9);
    EXPECT_NEAR(weight(fmt::format("m.{}", e)) - weight(e == kEpochs - 1 ? "m" : fmt::format("m.{}", e + 1)),
                kRate * sum, 1e-5);
  }
}

TEST_F(ScheduleRuns, GoOnWithinAnEpoch) {
  for (const char* method : {"DataParallelSGD", "ModelAveragingSGD", "ASGD"})
    for (const int ranks : {1, 2}) {
      const auto config = text("m", fmt::format("{} ; checkpointEverySamples = 4\nParallelTrain = [ "
                                                "parallelizationMethod = {} ; DataParallelASGD = [ push = gradients ; "
                                                "policy = sync ] ]",
                                                kCosine, method));
      write();
      run(ranks, config + "\nTrain=[makeMode=false]");
      const float undisturbed = weight("m");
      for (const char* end : {"", ".ckp", ".0", ".1", ".1.ckp", ".2", ".2.ckp"}) fs::remove(path("m") + end);
      write(8);  // the third minibatch ends the run
      EXPECT_THROW(run(ranks, config), Error);
      ASSERT_TRUE(fs::exists(path("m.1.mid"))) << method;
      ASSERT_FALSE(fs::exists(path("m.1"))) << method;
      write();
      run(ranks, config);
      EXPECT_EQ(weight("m"), undisturbed) << method << ranks;
    }
}

TEST_F(ScheduleRuns, MethodsThatEqualOneRankStillDo) {
  write();
  run(1, text("one", kCosine));
  for (const char* method : {"DataParallelSGD", "ASA"}) {
    run(3, text(method, fmt::format("{}\nParallelTrain = [ parallelizationMethod = {} ]", kCosine, method)));
    EXPECT_NEAR(weight(method), weight("one"), 1e-5);
  }
}

}  // namespace
}  // namespace tutti::actions::schedule_runs_test

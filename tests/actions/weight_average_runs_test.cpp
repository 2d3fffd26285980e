// SPDX-License-Identifier: Apache-2.0
// Whole trainings with weightAverage: models and validation have the average, states the weights.
#include "text_run.h"

namespace tutti::actions::weight_average_runs_test {
namespace {

constexpr double kDecay = 0.7;
const std::string kAverage = "\nTrain=[SGD=[weightAverage=0.7]]";

class WeightAverageRuns : public TextRun {
 protected:
  static std::string with(const std::string& sgd) { return "\nTrain=[SGD=[" + sgd + "]]"; }
  static std::string sums(const std::string& more = "") {
    return with("ParallelTrain=[parallelizationMethod=DataParallelSGD];" + more);
  }
  bool same(const std::string& a, const std::string& b) const { return bytes(a) == bytes(b); }
  float weight(const std::string& model) const {
    float value = 0;
    ContainerReader(path(model), "model").floats("value/w", {&value, 1});
    return value;
  }
};

// Every sample moves the weight by -0.5, so it is known after every update.
TEST_F(WeightAverageRuns, ModelsAndValidationHaveTheAverage) {
  std::ofstream(path("data")) << "|x 1\n|x 1\n|x 1\n|x 1\n|x 1\n|x 1\n|x 1\n|x 1\n|x 1\n|x 1\n";
  const std::string reader = fmt::format(
      "[ readerType = CNTKTextFormatReader ; file = \"{}\" ; randomize = false ; input = [ x = [ dim = 1 ; format = "
      "dense ] ] ]",
      path("data"));
  const std::string text = fmt::format(R"(
command = Train
modelPath = "{}"
Train = [
  BrainScriptNetworkBuilder = [ x = Input {{1}} ; w = ParameterTensor {{1, init = 'fixedValue', value = 0}}
    ce = w .* x ; criterionNodes = (ce) ]
  SGD = [ maxEpochs = 3 ; minibatchSize = 4 ; learningRatesPerSample = 0.5 ; momentumPerMB = 0 ; weightAverage = 0.7 ]
  reader = {} ; cvReader = {}
])",
                                       path("m"), reader, reader);
  // Late gradients make the same updates, the last one of an epoch at its end.
  const std::string late = "ParallelTrain=[DataParallelSGD=[useBufferedAsyncGradientAggregation=true]]";
  const std::pair<int, std::string> ways[] = {{1, ""}, {2, ""}, {3, ""}, {1, late}, {2, late}};
  for (const auto& [ranks, more] : ways) {
    SCOPED_TRACE(more);
    log::open({path("run.log"), false, 0, false});
    run(ranks, text + sums(more) + "\nTrain=[makeMode=false]");
    log::close();
    const std::string log = bytes("run.log");
    double w = 0, average = 0;
    int updates = 0;
    for (int epoch = 1; epoch <= 3; ++epoch) {
      for (const int samples : {4, 4, 2}) {
        w -= 0.5 * samples;
        average += (1 - std::min(kDecay, (1.0 + updates) / (10.0 + updates))) * (w - average);
        ++updates;
      }
      EXPECT_NEAR(weight(epoch == 3 ? "m" : fmt::format("m.{}", epoch)), average, 1e-5);
      const std::string line = fmt::format("Finished Epoch[ {} of 3]: [Validate] ce = ", epoch);
      const auto at = log.find(line);
      ASSERT_NE(at, std::string::npos) << log;
      EXPECT_NEAR(std::stod(log.substr(at + line.size())), average, 1e-4);
    }
  }
  // From the second epoch on the rate is too small for any update.
  log::open({path("run.log"), false, 0, false});
  run(2, text + sums("LearningRateSchedule=[shape=step;stepEpochs=1;stepFactor=1e-12]") + "\nTrain=[makeMode=false]");
  EXPECT_EQ(weight("m"), weight("m.1"));
}

TEST_F(WeightAverageRuns, TrainTheWeightsAsWithoutAnAverage) {
  write_data(kDense, 37);
  run(2, config(kDense, "plain", 8, 4) + sums());
  run(2, config(kDense, "averaged", 8, 2) + sums() + kAverage);
  EXPECT_GT(distance("averaged", "plain.2"), 1e-3);
  run(2, config(kDense, "averaged", 8, 4) + sums());  // goes on without
  EXPECT_TRUE(same("averaged", "plain"));
  run(2, config(kDense, "later", 8, 2) + sums());
  run(2, config(kDense, "later", 8, 4) + sums() + kAverage);  // begins with the third epoch
  EXPECT_GT(distance("later", "plain"), 1e-3);
  EXPECT_LT(distance("later", "plain"), distance("plain", "plain.2"));
}

// As Methods.ResumeExactlyWithinAnEpoch, and between epochs on another number of ranks.
TEST_F(WeightAverageRuns, ResumeExactly) {
  const std::string settings = kAverage + "\nTrain=[SGD=[epochSize=35;checkpointEverySamples=10];reader=[randomize=false]]";
  const std::pair<const char*, std::string> ways[] = {
      {"sums", sums()},
      {"late", sums("ParallelTrain=[DataParallelSGD=[useBufferedAsyncGradientAggregation=true]]")},
      {"bits", sums("ParallelTrain=[DataParallelSGD=[gradientBits=1]]")},
      {"shards", sums("ModelParallel=[dense=shard]")},
      {"state", sums("shardOptimizer=true")},
      {"groups", sums("ParallelTrain=[groups=size:2]")},
      {"warm", sums("ParallelTrain=[parallelizationStartEpoch=2;parallelizationStartSample=5]")},
      {"none", with("ParallelTrain=[parallelizationMethod=none]")}};
  for (const auto& [model, way] : ways) {
    SCOPED_TRACE(model);
    const std::string stopped = model + std::string("-stopped");
    write_data(kDense, 70);
    run(3, config(kDense, model, 10, 3) + settings + way);
    write_data(kDense, 70, 60);
    EXPECT_THROW(run(3, config(kDense, stopped, 10, 3) + settings + way), Error);
    EXPECT_TRUE(fs::exists(path(stopped + ".2.mid")));
    write_data(kDense, 70);
    run(3, config(kDense, stopped, 10, 3) + settings + way);
    EXPECT_TRUE(same(model, stopped));
    EXPECT_TRUE(same(model + std::string(".ckp"), stopped + ".ckp") || model == std::string("shards"));
  }
  EXPECT_LE(distance("sums", "shards"), 1e-5);
  EXPECT_LE(distance("sums", "state"), 1e-5);
  run(1, config(kDense, "one", 10, 1) + settings + sums());
  run(3, config(kDense, "one", 10, 2) + settings + sums());
  run(2, config(kDense, "one", 10, 3) + settings + sums());
  EXPECT_LE(distance("sums", "one"), 1e-5);
}

TEST_F(WeightAverageRuns, TrialsOfRatesLeaveNoTrace) {
  write_data(kDense, 37);
  const std::string search = with(
      "learningRatesPerMB=0.1;AutoAdjust=[autoAdjustLR=searchBeforeEpoch;numSamples4Search=16;numBestSearchEpoch=0]");
  run(2, config(kDense, "searched", 8, 3) + sums() + kAverage + search);
  run(2, config(kDense, "again", 8, 2) + sums() + kAverage + search);
  run(2, config(kDense, "again", 8, 3) + sums() + kAverage + search);
  EXPECT_TRUE(same("searched", "again"));
}

TEST_F(WeightAverageRuns, MethodsWhoseWeightsDifferAreRefused) {
  write_data(kDense, 37);
  const auto refused = [&](const std::string& settings) -> std::string {
    try {
      run(3, config(kDense, "refused", 8, 1) + kAverage + settings);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "not refused";
  };
  for (const char* method : {"ModelAveragingSGD", "BlockMomentumSGD;BlockMomentumSGD=[blockSize=80]", "EASGD", "ASGD",
                             "ASGD;DataParallelASGD=[push=gradients]", "ASA;ASA=[exchange=weights]",
                             "ModelAveragingSGD;groups=size:2"})
    EXPECT_NE(refused(with(std::string("ParallelTrain=[parallelizationMethod=") + method + "]"))
                  .find("weightAverage needs ranks that make every update together"),
              std::string::npos)
        << method;
  EXPECT_NE(refused(sums("verifyReplicas=1;onDivergence=majority")).find("copies weights and not their average"),
            std::string::npos);
  EXPECT_NE(refused(with("weightAverage=1")).find("weightAverage must lie in [0, 1)"), std::string::npos);
}

}  // namespace
}  // namespace tutti::actions::weight_average_runs_test

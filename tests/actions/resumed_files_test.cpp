// SPDX-License-Identifier: Apache-2.0
// A run that goes on from a checkpoint leaves the very files of one that was not disturbed, whatever a network keeps
// beside its weights.
#include <map>

#include "text_run.h"

namespace tutti::actions::resumed_files_test {
namespace {

class ResumedFiles : public TextRun {
 protected:
  // By name, what lies beside the model.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& file : fs::directory_iterator(dir_))
      if (const std::string name = file.path().filename().string(); name.starts_with("m")) all[name] = bytes(name);
    return all;
  }
  // `text` trains four epochs and writes the model "m".
  void expect_the_same(int ranks, const std::string& text) {
    run(ranks, text + "\nTrain=[makeMode=false]");
    const auto undisturbed = files();
    ASSERT_TRUE(undisturbed.contains("m.2.ckp") && undisturbed.contains("m"));
    forget_after_second_epoch(path("m"));
    run(ranks, text);
    const auto resumed = files();
    ASSERT_EQ(resumed.size(), undisturbed.size());
    for (const auto& [name, content] : undisturbed) EXPECT_TRUE(resumed.at(name) == content) << name;
  }
};

TEST_F(ResumedFiles, OfStatisticsAndPriors) {
  for (const int ranks : {1, 2}) {
    const auto text = fmt::format(R"(
command = Train
modelPath = "{}"
Train = [
  SimpleNetworkBuilder = [ layerSizes = 784:12:10 ; applyMeanVarNorm = true ; needPrior = true ; addDropoutNodes = true
    trainingCriterion = CrossEntropyWithSoftmax ; evalCriterion = ClassificationError ]
  SGD = [ maxEpochs = 4 ; epochSize = 60 ; minibatchSize = 20 ; learningRatesPerMB = 0.2 ; keepCheckPointFiles = true ; dropoutRate = 0.2
    ParallelTrain = [ parallelizationMethod = DataParallelSGD ] ]
  reader = [ readerType = SyntheticReader ; kind = digits ; samples = 50 ]
])",
                                  path("m"));
    expect_the_same(ranks, text);
  }
}

TEST_F(ResumedFiles, OfNetworksThatKeepState) {
  const std::string more =
      "\nTrain=[SGD=[keepCheckPointFiles=true;dropoutRate=0.2;ParallelTrain=[parallelizationMethod=DataParallelSGD]]]";
  const Kind kinds[] = {
      {"normalized", false, false, 3, "Sequential (DenseLayer {9} : BatchNormalizationLayer {} : ReLU : Dropout)"},
      {"synchronized", false, false, 3,
       "Sequential (DenseLayer {9} : BatchNormalizationLayer {synchronized = true} : ReLU)"},
      {"recurrent", false, true, 3, "Sequential (RecurrentLSTMLayer {4} : Dropout)"},
      {"corpus", false, false, 3, "Sequential (FeatureMVNLayer {} : DenseLayer {9, activation = ReLU})"}};
  for (const Kind& kind : kinds)
    for (const int ranks : {1, 3}) {
      SCOPED_TRACE(kind.name);
      write_data(kind, 33);
      expect_the_same(ranks, config(kind, "m", 8, 4) + more);
    }
}

TEST_F(ResumedFiles, OfTruncatedSequences) {
  const Kind kind{"truncated", false, true, 3, "RecurrentLSTMLayer {4}"};
  write_data(kind, 60);
  expect_the_same(2, config(kind, "m", 6, 4) +
                         "\nTrain=[SGD=[truncated=true;keepCheckPointFiles=true;ParallelTrain=[parallelizationMethod=DataParallelSGD]]"
                         ";reader=[truncated=true;truncationLength=3]]");
}

}  // namespace
}  // namespace tutti::actions::resumed_files_test

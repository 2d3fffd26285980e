// SPDX-License-Identifier: Apache-2.0
// Whole training runs from a config text, ranks as threads: what must come out equal does so byte by byte.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "actions/prepare.h"
#include "config/load.h"
#include "support/run_ranks.h"
#include "tutti/log.h"

namespace tutti::actions {
namespace {

namespace fs = std::filesystem;

class TrainRun : public testing::Test {
 protected:
  TrainRun() : dir_(fs::temp_directory_path() / fmt::format("tutti-train-{}-{}", ::getpid(), name())) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    log::open({(dir_ / "log").string(), false, 0, false});
  }
  ~TrainRun() override {
    log::close();
    log::open({});
    fs::remove_all(dir_);
  }

  static std::string name() { return testing::UnitTest::GetInstance()->current_test_info()->name(); }
  std::string path(const std::string& model) const { return (dir_ / model).string(); }

  // Trains on `ranks` threads; `settings` go last and win.
  void train(int ranks, const std::string& model, const std::string& settings) const {
    const std::string text = fmt::format(R"(
command = Train
modelPath = "{}"
Train = [
  SimpleNetworkBuilder = [ layerSizes = 784:20:10 ; layerTypes = RectifiedLinear ; addDropoutNodes = true
    trainingCriterion = CrossEntropyWithSoftmax ; evalCriterion = ClassificationError ]
  SGD = [ maxEpochs = 4 ; epochSize = 150 ; minibatchSize = 40 ; learningRatesPerMB = 0.2 ; keepCheckPointFiles = true
    dropoutRate = 0.2
    ParallelTrain = [ parallelizationMethod = DataParallelSGD ; distributedMBReading = true ] ]
  reader = [ readerType = SyntheticReader ; kind = digits ; samples = 110 ]
]
{}
)",
                                         path(model), settings);
    run_ranks(ranks, [&](Communicator& world) {
      config::CommandLine line;
      line.config = config::record_from_text(text);
      config::TopLevel top;
      top.command = {"Train"};
      top.parallel_train = true;
      Problems problems;
      config::Notices notices;
      const auto actions = prepare(line, top, world, problems, notices);
      problems.throw_if_any();
      for (const auto& a : actions) a.what->run();
    });
  }

  std::string bytes(const std::string& model) const {
    std::ifstream in(path(model), std::ios::binary);
    EXPECT_TRUE(in.good()) << path(model);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }

  fs::path dir_;
};

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

// As if the run had been ended after two epochs: what came later is taken away.
void forget_after_second_epoch(const std::string& model) {
  for (const char* end : {"", ".ckp", ".3", ".3.ckp"}) fs::remove(model + end);
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

// Methods with weights of their own between exchanges, momentum kept and reset, blocks that end within epochs or not.
const std::vector<std::pair<std::string, std::string>>& block_methods() {
  static const std::vector<std::pair<std::string, std::string>> methods{
      {"averaging", "parallelizationMethod=ModelAveragingSGD;ModelAveragingSGD=[blockSize=80]"},
      {"each", "parallelizationMethod=ModelAveragingSGD"},
      {"momentum", "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=80]"},
      {"kept", "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=1000;resetSGDMomentum=false]"},
      {"outer", "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=80;outerOptimizer=nesterov]"},
  };
  return methods;
}

std::string in_parallel_block(const std::string& settings) { return "Train=[SGD=[ParallelTrain=[" + settings + "]]]"; }

TEST_F(TrainRun, AveragingOnOneRankIsPlainTraining) {
  train(1, "plain", "Train=[SGD=[ParallelTrain=[parallelizationMethod=none]]]");
  for (const auto& [name, settings] : block_methods()) {
    if (settings.find("Model") == std::string::npos) continue;
    train(1, name, in_parallel_block(settings));
    EXPECT_EQ(bytes(name), bytes("plain")) << name;
  }
}

TEST_F(TrainRun, BlockMethodsResumeExactly) {
  for (const auto& [name, settings] : block_methods())
    for (const int ranks : {1, 3}) {
      const std::string model = fmt::format("{}{}", name, ranks);
      train(ranks, model, in_parallel_block(settings));
      const std::string undisturbed = bytes(model);
      forget_after_second_epoch(path(model));
      train(ranks, model, in_parallel_block(settings));
      EXPECT_EQ(bytes(model), undisturbed) << model;
    }
}

// Every 40 samples, exchanges every 80 or later. (tests/end_to_end/resume_test.py continues from such a checkpoint.)
TEST_F(TrainRun, ACheckpointWithinABlockChangesNothing) {
  for (const auto& [name, settings] : block_methods()) {
    train(3, name, in_parallel_block(settings));
    train(3, name + "-often", in_parallel_block(settings) + "\nTrain=[SGD=[checkpointEverySamples=40]]");
    EXPECT_EQ(bytes(name), bytes(name + "-often")) << name;
  }
}

TEST_F(TrainRun, BlockMethodsGoOnWithAnotherNumberOfRanks) {
  for (const auto& [name, settings] : block_methods()) {
    train(3, name, in_parallel_block(settings));
    forget_after_second_epoch(path(name));
    train(2, name, in_parallel_block(settings));
    EXPECT_FALSE(bytes(name).empty());
  }
}

TEST_F(TrainRun, BlockMethodsStartWarm) {
  train(1, "one", "Train=[SGD=[ParallelTrain=[parallelizationMethod=none]]]");
  for (const auto& [name, settings] : block_methods()) {
    train(3, name, in_parallel_block(settings + ";parallelizationStartEpoch=3"));
    EXPECT_EQ(bytes(name + ".2"), bytes("one.2")) << name;
    EXPECT_NE(bytes(name + ".3"), bytes("one.3")) << name;
    train(3, name + "-never", in_parallel_block(settings + ";parallelizationStartEpoch=5"));
    EXPECT_EQ(bytes(name + "-never"), bytes("one")) << name;
  }
}

// Minibatches of 4: an epoch of less than one, of one, of uneven ones; with fewer samples than ranks.
TEST_F(TrainRun, EverySampleCountsOnceAnEpochUnderEveryMethod) {
  auto methods = block_methods();
  methods.emplace_back("gradients", "parallelizationMethod=DataParallelSGD");
  for (const auto& [name, settings] : methods)
    for (const int ranks : {1, 2, 3, 4})
      for (const int samples : {2, 4, 7}) {
        const std::string model = fmt::format("{}-{}-{}", name, ranks, samples);
        log::open({path(model + ".log"), false, 0, false});
        train(ranks, model,
              in_parallel_block(settings) +
                  fmt::format("\nTrain=[SGD=[minibatchSize=4;epochSize=0;maxEpochs=2];reader=[samples={}]]", samples));
        log::close();
        const std::string text = bytes(model + ".log");
        for (const int epoch : {1, 2}) {
          const auto line = text.find(fmt::format("Finished Epoch[ {} of 2]", epoch));
          ASSERT_NE(line, std::string::npos) << model;
          EXPECT_NE(text.substr(line, 400).find(fmt::format(" * {}; ", samples)), std::string::npos) << model << text;
        }
      }
}

TEST_F(TrainRun, MoreRanksThanSamplesOfAMinibatch) {
  const std::string tiny = "Train=[SGD=[minibatchSize=4;epochSize=10];reader=[samples=10]]";
  train(5, "m", std::string(no_dropout) + "\n" + tiny);
  EXPECT_FALSE(bytes("m").empty());
  for (const auto& [name, settings] : block_methods()) {
    train(5, name, in_parallel_block(settings) + "\n" + tiny);
    EXPECT_FALSE(bytes(name).empty()) << name;
  }
}

}  // namespace
}  // namespace tutti::actions

// SPDX-License-Identifier: Apache-2.0
// train_run.h -- whole training runs from a config text, ranks as threads, and the bytes of the models they leave.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "actions/prepare.h"
#include "config/load.h"
#include "support/on_gpu.h"
#include "support/run_ranks.h"
#include "tutti/log.h"

namespace tutti::actions {

namespace fs = std::filesystem;

class TrainRun : public testing::Test {
 protected:
  TrainRun() : dir_(scratch() / fmt::format("tutti-train-{}-{}", ::getpid(), name())) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    log::open({(dir_ / "log").string(), false, 0, false});
  }
  ~TrainRun() override {
    log::close();
    log::open({});
    fs::remove_all(dir_);
  }
  void SetUp() override {
    if (device() != "cpu") skipped_without_gpu();
  }

  // In memory where there is such a place: models and checkpoints are brought to the disk before a run goes on.
  static fs::path scratch() {
    std::error_code none;
    return fs::is_directory("/dev/shm", none) && ::access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                                                                 : fs::temp_directory_path();
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
    run(ranks, text);
  }

  // What a config of one command, Train, does on `ranks` threads.
  static void run(int ranks, const std::string& text) {
    run_ranks(ranks, [&](Communicator& world) { run_rank(world, text); });
  }
  static void run_rank(Communicator& world, const std::string& text) {
    config::CommandLine line;
    line.config = config::record_from_text(text);
    config::TopLevel top;
    top.command = {"Train"};
    top.parallel_train = true;
    Problems problems;
    config::Notices notices;
    const auto actions = prepare(line, top, device(), world, problems, notices);
    problems.throw_if_any();
    for (const auto& a : actions) a.what->run();
  }

  // Where networks lie.
  static std::string device() {
    const char* const named = std::getenv("TUTTI_TEST_DEVICE");
    return named ? named : "cpu";
  }

  // One epoch of `samples` in minibatches of 4: each sample counts once.
  void expect_every_sample_once(int ranks, const std::string& model, const std::string& settings, int samples) const {
    log::open({path(model + ".log"), false, 0, false});
    train(
        ranks, model,
        settings + fmt::format("\nTrain=[SGD=[minibatchSize=4;epochSize=0;maxEpochs=1];reader=[samples={}]]", samples));
    log::close();
    const std::string text = bytes(model + ".log");
    const auto line = text.find("Finished Epoch[ 1 of 1]");
    ASSERT_NE(line, std::string::npos) << model;
    EXPECT_NE(text.substr(line, 400).find(fmt::format(" * {}; ", samples)), std::string::npos) << model << text;
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

// As if the run had been ended after two epochs: what came later is taken away.
inline void forget_after_second_epoch(const std::string& model) {
  for (const char* end : {"", ".ckp", ".3", ".3.ckp"}) fs::remove(model + end);
}

}  // namespace tutti::actions

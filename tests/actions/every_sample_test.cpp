// SPDX-License-Identifier: Apache-2.0
// Every method of exchange x 1 to 4 ranks x epochs that do not divide well: all end, each sample counts once.
#include "parallel_methods.h"

namespace tutti::actions {
namespace {

// Minibatches of 4: an epoch of less than one, of one, of uneven ones; with fewer samples than ranks.
TEST_F(TrainRun, EverySampleCountsOnceAnEpochUnderEveryMethod) {
  auto methods = some_methods();
  methods.emplace_back("each", "parallelizationMethod=ModelAveragingSGD");
  methods.emplace_back("outer",
                       "parallelizationMethod=BlockMomentumSGD;BlockMomentumSGD=[blockSize=5;outerOptimizer=nesterov]");
  methods.emplace_back("gradients", "parallelizationMethod=DataParallelSGD");
  methods.emplace_back("halves", "parallelizationMethod=ASA;ASA=[exchangeBits=16]");
  methods.emplace_back("late", "parallelizationMethod=ModelAveragingSGD;parallelizationStartSample=3");
  for (const auto& [name, settings] : methods)
    for (const int ranks : {1, 2, 3, 4})
      for (const int samples : {2, 4, 7}) {
        const std::string model = fmt::format("{}-{}-{}", name, ranks, samples);
        log::open({path(model + ".log"), false, 0, false});
        train(ranks, model,
              in_parallel_block(settings) +
                  fmt::format("\nTrain=[SGD=[minibatchSize=4;epochSize=0;maxEpochs=1];reader=[samples={}]]", samples));
        log::close();
        const std::string text = bytes(model + ".log");
        const auto line = text.find("Finished Epoch[ 1 of 1]");
        ASSERT_NE(line, std::string::npos) << model;
        EXPECT_NE(text.substr(line, 400).find(fmt::format(" * {}; ", samples)), std::string::npos) << model << text;
      }
}

}  // namespace
}  // namespace tutti::actions

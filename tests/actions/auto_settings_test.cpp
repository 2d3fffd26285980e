// SPDX-License-Identifier: Apache-2.0
// Blocks of ParallelTrain under parallelizationMethod = auto: those of methods that it may take are no mistake.
#include <gmock/gmock.h>

#include "actions/train_run.h"

namespace tutti::auto_settings_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The notices of a training under ASA, which auto has taken, with these other settings of ParallelTrain.
std::vector<std::string> notices(const std::string& settings, const std::string& chosen) {
  std::vector<std::string> lines;
  run_ranks(2, [&](Communicator& world) {
    config::CommandLine line;
    line.config = config::record_from_text(fmt::format(R"(
Train = [ modelPath = "auto_settings_test.dnn"
  SimpleNetworkBuilder = [ layerSizes = 784:10 ; trainingCriterion = CrossEntropyWithSoftmax
    evalCriterion = ClassificationError ]
  SGD = [ maxEpochs = 1 ; minibatchSize = 40 ; learningRatesPerMB = 0.2
    ParallelTrain = [ parallelizationMethod = ASA ; {} ] ]
  reader = [ readerType = SyntheticReader ; kind = digits ; samples = 110 ] ])",
                                                       settings));
    config::TopLevel top;
    top.command = {"Train"};
    top.parallel_train = true;
    Problems problems;
    config::Notices notices;
    MethodChoice choice;
    choice.method = chosen;
    actions::prepare(line, top, "cpu", world, problems, notices, {{"Train", choice}});
    problems.throw_if_any();
    if (world.rank() == 0) lines = notices.lines;
  });
  return lines;
}

TEST(AutoSettings, BlocksOfMethodsThatMayBeTaken) {
  const std::string blocks = "DataParallelSGD = [ gradientBits = 32 ] ; EASGD = [ period = 5 ]";
  EXPECT_THAT(notices(blocks, ""),
              ElementsAre(HasSubstr("the blocks DataParallelSGD, EASGD have no effect with parallelizationMethod = "
                                    "ASA")));
  const std::string chosen = "ASA of gradients in 32 bits";
  EXPECT_THAT(notices(blocks, chosen),
              ElementsAre(HasSubstr("the block EASGD has no effect with parallelizationMethod = auto")));
  EXPECT_THAT(notices(blocks + " ; autoAllow = local", chosen), IsEmpty());
}

}  // namespace
}  // namespace tutti::auto_settings_test

// SPDX-License-Identifier: Apache-2.0
// The printed config gives the run of the config it was printed for, wherever its blocks stand; trainer diff.
#include "actions/effective_config.h"

#include <gmock/gmock.h>

#include "actions/diff_command.h"
#include "actions/train_run.h"
#include "config/text.h"

namespace tutti::effective_config_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// SGD and reader stand outside the command, which has settings that would be theirs if they stood inside.
constexpr const char* kBlocks =
    "SGD = [ maxEpochs = 2 ; minibatchSize = 20 ; learningRatesPerMB = 0.5 ]\n"
    "reader = [ readerType = SyntheticReader ; kind = digits ; samples = 60 ]\n";
constexpr const char* kCommand =
    "Train = [ modelPath = \"$Model$\" ; epochSize = 40 ; momentumPerMB = 0.5 ; randomize = none\n"
    "  SimpleNetworkBuilder = [ layerSizes = 784:10 ; trainingCriterion = CrossEntropyWithSoftmax\n"
    "    evalCriterion = ClassificationError ]";

class EffectiveConfig : public actions::TrainRun {
 protected:
  std::string outside(const std::string& model) const {
    return fmt::format("command = Train\nModel = \"{}\"\n{}{} ]\n", path(model), kBlocks, kCommand);
  }
  std::string inside(const std::string& model) const {
    return fmt::format("command = Train\nModel = \"{}\"\n{}\n{} ]\n", path(model), kCommand, kBlocks);
  }
  static std::string printed(const std::string& text) {
    const config::Record top = config::record_from_text(text);
    Problems problems;
    config::Notices notices;
    const config::TopLevel options = config::read_top_level(top, 1, problems, notices);
    return config::to_text(actions::effective_config(top, options, options.command));
  }
  std::string model(const std::string& text, const std::string& name) const {
    run(1, text);
    const std::string found = bytes(name);
    for (const auto& file : actions::fs::directory_iterator(dir_))
      if (file.path().filename().string().starts_with(name)) actions::fs::remove(file.path());
    return found;
  }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  // Its exit code and what it prints.
  static std::pair<int, std::string> diff(const std::string& a, const std::string& b) {
    const char* const words[] = {a.c_str(), b.c_str()};
    testing::internal::CaptureStdout();
    const int code = actions::run_diff(2, words);
    return {code, testing::internal::GetCapturedStdout()};
  }
};

TEST_F(EffectiveConfig, BlocksOutsideTheCommandStayThere) {
  const std::string once = printed(outside("m"));
  EXPECT_EQ(printed(once), once);
  EXPECT_THAT(once, AllOf(HasSubstr("\nSGD = [\n"), HasSubstr("\nreader = [\n"), Not(HasSubstr("  SGD = ["))));
  EXPECT_EQ(model(once, "m"), model(outside("m"), "m"));
  const std::string other = printed(inside("m"));
  EXPECT_EQ(printed(other), other);
  EXPECT_NE(model(other, "m"), model(once, "m"));
}

TEST_F(EffectiveConfig, OfSeveralCommandsWithAReaderInCommon) {
  const std::string once = printed(
      outside("m") + "command = Train:Test\nTest = [ action = test ; modelPath = \"$Model$\" ; minibatchSize = 7 ]\n");
  EXPECT_EQ(printed(once), once);
  EXPECT_EQ(once.find("reader = ["), once.rfind("reader = ["));
  EXPECT_EQ(once.find("SGD = ["), once.rfind("SGD = ["));
}

TEST_F(EffectiveConfig, APathOfTheModelThatSgdDoesNotSetIsNone) {
  for (const std::string& text : {"modelPath = wrong\n" + outside("m"), inside("m")}) {
    const std::string once = printed(text);
    EXPECT_EQ(once.find("modelPath"), once.rfind("modelPath")) << once;
    EXPECT_THAT(once, HasSubstr(fmt::format("  modelPath = \"{}\"", path("m"))));
  }
}

TEST_F(EffectiveConfig, DiffSeesWhereABlockInherits) {
  const std::string a = file("a.cntk", outside("m")), b = file("b.cntk", inside("m"));
  for (const auto& [name, text] : {std::pair(a, outside("m")), std::pair(b, inside("m"))}) {
    EXPECT_EQ(diff(name, file("p.cntk", printed(text))), std::pair(0, std::string()));
    EXPECT_EQ(diff(path("p.cntk"), name), std::pair(0, std::string()));
  }
  const auto [code, text] = diff(file("a.dnn.cntk", printed(outside("m"))), file("b.dnn.cntk", printed(inside("m"))));
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, AllOf(HasSubstr("Train.SGD.epochSize\n"), HasSubstr("Train.SGD.momentumPerMB\n"),
                          HasSubstr("Train.reader.randomize\n"), HasSubstr("\n3 differences\n")));
}

TEST_F(EffectiveConfig, DiffOfAPathThatOnlySgdSets) {
  const std::string text = inside("m");
  const std::string own = std::string(text).replace(text.find("SGD = ["), 7, "SGD = [ modelPath = other ;");
  const auto [code, said] = diff(file("a.cntk", text), file("b.cntk", own));
  EXPECT_EQ(code, 1);
  EXPECT_THAT(said, AllOf(HasSubstr("Train.SGD.modelPath\n"), HasSubstr("1 difference\n")));
}

}  // namespace
}  // namespace tutti::effective_config_test

// SPDX-License-Identifier: Apache-2.0
// SimpleNetworkBuilder, and the choice of a builder from a command block.
#include "brainscript/simple_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "networks.h"

namespace tutti::brainscript::simple_network_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Built from_config(const std::string& config, bool constant_seed = false) {
  Built b;
  Problems problems;
  config::Notices notices;
  BuildContext context;
  context.problems = &problems;
  context.notices = &notices;
  context.force_constant_seed = constant_seed;
  b.graph = tutti::build_network(config::record_from_text(config, "a.cntk"), context);
  try {
    problems.throw_if_any();
  } catch (const ConfigError& e) {
    b.errors = e.what();
  }
  b.notices = notices.lines;
  return b;
}

const char* const simple2d = R"(SimpleNetworkBuilder = [
  layerSizes = 2:50*2:2
  trainingCriterion = "CrossEntropyWithSoftmax"
  evalCriterion = "ClassificationError"
  layerTypes = "Sigmoid"
  initValueScale = 1.0
  applyMeanVarNorm = true
  uniformInit = true
  needPrior = true
])";

TEST(SimpleNetwork, Simple2d) {
  const Built b = from_config(simple2d);
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.listing(),
            "features = InputValue ()\n"
            "MeanOfFeatures = Mean (features)\n"
            "InvStdOfFeatures = InvStdDev (features)\n"
            "MVNormalizedFeatures = PerDimMeanVarNormalization (features, MeanOfFeatures, InvStdOfFeatures)\n"
            "W0 = LearnableParameter ()\n"
            "B0 = LearnableParameter ()\n"
            "W0*MVNormalizedFeatures = Times (W0, MVNormalizedFeatures)\n"
            "W0*MVNormalizedFeatures+B0 = Plus (W0*MVNormalizedFeatures, B0)\n"
            "H1 = Sigmoid (W0*MVNormalizedFeatures+B0)\n"
            "W1 = LearnableParameter ()\n"
            "B1 = LearnableParameter ()\n"
            "W1*H1 = Times (W1, H1)\n"
            "W1*H1+B1 = Plus (W1*H1, B1)\n"
            "H2 = Sigmoid (W1*H1+B1)\n"
            "W2 = LearnableParameter ()\n"
            "B2 = LearnableParameter ()\n"
            "W2*H2 = Times (W2, H2)\n"
            "HLast = Plus (W2*H2, B2)\n"
            "labels = InputValue ()\n"
            "CrossEntropyWithSoftmax = CrossEntropyWithSoftmax (labels, HLast)\n"
            "EvalClassificationError = ClassificationError (labels, HLast)\n"
            "Prior = Mean (labels)\n"
            "LogOfPrior = Log (Prior)\n"
            "ScaledLogLikelihood = Minus (HLast, LogOfPrior)\n"
            "PosteriorProb = Softmax (HLast)\n");
  EXPECT_THAT(b.names_of(b.graph.features), ElementsAre("features"));
  EXPECT_THAT(b.names_of(b.graph.labels), ElementsAre("labels"));
  EXPECT_THAT(b.names_of(b.graph.criteria), ElementsAre("CrossEntropyWithSoftmax"));
  EXPECT_THAT(b.names_of(b.graph.evaluations), ElementsAre("EvalClassificationError"));
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("ScaledLogLikelihood"));
  EXPECT_EQ(b.seed("W0"), 1);
  EXPECT_EQ(b.seed("W1"), 2);
  EXPECT_EQ(b.seed("W2"), 3);
  const auto dims = [&](const std::string& name) {
    return std::get<std::vector<double>>(b[name].attributes.at("dims"));
  };
  EXPECT_THAT(dims("W0"), ElementsAre(50, 2));
  EXPECT_THAT(dims("W2"), ElementsAre(2, 50));
  EXPECT_THAT(dims("B0"), ElementsAre(50, 1));
  EXPECT_EQ(graph::text(b["W0"], "init"), "uniform");
  EXPECT_EQ(graph::text(b["B0"], "init"), "fixedValue");
}

TEST(SimpleNetwork, OtherChoices) {
  const Built b = from_config(R"(SimpleNetworkBuilder = [ layerSizes = 4:3:5:2; trainingCriterion = squareError
    evalCriterion = crossEntropyWithSoftmax; layerTypes = Tanh:None; uniformInit = false; addDropoutNodes = true
    initValueScale = 2; vocabSize = 7 ])",
                              true);
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.names(),
            "features Dropfeatures W0 B0 W0*Dropfeatures W0*Dropfeatures+B0 H1 DropH1 W1 B1 W1*DropH1 H2 DropH2 W2 B2 "
            "W2*DropH2 HLast labels SquareError EvalCrossEntropyWithSoftmax PosteriorProb");
  EXPECT_EQ(b["H1"].operation, "Tanh");
  EXPECT_EQ(b["H2"].operation, "Plus");
  EXPECT_EQ(graph::text(b["W1"], "init"), "gaussian");
  EXPECT_EQ(graph::number(b["W1"], "initValueScale", 1), 2);
  EXPECT_EQ(b.seed("W2"), 1);  // forceConstantRandomSeed
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("HLast"));
  EXPECT_FALSE(b.notices.empty());  // vocabSize has no effect
}

TEST(SimpleNetwork, MistakesAreNamed) {
  const auto errors = [](const std::string& body) {
    return from_config("SimpleNetworkBuilder = [\n" + body + "\n]").errors;
  };
  const std::string rest = "; trainingCriterion = squareError; evalCriterion = squareError";
  EXPECT_THAT(errors("layerSizes = 3:2; evalCriterion = squareError"), HasSubstr("trainingCriterion"));
  EXPECT_THAT(errors("layerSizes = 3" + rest), HasSubstr("at least two sizes"));
  EXPECT_THAT(errors("layerSizes = 3:0:2" + rest), HasSubstr("a layer of size 0"));
  EXPECT_THAT(errors("layerSizes = 3:2; layerTypes = Sigmod" + rest), HasSubstr("did you mean 'Sigmoid'?"));
  EXPECT_THAT(errors("layerSizes = 3:2; rnnType = LSTM" + rest), HasSubstr("builds no networks of type 'LSTM'"));
  EXPECT_THAT(errors("layerSizes = 3:2; layerTipes = Tanh" + rest), HasSubstr("layerTypes"));
  EXPECT_THAT(errors("layerSizes = 3:2; trainingCriterion = squareErorr; evalCriterion = squareError"),
              HasSubstr("squareErorr"));
}

TEST(Builders, TheFirstPresentWinsAndInheritedOnesCount) {
  const config::Record root =
      config::record_from_text("BrainScriptNetworkBuilder = { x = Input {3} }\nTrain = [ action = train ]");
  EXPECT_TRUE(has_network_builder(root.block("Train")));
  EXPECT_FALSE(has_network_builder(config::record_from_text("Train = [ action = train ]")));
  EXPECT_EQ(from_config(std::string(simple2d) + "\nBrainScriptNetworkBuilder = { x = Input {3} }").graph.nodes.size(),
            25u);
  EXPECT_EQ(from_config("BrainScriptNetworkBuilder = { x = Input {3} }").names(), "x");
  EXPECT_EQ(from_config("ExperimentalNetworkBuilder = [ x = Input {3} ]").names(), "x");
  EXPECT_EQ(from_config("BrainScriptNetworkBuilder = (new ComputationNetwork { x = Input {3} })").names(), "x");
  EXPECT_THAT(from_config("NDLNetworkBuilder = [ networkDescription = a.ndl ]\n").errors, HasSubstr("a.ndl"));
  EXPECT_THAT(from_config("createNetwork = { x = 1 }\n").errors, HasSubstr("createNetwork is not part"));
  EXPECT_THAT(from_config("action = train").errors, HasSubstr("names no network"));
  EXPECT_THAT(from_config("BrainScriptNetworkBuilder = 3\n").errors, HasSubstr("must begin with"));
}

TEST(Builders, VariablesOfTheConfigurationReachTheNetwork) {
  const Built b = from_config(R"(dim = 7
precision = "float"
deviceId = -1
BrainScriptNetworkBuilder = {   # a network
  x = Input { if precision == 'float' && deviceId == -1 then $dim$ else 1 } // not seven
  # y = Input {2}
  z = nope
})");
  EXPECT_THAT(b.errors, HasSubstr("error: 'nope' is not defined"));
  EXPECT_THAT(b.errors, HasSubstr("z = nope"));
  const Built good =
      from_config("dim = 7\nBrainScriptNetworkBuilder = { x = Input {$dim$}; m = Input {traceLevel + 1} }");
  ASSERT_EQ(good.errors, "");
  EXPECT_THAT(std::get<std::vector<double>>(good["x"].attributes.at("dims")), ElementsAre(7));
  EXPECT_THAT(std::get<std::vector<double>>(good["m"].attributes.at("dims")), ElementsAre(1));
}

TEST(Builders, PlacesInAConfigFileAreExact) {
  EXPECT_THAT(
      from_config("command = Train\nBrainScriptNetworkBuilder = {\n  # comment\n  z = nope  # unknown\n}\n").errors,
      HasSubstr("a.cntk:4:7: error: 'nope' is not defined"));
}

}  // namespace
}  // namespace tutti::brainscript::simple_network_test

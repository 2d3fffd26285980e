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

TEST(SimpleNetwork, SeedsWithAnOffset) {
  const std::string network = "SimpleNetworkBuilder = [ layerSizes = 4:3:2; trainingCriterion = squareError; evalCriterion = squareError";
  EXPECT_EQ(from_config(network + " ]").seed("W1"), 2);
  EXPECT_EQ(from_config(network + "; randomSeedOffset = 100 ]").seed("W1"), 102);
  EXPECT_EQ(from_config("randomSeedOffset = 100\n" + network + " ]").seed("W1"), 102);
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
  EXPECT_THAT(errors("layerSizes = 3:2; rnnType = LSTN" + rest), HasSubstr("LSTM"));
  EXPECT_THAT(errors("layerSizes = 3:2; layerTipes = Tanh" + rest), HasSubstr("layerTypes"));
  EXPECT_THAT(errors("layerSizes = 3:2; trainingCriterion = squareErorr; evalCriterion = squareError"),
              HasSubstr("squareErorr"));
}

Built recurrent(const std::string& body) { return from_config("SimpleNetworkBuilder = [\n" + body + "\n]"); }

const std::string class_criteria =
    "; trainingCriterion = classCrossEntropyWithSoftmax; evalCriterion = classCrossEntropyWithSoftmax";
const std::string softmax_criteria =
    "; trainingCriterion = crossEntropyWithSoftmax; evalCriterion = classificationError";

TEST(SimpleNetwork, ClassBasedLanguageModel) {
  const Built b = recurrent("rnnType = CLASSLM; layerSizes = 9:4:9; recurrentLayer = 1; vocabSize = 9; nbrClass = 3" +
                            class_criteria);
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.listing(),
            "features = InputValue ()\n"
            "U0 = LearnableParameter ()\n"
            "W0 = LearnableParameter ()\n"
            "AutoName0 = PastValue (AutoName4)\n"
            "AutoName1 = Times (U0, features)\n"
            "AutoName2 = Times (W0, AutoName0)\n"
            "AutoName3 = Plus (AutoName1, AutoName2)\n"
            "AutoName4 = Sigmoid (AutoName3)\n"
            "W1 = LearnableParameter ()\n"
            "labels = InputValue ()\n"
            "WeightForClassPostProb = LearnableParameter ()\n"
            "ClassPostProb = Times (WeightForClassPostProb, AutoName4)\n"
            "TrainNodeClassBasedCrossEntropy = ClassBasedCrossEntropyWithSoftmax (labels, AutoName4, W1, "
            "ClassPostProb)\n");
  EXPECT_TRUE(graph::flag(b["features"], "sparse", false));
  EXPECT_EQ(b.seed("U0"), 1);
  EXPECT_EQ(b.seed("W0"), 2);
  EXPECT_EQ(b.seed("W1"), 3);
  EXPECT_EQ(b.seed("WeightForClassPostProb"), 4);
  EXPECT_EQ(b.graph.evaluations, b.graph.criteria);
  const auto dims = [&](const std::string& name) {
    return std::get<std::vector<double>>(b[name].attributes.at("dims"));
  };
  EXPECT_THAT(dims("W1"), ElementsAre(4, 9));  // a column for each word
  EXPECT_THAT(dims("labels"), ElementsAre(4));
  // Without recurrentLayer: a hidden layer with a bias, which is random, too.
  const Built feed_forward =
      recurrent("rnnType = CLASSLM; layerSizes = 9:4:9; vocabSize = 9; nbrClass = 3" + class_criteria);
  EXPECT_EQ(feed_forward.seed("B0"), 2);
}

TEST(SimpleNetwork, ClassBasedLstm) {
  const Built b =
      recurrent("rnnType = CLASSLSTM; layerSizes = 9:5:4:9; lookupTableOrder = 1; nbrClass = 3" + class_criteria);
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b["LookupTable"].operation, "LookupTable");
  // In the original's order.
  double seed = 1;
  for (const char* name : {"E0", "WXO0", "WXI0", "WXF0", "WXC0", "WHI0", "WCI0", "WHF0", "WCF0", "WHO0", "WCO0", "WHC0",
                           "W2", "WeightForClassPostProb"})
    EXPECT_EQ(b.seed(name), seed++) << name;
  EXPECT_EQ(graph::number(b["bf0"], "value", 0), -1);
  EXPECT_EQ(graph::number(b["bc0"], "value", 1), 0);
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("outputs"));
  EXPECT_EQ(std::count_if(b.graph.nodes.begin(), b.graph.nodes.end(),
                          [](const auto& n) { return n.operation == "PastValue"; }),
            7);
  const Built open = recurrent(
      "rnnType = CLASSLSTM; layerSizes = 9:5:4:9; lookupTableOrder = 1; nbrClass = 3; constInputGateValue = true; "
      "constForgetGateValue = true; constOutputGateValue = true" +
      class_criteria);
  EXPECT_EQ(std::count_if(open.graph.nodes.begin(), open.graph.nodes.end(),
                          [](const auto& n) { return n.operation == "Sigmoid"; }),
            0);
}

TEST(SimpleNetwork, OtherRecurrentTypes) {
  const Built rnn = recurrent("rnnType = SIMPLERNN; layerSizes = 9:4:5:9; recurrentLayer = 2; addDropoutNodes = true" +
                              softmax_criteria);
  ASSERT_EQ(rnn.errors, "");
  EXPECT_EQ(rnn["criterion"].operation, "CrossEntropyWithSoftmax");
  EXPECT_EQ(rnn["eval"].operation, "ClassificationError");
  EXPECT_EQ(rnn.seed("U1"), 2);
  EXPECT_EQ(rnn.seed("W1"), 3);
  // Of recurrentLayer one after another is looked for; the first LSTM is there anyway.
  const Built lstm =
      recurrent("rnnType = LSTM; layerSizes = 9:4:5:6:9; recurrentLayer = 2; needPrior = true" + softmax_criteria);
  ASSERT_EQ(lstm.errors, "");
  EXPECT_EQ(lstm["U1"].operation, "LearnableParameter");
  EXPECT_EQ(lstm["WXO2"].operation, "LearnableParameter");
  EXPECT_THAT(lstm.names_of(lstm.graph.outputs), ElementsAre("ScaledLogLikelihood"));
  EXPECT_FALSE(graph::flag(lstm["features"], "sparse", true));
  const Built bilinear =
      recurrent("rnnType = LBLM; layerSizes = 9:4:9; maOrder = 2; recurrentLayer = 1" + softmax_criteria);
  ASSERT_EQ(bilinear.errors, "");
  EXPECT_EQ(graph::number(bilinear["pastValue2"], "timeStep", 1), 2);
  const Built neural = recurrent("rnnType = NPLM; layerSizes = 9:4:5:9; recurrentLayer = 1:2" + softmax_criteria);
  ASSERT_EQ(neural.errors, "");
  EXPECT_EQ(neural.seed("WXI2"), 1);
  EXPECT_EQ(neural.seed("WXI"), 5);
  const Built conditional = recurrent(
      "rnnType = CLSTM; layerSizes = 9:5:4:9; lookupTableOrder = 1; nbrClass = 3; auxFeatDim = 2" + class_criteria);
  ASSERT_EQ(conditional.errors, "");
  EXPECT_THAT(conditional.names_of(conditional.graph.features), ElementsAre("features", "binaryFeature"));
}

TEST(SimpleNetwork, MistakesInRecurrentTypesAreNamed) {
  const auto errors = [](const std::string& body) { return recurrent(body).errors; };
  EXPECT_THAT(errors("rnnType = CLASSLM; layerSizes = 9:4:9; vocabSize = 8; nbrClass = 3" + class_criteria),
              HasSubstr("the last of layerSizes has 9 words, vocabSize says 8"));
  EXPECT_THAT(errors("rnnType = CLASSLM; layerSizes = 9:4:9; vocabSize = 9" + class_criteria), HasSubstr("nbrClass"));
  EXPECT_THAT(errors("rnnType = CLASSLM; layerSizes = 9:4:9; vocabSize = 9; nbrClass = 3" + softmax_criteria),
              HasSubstr("ClassCrossEntropyWithSoftmax"));
  EXPECT_THAT(errors("rnnType = LSTM; layerSizes = 9:4:9" + class_criteria), HasSubstr("CLASSLSTM"));
  EXPECT_THAT(errors("rnnType = CLASSLSTM; layerSizes = 9:5:4:9; nbrClass = 3" + class_criteria),
              HasSubstr("lookupTableOrder = 1"));
  EXPECT_THAT(errors("rnnType = LSTM; lookupTableOrder = 2; layerSizes = 9:5:4:9" + softmax_criteria),
              HasSubstr("9 features are not 2 vectors"));
  EXPECT_THAT(errors("rnnType = SIMPLERNN; layerSizes = 9:4:9; recurrentLayer = 2" + softmax_criteria),
              HasSubstr("there is no hidden layer 2"));
  EXPECT_THAT(errors("rnnType = SIMPLERNN; layerSizes = 9:9" + softmax_criteria), HasSubstr("needs a hidden layer"));
  EXPECT_THAT(errors("rnnType = NPLM; layerSizes = 9:4:9" + softmax_criteria), HasSubstr("recurrentLayer = 1"));
  EXPECT_THAT(errors("rnnType = NCELSTM; layerSizes = 9:4:9" + softmax_criteria), HasSubstr("CLASSLSTM"));
  EXPECT_THAT(errors("rnnType = RCRF; layerSizes = 9:4:9" + softmax_criteria), HasSubstr("conditional random fields"));
  EXPECT_THAT(
      errors("layerSizes = 9:4:9; trainingCriterion = sequenceWithSoftmax; evalCriterion = classificationError"),
      HasSubstr("no criteria over lattices"));
  // What means nothing to a type is said.
  EXPECT_THAT(recurrent("layerSizes = 9:4:9; maOrder = 2" + softmax_criteria).notices,
              ElementsAre(HasSubstr("'maOrder'")));
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

// SPDX-License-Identifier: Apache-2.0
// The older network language: equal to the same network in the newer one, macros, sections, images, mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/load.h"
#include "networks.h"
#include "tutti/builder.h"
#include "tutti/network.h"

namespace tutti::brainscript::ndl_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Built from_config(const std::string& config) {
  Built b;
  Problems problems;
  config::Notices notices;
  BuildContext context;
  context.problems = &problems;
  context.notices = &notices;
  b.graph = tutti::build_network(config::record_from_text(config, "a.cntk"), context);
  b.notices = notices.lines;
  try {
    problems.throw_if_any();
  } catch (const ConfigError& e) {
    b.errors = e.what();
  }
  return b;
}

Built ndl(const std::string& section) {
  return from_config("NDLNetworkBuilder = [\n run = net\n net = [\n" + section + "\n]\n]\n");
}

double num(const graph::Node& n, const std::string& name) { return std::get<double>(n.attributes.at(name)); }
std::vector<double> nums(const graph::Node& n, const std::string& name) {
  return std::get<std::vector<double>>(n.attributes.at(name));
}

// Parameters by name, with their first values.
std::map<std::string, std::vector<float>> start(const Built& b) {
  std::map<std::string, std::vector<float>> all;
  Network network(b.graph, {});
  network.initialize_parameters();
  for (const auto& s : network.parameters().slices) {
    const auto values = network.parameters().weights.span().subspan(s.offset, s.size());
    all[s.name].assign(values.begin(), values.end());
  }
  return all;
}

TEST(Ndl, EqualsTheSameNetworkInTheNewerLanguage) {
  const Built old = ndl(R"(  # one hidden layer
    features = Input(6)
    labels = Input(3, tag=label)
    W0 = Parameter(4, 6)
    B0 = LearnableParameter(4, 1, init=fixedvalue, value=0.5)
    T0 = Times(W0, features)
    S0 = plus(T0, B0)
    H = Sigmoid(S0)
    W1 = Parameter(3, 4, init="gaussian", initValueScale=2)
    z = Times(W1, H)
    ce = CrossEntropyWithSoftmax(labels, z)
    err = ErrorPrediction(labels, z)
    FeatureNodes = (features)
    CriterionNodes = (ce)
    EvalNodes = (err); OutputNodes = (z))");
  ASSERT_EQ(old.errors, "");
  const Built fresh = build(R"({ features = Input {6}; labels = Input {3}
    W0 = Parameter {4, 6, randomSeed=1}; B0 = Parameter {4, 1, init='fixedValue', value=0.5}
    T0 = Times (W0, features); S0 = Plus (T0, B0); H = Sigmoid (S0)
    W1 = Parameter {3, 4, init='gaussian', initValueScale=2, randomSeed=2}
    z = Times (W1, H); ce = CrossEntropyWithSoftmax (labels, z); err = ErrorPrediction (labels, z)
    featureNodes = (features); labelNodes = (labels); criterionNodes = (ce); evaluationNodes = (err); outputNodes = (z) })");
  ASSERT_EQ(fresh.errors, "");
  EXPECT_EQ(start(old), start(fresh));
  for (const auto& n : fresh.graph.nodes) {
    const graph::Node& same = old[n.name];
    EXPECT_EQ(same.operation, n.operation) << n.name;
    std::vector<std::string> a, b;
    for (auto i : n.inputs) a.push_back(fresh.graph.nodes[i].name);
    for (auto i : same.inputs) b.push_back(old.graph.nodes[i].name);
    EXPECT_EQ(a, b) << n.name;
  }
  EXPECT_EQ(old.graph.nodes.size(), fresh.graph.nodes.size());
  EXPECT_THAT(old.names_of(old.graph.features), ElementsAre("features"));
  EXPECT_THAT(old.names_of(old.graph.labels), ElementsAre("labels"));
  EXPECT_THAT(old.names_of(old.graph.criteria), ElementsAre("ce"));
  EXPECT_THAT(old.names_of(old.graph.evaluations), ElementsAre("err"));
  EXPECT_THAT(old.names_of(old.graph.outputs), ElementsAre("z"));
}

TEST(Ndl, MacrosHaveTheirOwnNames) {
  const Built b = from_config(R"(
    dim = 5
    NDLNetworkBuilder = [
      load = macros
      run = net
      macros = [
        RFF(x, w, b) = RectifiedLinear(Plus(Times(w, x), b))
        Layer(in, out, x, scale=1)
        {
          W = Parameter(out, in, init=uniform, initValueScale=scale)
          b = Parameter(out, 1, init=fixedValue, value=0)
          t = Times(W, x)
          z = Plus(t, b)
        }
        Named(x) { Named = Sigmoid(x)
                   other = Tanh(Named) }
        hidden = 4
      ]
      net = [
        features = Input($dim$)
        h1 = Layer($dim$, hidden, features, scale=2)
        h2 = Named(h1)
        w = Parameter(2, hidden); c = Parameter(2)
        h3 = RFF(h2, w, c)
        o = Scale(2, h2.other)
        OutputNodes = (h3, o : h1.t)
      ]
    ])");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b["h1.z"].operation, "Plus");
  EXPECT_EQ(num(b["h1.W"], "initValueScale"), 2);
  EXPECT_THAT(nums(b["h1.W"], "dims"), ElementsAre(4, 5));
  EXPECT_EQ(b["h2.Named"].operation, "Sigmoid");
  EXPECT_EQ(b["h3"].operation, "RectifiedLinear");
  EXPECT_EQ(b.seed("h1.W"), 1);
  EXPECT_EQ(b.seed("w"), 2);
  EXPECT_EQ(b.seed("c"), 3);
  EXPECT_EQ(b.graph.nodes[b["o"].inputs[1]].name, "h2.other");
  EXPECT_EQ(b.graph.nodes[b["o"].inputs[0]].operation, "LearnableParameter");
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("h3", "o", "h1.t"));
  EXPECT_EQ(b.graph.nodes[b.graph.nodes[b["h3"].inputs[0]].inputs[1]].name, "c");
}

TEST(Ndl, ImagesLieChannelsFirst) {
  const Built b = ndl(R"(
    features = ImageInput(28, 20, 3)
    W = Parameter(16, 75, init=gaussian)
    c = Convolution(W, features, 5, 5, 16, 2, 1, zeroPadding=true)
    bias = Parameter(16, 1, init=fixedValue)
    r = ReLU(Plus(c, bias))
    p = MaxPooling(r, 2, 2, 2, 2)
    V = Parameter(10, 1120)
    z = Times(V, p)
    labels = Input(10)
    ce = CEWithSM(labels, z, tag=criteria)
    q = AveragePooling(ImageInput(8, 8, 2, imageLayout=cudnn), 2, 2, 1, 1, imageLayout=cudnn)
    n = Convolution(ParameterTensor({3, 3, 2, 4}), q, {3, 3}, mapCount=4, stride={1, 1}, autoPadding={true, false})
    s = BatchNormalization(c, bias, bias, Parameter(16, 1, needGradient=false), Parameter(16, 1, needGradient=false), spatial=true, normalizationTimeConstant=100))");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(nums(b["features"], "dims"), ElementsAre(3, 28, 20));
  EXPECT_EQ(graph::text(b["c"], "imageLayout"), "HWC");
  EXPECT_THAT(nums(b["c"], "kernelDims"), ElementsAre(5, 5));
  EXPECT_THAT(nums(b["c"], "stride"), ElementsAre(2, 1));
  EXPECT_THAT(nums(b["c"], "autoPadding"), ElementsAre(1));
  EXPECT_THAT(nums(b["c"], "mapDims"), ElementsAre(16));
  EXPECT_EQ(b.graph.nodes[b["z"].inputs[1]].operation, "Reshape") << "the image becomes a vector";
  EXPECT_THAT(nums(b["q"], "kernelDims"), ElementsAre(2, 2));
  EXPECT_EQ(graph::text(b["q"], "imageLayout"), "cudnn");
  EXPECT_THAT(nums(b["n"], "autoPadding"), ElementsAre(1, 0));
  EXPECT_EQ(graph::number(b.graph.nodes[b["s"].inputs[3]], "learningRateMultiplier", 1), 0);
  EXPECT_NO_THROW(Network(b.graph, {}));
}

TEST(Ndl, OptionsOfFunctionsOfAnyNumberOfInputs) {
  const auto stack = [](const std::string& arguments) {
    return ndl("a = Input(2)\nb = Input(2)\nr = RowStack(" + arguments + ")\nOutputNodes = (r)");
  };
  const Built stacked = stack("a, b, axis=2");
  ASSERT_EQ(stacked.errors, "");
  EXPECT_EQ(num(stacked["r"], "axis"), 2);
  EXPECT_NE(stack("a, b, axsi=2").errors.find("no option 'axsi'"), std::string::npos);
  EXPECT_NE(stack("a, inputs=b").errors.find("no option 'inputs'"), std::string::npos);
}

TEST(Ndl, FilesMayNameSectionsOrBeTheNetwork) {
  const auto dir = std::filesystem::temp_directory_path() / "tutti_ndl_test";
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "whole.ndl") << "x = Input(3)\ny = Twice(x)\nOutputNodes=(y)\n";
  std::ofstream(dir / "macros.ndl") << "Twice(a) { r = Plus(a, a) }\n";
  std::ofstream(dir / "sections.ndl")
      << "load=m\nrun=N\nm=[ Twice(a) = Plus(a, a) ]\nN=[\nx = Input(3)\ny = Twice(x)\n]\n";
  std::ofstream(dir / "broken.ndl") << "x = Input(3)\ny = Twise(x)\n";
  const auto with = [&](const std::string& rest) {
    return from_config("NDLNetworkBuilder = [ ndlMacros = \"" + (dir / "macros.ndl").string() +
                       "\"\n networkDescription = \"" + (dir / rest).string() + "\" ]");
  };
  const Built whole = with("whole.ndl"), sections = with("sections.ndl");
  ASSERT_EQ(whole.errors + sections.errors, "");
  EXPECT_EQ(whole["y.r"].operation, "Plus");
  EXPECT_EQ(sections["y"].operation, "Plus") << "macros of the file go before those of ndlMacros";
  const std::string broken = with("broken.ndl").errors;
  EXPECT_THAT(broken, HasSubstr("broken.ndl:2:5: error: there is no function or macro 'Twise'"));
  EXPECT_THAT(broken, HasSubstr("did you mean 'Twice'?"));
  EXPECT_THAT(with("absent.ndl").errors, HasSubstr("cannot read the network description"));
  std::filesystem::remove_all(dir);
}

TEST(Ndl, OptionsOfMacroCalls) {
  const Built b = ndl(R"(
    Layer(x) { W = Parameter(2, 3)
               t = Times(W, x)
               z = Scale(factor, t) }
    Cost(l, x) { ce = CrossEntropyWithSoftmax(l, x) }
    Tagged(x, tag) = Scale(tag, x)
    features = Input(3); labels = Input(2, tag=label)
    h = Layer(features, factor=2, colour=red)
    o = Tagged(h, tag=3)
    ce = Cost(labels, o, tag="criterion"))");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(b.names_of(b.graph.criteria), ElementsAre("ce.ce")) << "the tag belongs to the result";
  EXPECT_EQ(num(b.graph.nodes[b["h.z"].inputs[0]], "value"), 2) << "an option is known inside of the macro";
  EXPECT_EQ(num(b.graph.nodes[b["o"].inputs[0]], "value"), 3) << "a parameter may be called tag";
  EXPECT_THAT(b.notices, ElementsAre("'colour' of Layer has no effect here because the macro does not use it"));
}

TEST(Ndl, VariablesInWordsAndStrings) {
  const Built b = from_config(R"(
    outer = 3
    NDLNetworkBuilder = [
      layout = "cudnn" ; scale = 2 ; list = "2:2" ; name = 1 ; unused = 5 ; randomSeedOffset = 10
      run = net
      net = [
        features = ImageInput($outer$, 4, 2, imageLayout="$layout$")
        layer$name$ = Parameter(5, 24, init="uniform", initValueScale=-$scale$)
        W = Parameter(5, 24)
        p = MaxPooling(features, 2, 2, 1, 1, imageLayout=$layout$)
        o = Times(layer1, features)
      ]
    ])");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(nums(b["features"], "dims"), ElementsAre(3, 4, 2));
  EXPECT_EQ(num(b["layer1"], "initValueScale"), -2);
  EXPECT_EQ(graph::text(b["p"], "imageLayout"), "cudnn");
  EXPECT_EQ(b.seed("layer1"), 11);
  EXPECT_EQ(b.seed("W"), 12);
  EXPECT_THAT(b.notices,
              ElementsAre("'list' in NDLNetworkBuilder has no effect because the network does not use $list$",
                          "'unused' in NDLNetworkBuilder has no effect because the network does not use $unused$"));
}

TEST(Ndl, UnknownVariablesMatterWhereTheyAreUsed) {
  const auto dir = std::filesystem::temp_directory_path() / "tutti_ndl_variables_test";
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "net.ndl")
      << "Unused(x) { y = BatchNormalization(x, x, x, x, x, engine=$engine$, name=\"$of$\") }\n"
         "x = Input(3)\n";
  const auto with = [&](const std::string& more) {
    std::ofstream(dir / "net.ndl", std::ios::app) << more;
    return from_config("NDLNetworkBuilder = [ networkDescription = \"" + (dir / "net.ndl").string() + "\" ]").errors;
  };
  EXPECT_EQ(with(""), "");
  EXPECT_THAT(with("y = Parameter(3, 4, init=\"$kind$\")\n"),
              HasSubstr("net.ndl:3:26: error: No variable found with the name 'kind'"));
  std::filesystem::remove_all(dir);
}

TEST(Ndl, OlderFormsOfArguments) {
  const Built b = ndl(R"(
    features = ImageInput(8, 8, 3, 1)
    bias = ImageParameter(1, 1, 4, 1, init=fixedValue, imageLayout=CHW)
    filters = ImageParameter(3, 3, 2, 5)
    x = Input(4, 1, dynamicAxis=words); labels = Input(4)
    five = Const(2)
    a = ErrorPrediction(labels, x, Const(3)); c = ErrorPrediction(labels, x, topN=five)
    d = Delay(4, 1, x, delayTime=2); e = PastValue(4, x, 3)
    s = Parameter(4); m = Parameter(4); v = Parameter(4)
    n = BatchNormalization(x, s, s, m, v, engine="cudnn", expAvgFactor=0.5)
    q = BatchNormalization(x, s, s, m, v, eval=true))");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(nums(b["features"], "dims"), ElementsAre(3, 8, 8));
  EXPECT_THAT(nums(b["bias"], "dims"), ElementsAre(1, 1, 4));
  EXPECT_THAT(nums(b["filters"], "dims"), ElementsAre(2, 3, 3, 5));
  EXPECT_EQ(graph::text(b["x"], "dynamicAxis"), "words");
  EXPECT_EQ(num(b["a"], "topN"), 3);
  EXPECT_EQ(num(b["c"], "topN"), 2);
  EXPECT_EQ(num(b["d"], "timeStep"), 2);
  EXPECT_EQ(num(b["e"], "timeStep"), 3);
  EXPECT_EQ(num(b["q"], "blendTimeConstant"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(b.notices.size(), 2u) << "engine and expAvgFactor";
}

TEST(Ndl, LaterFormsOfFunctions) {
  const Built b = ndl(R"(
    x = Input(4); y = Input(2)
    s = Parameter(4); m = Parameter(4); v = Parameter(4); count = Parameter(1)
    a = BatchNormalization(x, s, s, m, v, count, spatial=true, disableRegularization=true)
    r = TimeReverse(x); p = Parallel(x, y); k = RowSlice(start=1, num=2, input=x)
    o = Slice(begin=0, end=2, input=x)
    q = Pooling(x, average, {2}, ceilOutDim=true, includePad=true))");
  ASSERT_EQ(b.errors, "");
  EXPECT_TRUE(std::get<bool>(b["a"].attributes.at("spatial")));
  EXPECT_TRUE(std::get<bool>(b["a"].attributes.at("disableRegularization")));
  EXPECT_EQ(b["r"].operation, "TimeReverse");
  EXPECT_EQ(b["p"].operation, "RowStack");
  EXPECT_EQ(num(b["k"], "end"), 3);
  EXPECT_EQ(num(b["o"], "end"), 2);
  EXPECT_TRUE(std::get<bool>(b["q"].attributes.at("includePad")));
  EXPECT_THAT(b.notices,
              ElementsAre("'runCount' of BatchNormalization has no effect here because the node itself counts "
                          "its samples"));
}

struct Mistake {
  const char *section, *says;
};
class NdlReports : public testing::TestWithParam<Mistake> {};
TEST_P(NdlReports, PlaceAndMessage) {
  const Built b = ndl(GetParam().section);
  EXPECT_THAT(b.errors, HasSubstr("a.cntk:4:"));
  EXPECT_THAT(b.errors, HasSubstr(GetParam().says));
}
INSTANTIATE_TEST_SUITE_P(
    Mistakes, NdlReports,
    testing::Values(Mistake{"x = Input(3); y = Sigmod(x)", "did you mean 'Sigmoid'?"},
                    Mistake{"x = Input(3); y = Sigmoid(z)", "'z' is not defined"},
                    Mistake{"feature = Input(3); y = Sigmoid(features)", "did you mean 'feature'?"},
                    Mistake{"y = Sigmoid(y)", "'y' is defined by itself"},
                    Mistake{"x = Input(3); x = Input(4)", "'x' is defined twice"},
                    Mistake{"x = Input()", "'InputValue' lacks the argument 'dims'"},
                    Mistake{"W = Parameter(3, 4, inits=uniform)", "did you mean 'init'?"},
                    Mistake{"W = Parameter(3, 4, init=unifrom)", "the parameter 'W' has the unknown init 'unifrom'"},
                    Mistake{"W = Parameter(3.5, 4)", "'dims' of the parameter 'W' must be a whole number, not 3.5"},
                    Mistake{"W = Parameter(3, 4, needGradient=maybe)", "must be true or false"},
                    Mistake{"x = Sigmoid(1, 2)", "Sigmoid takes at most 1 arguments"},
                    Mistake{"x = Sigmoid(1, 2)", "fix: it is Sigmoid("},
                    Mistake{"x = Input(3, tag=features)", "there is no such tag"},
                    Mistake{"M(a) { r = Plus(a, a) }; y = M(1, 2)", "'M' takes 1 arguments"},
                    Mistake{"M(a) { r = Plus(a, a) }; y = M()", "'M' lacks the argument 'a'"},
                    Mistake{"M(a) { r = Plus(a, a) }; y = M(1); z = Exp(y.q)", "'y' has no part 'q'"},
                    Mistake{"M(a) { r = M(a) }; y = M(1)", "macros call each other without end"},
                    Mistake{"y = Exp(1 2)", "expected ',' or ')'"}, Mistake{"y = = 3", "expected a value, found '='"},
                    Mistake{"y = 3x", "a name cannot begin with a digit"},
                    Mistake{"y = Exp(\"abc\")", "a node is needed here"},
                    Mistake{"x = ImageInput(3, 4, 2, imageLayout=WHC)",
                            "imageLayout must be 'CHW' or 'HWC', not 'WHC'"},
                    Mistake{"x = Input($dimension$)", "No variable found with the name 'dimension'"},
                    Mistake{"x = Input(3); y = ErrorPrediction(x, x, Exp(x))",
                            "'topN' of ClassificationError 'y' must be a number, not the node 'Exp1'"},
                    Mistake{"x = Input(3); y = Diagonal(x)", "'Diagonal' is not part of this version"},
                    Mistake{"x = Input(3); y = GMMLL(x, x, x, x)", "'GMMLL' is not part of this version"},
                    Mistake{"x = Input(3); y = LSTM(x, x, x, x, x)", "'LSTM' is not part of this version"},
                    Mistake{"3 = 4", "expected a name, found '3'"}));

TEST(Ndl, BlocksAreChecked) {
  EXPECT_THAT(from_config("NDLNetworkBuilder = [ networkDescripton = x ]").errors,
              HasSubstr("did you mean 'networkDescription'?"));
  EXPECT_THAT(from_config("NDLNetworkBuilder = [ run = net ]").errors,
              HasSubstr("there is no section 'net', which run names"));
  EXPECT_THAT(from_config("NDLNetworkBuilder = [ net = [ x = Input(3) ] ]").errors, HasSubstr("names no network"));
}

}  // namespace
}  // namespace tutti::brainscript::ndl_test

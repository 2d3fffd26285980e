// SPDX-License-Identifier: Apache-2.0
// Whole networks: order of evaluation and seeds, names, special node sets, operators on nodes, the layer library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "networks.h"

namespace tutti::brainscript::network_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

double num(const graph::Node& n, const std::string& name) { return std::get<double>(n.attributes.at(name)); }
std::string str(const graph::Node& n, const std::string& name) { return std::get<std::string>(n.attributes.at(name)); }
std::vector<double> nums(const graph::Node& n, const std::string& name) {
  return std::get<std::vector<double>>(n.attributes.at(name));
}

const char* const digits = R"({
  imageShape = 28:28:1; labelDim = 10; featScale = 1/256; Scale{f} = x => Constant(f) .* x
  model = Sequential ( Scale {featScale} : DenseLayer {200, activation=ReLU, init="gaussian", initValueScale=0.1} : LinearLayer {labelDim} )
  features = Input {imageShape}; labels = Input (labelDim); ol = model (features)
  ce = CrossEntropyWithSoftmax (labels, ol); errs = ClassificationError (labels, ol); top5Errs = ClassificationError(labels, ol, topN=5)
  featureNodes = (features); labelNodes = (labels); criterionNodes = (ce); evaluationNodes = (errs : top5Errs); outputNodes = (ol) })";

TEST(Network, DigitsInModernForm) {
  const Built b = build(digits);
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.listing(),
            "labels = InputValue ()\n"
            "model.arrayOfFunctions[2].W = LearnableParameter ()\n"
            "model.arrayOfFunctions[1].arrayOfFunctions[0].W = LearnableParameter ()\n"
            "ol.x.x.ElementTimesArgs[0] = LearnableParameter ()\n"
            "features = InputValue ()\n"
            "ol.x.x = ElementTimes (ol.x.x.ElementTimesArgs[0], features)\n"
            "ol.x._.PlusArgs[0] = Times (model.arrayOfFunctions[1].arrayOfFunctions[0].W, ol.x.x)\n"
            "model.arrayOfFunctions[1].arrayOfFunctions[0].b = LearnableParameter ()\n"
            "ol.x._ = Plus (ol.x._.PlusArgs[0], model.arrayOfFunctions[1].arrayOfFunctions[0].b)\n"
            "ol.x = RectifiedLinear (ol.x._)\n"
            "ol.PlusArgs[0] = Times (model.arrayOfFunctions[2].W, ol.x)\n"
            "model.arrayOfFunctions[2].b = LearnableParameter ()\n"
            "ol = Plus (ol.PlusArgs[0], model.arrayOfFunctions[2].b)\n"
            "ce = CrossEntropyWithSoftmax (labels, ol)\n"
            "errs = ClassificationError (labels, ol)\n"
            "top5Errs = ClassificationError (labels, ol)\n");
  EXPECT_EQ(b.seed("model.arrayOfFunctions[2].W"), 1);
  EXPECT_EQ(b.seed("model.arrayOfFunctions[1].arrayOfFunctions[0].W"), 2);
  EXPECT_THAT(b.names_of(b.graph.criteria), ElementsAre("ce"));
  EXPECT_THAT(b.names_of(b.graph.evaluations), ElementsAre("errs", "top5Errs"));
  EXPECT_THAT(b.names_of(b.graph.features), ElementsAre("features"));
  EXPECT_THAT(b.names_of(b.graph.labels), ElementsAre("labels"));
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("ol"));
  EXPECT_THAT(nums(b["features"], "dims"), ElementsAre(28, 28, 1));
  const graph::Node& w = b["model.arrayOfFunctions[1].arrayOfFunctions[0].W"];
  EXPECT_THAT(nums(w, "dims"), ElementsAre(200, 0));
  EXPECT_EQ(str(w, "init"), "gaussian");
  EXPECT_EQ(num(w, "initValueScale"), 0.1);
  EXPECT_EQ(num(b["ol.PlusArgs[0]"], "inferInputRankToMap"), 0);
  EXPECT_EQ(num(b["top5Errs"], "topN"), 5);
  EXPECT_EQ(num(b["ol.x.x.ElementTimesArgs[0]"], "value"), 1.0 / 256);
  EXPECT_EQ(num(b["ol.x.x.ElementTimesArgs[0]"], "learningRateMultiplier"), 0);
  EXPECT_FALSE(b["ol.x.x.ElementTimesArgs[0]"].attributes.contains("randomSeed"));
}

TEST(Network, NodesKnowTheUsersLine) {
  const Built b =
      build("{ features = Input {3}\n m = Sequential (DenseLayer {4} :\n LinearLayer {2})\n z = m (features) }");
  ASSERT_EQ(b.errors, "");
  const auto shown = [&](const std::string& name) { return render({b[name].where, "here", ""}); };
  EXPECT_THAT(shown("m.arrayOfFunctions[1].W"), HasSubstr("net.cntk:3:2: error: here"));
  EXPECT_THAT(shown("z"), HasSubstr("net.cntk:3:2: error: here"));
  EXPECT_THAT(shown("m.arrayOfFunctions[0].arrayOfFunctions[0].W"), HasSubstr("net.cntk:2:18: error: here"));
  EXPECT_THAT(shown("features"), HasSubstr("net.cntk:1:14: error: here"));
}

TEST(Network, ParametersOfTheLastLayerAreMadeFirst) {
  const Built b = build(R"({
    model = Sequential (EmbeddingLayer {5} : DenseLayer {4} : DenseLayer {3})
    x = Input {7}; y = Input {3}; z = model (x)
    ce = CrossEntropyWithSoftmax (y, z); criterionNodes = (ce) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.seed("model.arrayOfFunctions[2].arrayOfFunctions[0].W"), 1);
  EXPECT_EQ(b.seed("model.arrayOfFunctions[1].arrayOfFunctions[0].W"), 2);
  EXPECT_EQ(b.seed("model.arrayOfFunctions[0].E"), 3);
}

TEST(Network, MembersAreEvaluatedInOrderOfNameAfterTheSpecialOnes) {
  const Built b = build(R"({ a = Parameter (1, 1); B = Parameter (1, 1); c = Parameter (1, 1); z = Parameter (1, 1)
    outputNodes = (z); criterionNodes = (c) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.names(), "c z B a");  // criterionNodes, outputNodes, then upper case before lower case
  EXPECT_EQ(b.seed("c"), 1);
  EXPECT_EQ(b.seed("z"), 2);
  EXPECT_EQ(b.seed("B"), 3);
  EXPECT_EQ(b.seed("a"), 4);
}

TEST(Network, AMemberCanForceAnOrder) {
  const Built b = build("{ A1 = w1; w2 = Parameter (1, 1); w1 = Parameter (1, 1) }");
  EXPECT_EQ(b.seed("w1"), 1);
  EXPECT_EQ(b.seed("w2"), 2);
}

TEST(Network, OnlyRandomParametersWithoutASeedOfTheirOwnTakeFromTheCounter) {
  const Built b = build(R"({ a = Parameter (2, 2, init='fixedValue', value=3); b = Parameter (2, 2, randomSeed=77)
    c = Constant (1); d = Parameter (2, 2, init='zero'); e = Parameter (2, 2); f = Parameter (2, 2, init='heNormal', randomSeed=0)
    g = ParameterTensor {2:2, init='bilinear'}; h = Parameter (2, 2, initFromLiteral='1 2
 3 4'); i = Parameter (2, 2, init='xavier') })");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b.seed("b"), 77);
  EXPECT_EQ(b.seed("f"), 0);
  EXPECT_EQ(b.seed("e"), 1);
  EXPECT_EQ(b.seed("i"), 2);
  for (const char* name : {"a", "c", "d", "g", "h"}) EXPECT_FALSE(b[name].attributes.contains("randomSeed")) << name;
}

TEST(Network, ConstantRandomSeedAndACounterCarriedOn) {
  BuildContext constant;
  constant.force_constant_seed = true;
  const Built forced = build("{ a = Parameter (1, 1); b = Parameter (1, 1, randomSeed=5) }", constant);
  EXPECT_EQ(forced.seed("a"), 1);
  EXPECT_EQ(forced.seed("b"), 1);
  std::int64_t seed = 1;
  BuildContext counting;
  counting.seed = &seed;
  EXPECT_EQ(build("{ a = Parameter (1, 1); b = Parameter (1, 1) }", counting).seed("b"), 2);
  EXPECT_EQ(build("{ a = Parameter (1, 1) }", counting).seed("a"), 3);
}

TEST(Parameters, ChooseTheirInitialiser) {
  const Built b =
      build(R"({ a = Parameter (2, 3); b = Parameter (2, 3, initValue=4); c = Parameter (2, 2, initValue=1:2:3:4)
    d = Parameter (0, 0, initFromLiteral='1 2 3
4 5 6'); e = ParameterTensor {0, initValue=5:6}; f = Parameter (7); g = ParameterTensor {2:3, init='zero'}
    h = Parameter {3, 0, init='glorotUniform', initValueScale=2, learningRateMultiplier=0.5} 
    k = ConstantTensor (3, 2:4); l = ConstantFromString ('1 2'); m = Constant (5, rows=2, cols=3); n = CNTK2.Parameter {3:4}
    o = ParameterTensor {3:3:0:8, init='heNormal', initFilterRank=2, initOutputRank=-1} })");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(str(b["a"], "init"), "uniform");
  EXPECT_EQ(str(b["b"], "init"), "fixedValue");
  EXPECT_EQ(num(b["b"], "value"), 4);
  EXPECT_EQ(str(b["c"], "initFromLiteral"), "1 3\n2 4\n");  // column by column
  EXPECT_THAT(nums(b["d"], "dims"), ElementsAre(2, 3));
  EXPECT_THAT(nums(b["e"], "dims"), ElementsAre(2));
  EXPECT_THAT(nums(b["f"], "dims"), ElementsAre(7));
  EXPECT_EQ(str(b["g"], "init"), "fixedValue");
  EXPECT_EQ(num(b["g"], "value"), 0);
  EXPECT_EQ(num(b["h"], "initValueScale"), 2);
  EXPECT_EQ(num(b["h"], "learningRateMultiplier"), 0.5);
  EXPECT_THAT(nums(b["k"], "dims"), ElementsAre(2, 4));
  EXPECT_THAT(nums(b["l"], "dims"), ElementsAre(1, 2));
  EXPECT_THAT(nums(b["m"], "dims"), ElementsAre(2, 3));
  EXPECT_EQ(num(b["m"], "value"), 5);
  EXPECT_THAT(nums(b["n"], "dims"), ElementsAre(3, 4));
  EXPECT_EQ(num(b["o"], "initOutputRank"), -1);
  EXPECT_EQ(num(b["o"], "initFilterRank"), 2);
  EXPECT_THAT(b.notices, IsEmpty());
}

TEST(Parameters, AValueWithoutFixedValueIsNamedAsIgnored) {
  const Built b = build("{ a = Parameter (2, 3, value=1) }");
  EXPECT_EQ(str(b["a"], "init"), "uniform");
  ASSERT_EQ(b.notices.size(), 1u);
  EXPECT_THAT(b.notices[0], HasSubstr("net.cntk:1:7: warning: value= has no effect on the parameter 'a'"));
  EXPECT_THAT(build("{ a = Parameter (2, 3, init='fixedValue', value=1) }").notices, IsEmpty());
}

TEST(Parameters, AFileBesideAnotherInitIsNamedAsIgnored) {
  const Built b = build("{ a = Parameter (2, 3, init='gaussian', initFromFilePath='w.txt') }");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(str(b["a"], "init"), "gaussian");
  ASSERT_EQ(b.notices.size(), 1u);
  EXPECT_THAT(b.notices[0], HasSubstr("net.cntk:1:7: warning: initFromFilePath= has no effect on the parameter 'a'"));
}

TEST(Names, FollowThePathOfDefinition) {
  const Built b = build(R"({ features = Input {2}; w = Parameter (2, 2); b = Parameter (2, 1)
    p = Sigmoid (w * features + b); q = w * features + b
    r = { inner = Tanh (features); deep = { v = Exp (inner) } }; s = r.deep.v
    x[i:0..1] = features .* (i + 2); t = x[1] + x[0] })");
  ASSERT_EQ(b.errors, "");
  for (const char* name :
       {"p", "p._", "p._.PlusArgs[0]", "q", "q.PlusArgs[0]", "r.inner", "r.deep.v", "x[0]", "x[1]", "t"})
    EXPECT_NO_THROW(b[name]) << b.names();
}

TEST(Names, OfTopMembersAndOfSpecialNodesAreTheMembersOwn) {
  const Built b = build(R"({ f = Input {2}; z = BFF (f, 3, 2).z; h = SBFF (z, 4, 3); tools = { ce = SumElements (h.Eh) }
    loss = tools.ce; criterionNodes = (loss); alias = f })");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(b["z"].operation, "Plus");
  EXPECT_THAT(b.names_of(b.graph.criteria), ElementsAre("loss"));
  EXPECT_EQ(b["f"].operation, "InputValue");
  EXPECT_NO_THROW(b["h.Eh"]);
  EXPECT_NO_THROW(b["z.W"]);
}

TEST(Names, StayUniqueWhenPathsMeet) {
  const Built b =
      build("{ f = Input {2}; m = Sequential (Tanh : LinearLayer {3}); z = m (f + 1); y = Square (Exp (Log (f))) }");
  ASSERT_EQ(b.errors, "");
  std::vector<std::string> names;
  for (const auto& n : b.graph.nodes) names.push_back(n.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << b.names();
}

TEST(SpecialSets, FromTagsAndFromLists) {
  const Built b = build(R"({ x = Input (2); y = Input (2, tag='label'); c = SquareError (x, y, tag='criterion')
    e = SquareError (y, x, tag='eval'); o = Plus (x, y, tag='output'); o2 = Minus (x, y); outputNodes = (o2)
    e2 = SquareError (x, x, tag='evaluation') })");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(b.names_of(b.graph.features), ElementsAre("x"));
  EXPECT_THAT(b.names_of(b.graph.labels), ElementsAre("y"));
  EXPECT_THAT(b.names_of(b.graph.criteria), ElementsAre("c"));
  EXPECT_THAT(b.names_of(b.graph.evaluations), ElementsAre("e", "e2"));
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("o2", "o"));
}

TEST(SpecialSets, AMisspeltOneIsNoticed) {
  const Built b = build("{ x = Input {2}; evalNodes = (x); criterionNode = (x); myNodes = 3 }");
  ASSERT_EQ(b.notices.size(), 1u);
  EXPECT_THAT(b.notices[0], HasSubstr("net.cntk:1:18: warning: 'evalNodes' is no special node set"));
  EXPECT_THAT(build("{ x = Input {2}; FeatureNodes = (x) }").notices[0], HasSubstr("did you mean 'featureNodes'?"));
}

TEST(Operators, OnNodes) {
  const Built b = build(R"({ x = Input {3}; W = Parameter (3, 3)
    a = W * x; b = x .* x; c = x + 1; d = 2 * x; e = x / 4; f = 1 / x; g = -x; h = !x; i = x < 0; j = x && x; k = x - x
    l = if x > 0 then x else 0; m = +x; n = x != x; o = x >= 1; p = x <= 1; q = x == 1 })");
  ASSERT_EQ(b.errors, "");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"a", "Times"},        {"b", "ElementTimes"}, {"c", "Plus"},      {"d", "ElementTimes"},
      {"e", "ElementTimes"}, {"f", "Reciprocal"},   {"g", "Negate"},    {"h", "Minus"},
      {"i", "Less"},         {"j", "ElementTimes"}, {"k", "Minus"},     {"l", "If"},
      {"n", "NotEqual"},     {"o", "GreaterEqual"}, {"p", "LessEqual"}, {"q", "Equal"}};
  for (const auto& [name, operation] : expected) EXPECT_EQ(b[name].operation, operation) << name;
  EXPECT_EQ(num(b.graph.nodes[b["e"].inputs[1]], "value"), 0.25);
  EXPECT_EQ(num(b.graph.nodes[b["h"].inputs[0]], "value"), 1);
  EXPECT_EQ(b.graph.nodes[b["h"].inputs[1]].name, "x");
}

// Along an axis the softmax criteria have a value for each sample, as in CNTK.
TEST(Library, CriteriaAlongAnAxis) {
  const Built b = build(R"({ y = Input {2:3}; z = Input {2:3}
    a = CrossEntropyWithSoftmax (y, z, axis=1); b = ClassificationError (y, z, axis=1)
    c = CNTK2.CrossEntropyWithSoftmax (y, z, axis=2); d = CNTK2.ClassificationError (y, z, axis=2)
    e = CrossEntropyWithSoftmax (y, z); f = CNTK2.ClassificationError (y, z, topN=2) })");
  ASSERT_EQ(b.errors, "");
  for (const char* name : {"a", "c"}) EXPECT_EQ(b[name].operation, "Minus") << name;
  for (const char* name : {"b", "d"}) EXPECT_EQ(b[name].operation, "ReduceElements") << name;
  EXPECT_EQ(num(b.graph.nodes[b["c"].inputs[0]], "axis"), 2);
  EXPECT_EQ(b["e"].operation, "CrossEntropyWithSoftmax");
  EXPECT_EQ(num(b["f"], "topN"), 2);
}

TEST(Library, OperationsWithTheirAttributes) {
  const Built b = build(R"({ x = Input {2:3:4}; v = Input {6}
    a = Slice (1, 3, v); b = Slice (0, -1, x, axis=2); c = RowSlice (2, 3, v); d = RowStack (v : v); e = Splice (x : x, axis=3)
    f = RowRepeat (v, 3); g = NewReshape (v, 2:3); h = ReshapeDimension (x, 1, 2:1); i = FlattenDimensions (x, 1, 2)
    j = SplitDimension (v, 1, 3); k = Transpose (g); l = TransposeDimensions (x, 1, 3); m = Reshape (v, 6)
    n = ReduceMean (v); o = ReduceSum (x, axis=2); p = Softmax (v, axis=1); q = Clip (0, 1, v); r = Square (v)
    s = ElementDivide (v, v); t = ErrorPrediction (v, v); u = CNTK2.Slice (v, 0, 2); w = BS.Boolean.If (v, v, v)
    y = Times (ParameterTensor {2:3:6}, v, outputRank=2); z = TransposeTimes (ParameterTensor {6:2}, v)
    zz = Input (4, dynamicAxis='words', sparse=true); ax = DynamicAxis {}; zy = Input (4, dynamicAxis=ax) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(num(b["b"], "end"), -1);
  EXPECT_EQ(num(b["b"], "axis"), 2);
  EXPECT_EQ(num(b["c"], "begin"), 2);
  EXPECT_EQ(num(b["c"], "end"), 5);
  EXPECT_EQ(b["d"].inputs.size(), 2u);
  EXPECT_EQ(num(b["e"], "axis"), 3);
  EXPECT_EQ(num(b["f"], "numRepeats"), 3);
  EXPECT_THAT(nums(b["g"], "dims"), ElementsAre(2, 3));
  EXPECT_EQ(num(b["h"], "endAxis"), 2);
  EXPECT_THAT(nums(b["i"], "dims"), ElementsAre(0));
  EXPECT_EQ(num(b["i"], "endAxis"), 3);
  EXPECT_THAT(nums(b["j"], "dims"), ElementsAre(0, 3));
  EXPECT_EQ(num(b["l"], "axis2"), 3);
  EXPECT_EQ(str(b["n"], "op"), "Mean");
  EXPECT_FALSE(b["n"].attributes.contains("axis"));
  EXPECT_EQ(num(b["o"], "axis"), 2);
  EXPECT_EQ(num(b["p"], "axis"), 1);
  EXPECT_EQ(b["q"].inputs.size(), 3u);
  EXPECT_EQ(b["r"].inputs[0], b["r"].inputs[1]);
  EXPECT_EQ(b.graph.nodes[b["s"].inputs[1]].operation, "Reciprocal");
  EXPECT_EQ(num(b["t"], "topN"), 1);
  EXPECT_EQ(num(b["y"], "outputRank"), 2);
  EXPECT_EQ(str(b["zz"], "dynamicAxis"), "words");
  EXPECT_EQ(str(b["zy"], "dynamicAxis"), "ax");
}

TEST(Network, NewNodesAreConfiguredByTheirRecordAndTheFunctionAround) {
  const Built b =
      build(R"({ axis = 7; x = Input {3}; f (z, axis=1) = new ComputationNode { operation = 'Softmax'; inputs = z }
    a = new ComputationNode { operation = 'Softmax'; inputs = x }; b = f (x); c = f (x, axis=0)
    d = new ComputationNode { operation = 'Softmax'; inputs = x; axis = 1; tag = 'output' } })");
  ASSERT_EQ(b.errors, "");
  EXPECT_FALSE(b["a"].attributes.contains("axis"));
  EXPECT_EQ(num(b["b"], "axis"), 1);
  EXPECT_EQ(num(b["c"], "axis"), 0);
  EXPECT_EQ(num(b["d"], "axis"), 1);
  EXPECT_THAT(b.names_of(b.graph.outputs), ElementsAre("d"));
}

TEST(Library, LayersHaveTheirShapes) {
  const Built b = build(R"({ x = Input {6}; s = Input {2:3}
    lin = LinearLayer {4, bias=false} (x); den = DenseLayer {2:2, activation=Tanh, initBias=1} (x); ten = LinearLayer {5} (s)
    mapped = LinearLayer {4, mapRank=1} (s); ranked = LinearLayer {4, inputRank=2} (s)
    emb = EmbeddingLayer {3} (x); tra = EmbeddingLayer {3, transpose=true} (x); sta = StabilizerLayer {} (x)
    lay = LayerNormalizationLayer {} (x); mvn = FeatureMVNLayer {} (x); pri = LogPriorLayer {} (x)
    par = Parallel ((LinearLayer {2} : LinearLayer {3}), Splice) (x); mrg = MergeBinary ((Sigmoid : Tanh), Plus) (x, x .* 2)
    stk = LayerStack {3, i => DenseLayer {i + 2}} (x); one = Sequential (Sigmoid) (x); two = (Sigmoid >> Tanh) (x)
    dims = lin.dim : den.dim : ten.dim : mapped.dim : ranked.dim : emb.dim : tra.dim : sta.dim : lay.dim : mvn.dim : par.dim : mrg.dim : stk.dim
    print = Print (dims) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_THAT(b.notices, ElementsAre(HasSubstr(": note: (4:4:5:12:4:3:3:6:6:6:5:6:4)")));
  EXPECT_THAT(build("{ a = Print (3, format='%.1f') }").notices, ElementsAre("net.cntk:1:7: note: 3.0"));
  EXPECT_THROW(b["lin.b"], std::runtime_error);
  EXPECT_EQ(num(b["den.arrayOfFunctions[0].b"], "value"), 1);
  EXPECT_EQ(b["mrg"].operation, "Plus");
  EXPECT_EQ(b.graph.nodes[b[b.graph.nodes[b["mrg"].inputs[1]].name].inputs[0]].operation, "ElementTimes")
      << "of its own input";
  EXPECT_EQ(b["two"].operation, "Tanh");
  EXPECT_EQ(num(b["sta.p"], "value"), 0.99537863);
  EXPECT_NO_THROW(b["stk.arrayOfFunctions[2].arrayOfFunctions[0].W"]);
  EXPECT_EQ(b.seed("par.arrayOfFunctions[0].W") + 1, b.seed("par.arrayOfFunctions[1].W"));
}

TEST(Library, AnEmbeddingFromAFileIsNotTrained) {
  const auto path = std::filesystem::temp_directory_path() / "tutti_embedding_test.txt";
  std::ofstream(path) << "1 2 3\n4 5 6\n";
  const Built b = build("{ x = Input {3}; e = EmbeddingLayer {2, embeddingPath='" + path.string() + "'} (x) }");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(str(b["e.E"], "init"), "fromFile");
  EXPECT_EQ(num(b["e.E"], "learningRateMultiplier"), 0);
  EXPECT_FALSE(b["e.E"].attributes.contains("randomSeed"));
  std::filesystem::remove(path);
}

TEST(Library, OrthogonalLayersKnowTheirOutputs) {
  const Built b = build(R"({ x = Input {6}
    plain = LinearLayer {2:2} (x); many = LinearLayer {2:2, init='orthogonal'} (x); one = LinearLayer {4, init='orthogonal'} (x) })");
  ASSERT_EQ(b.errors, "");
  EXPECT_EQ(num(b["plain.W"], "initOutputRank"), 1);
  EXPECT_EQ(num(b["many.W"], "initOutputRank"), 2);
  EXPECT_EQ(num(b["one.W"], "initOutputRank"), 1);
}

TEST(Library, AFunctionSharesItsParametersAmongItsApplications) {
  const Built b = build("{ x = Input {3}; y = Input {3}; f = LinearLayer {2}; p = f (x); q = f (y) }");
  EXPECT_EQ(b["p.PlusArgs[0]"].inputs[0], b["q.PlusArgs[0]"].inputs[0]);
}

TEST(Network, FormsAndVariables) {
  EXPECT_EQ(build("[ x = Input (3) ]").names(), "x");
  EXPECT_EQ(build("(new ComputationNetwork { x = Input (3) })").names(), "x");
  EXPECT_EQ(build("( if deviceId < 0 && precision == 'float' then { x = Input (3) } else { y = Input (3) } )").names(),
            "x");
  EXPECT_EQ(build("{ Sigmoid (x) = Tanh (x); z = Sigmoid (Input {2}) }")["z"].operation, "Tanh");
  EXPECT_EQ(build("{ r = { never = Parameter (1, 1) }; f (x) = Parameter (1, 1) }").names(), "");
}

TEST(Network, IncludesFilesFromTheDirectoryOfTheConfig) {
  const auto dir = std::filesystem::temp_directory_path() / "tutti_include_test";
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "layers.bs") << "# shared\ninclude \"inner.bs\"\nTwice (x) = x + x\n";
  std::ofstream(dir / "inner.bs") << "three = 3\n";
  std::ofstream(dir / "loop.bs") << "include 'loop.bs'\n";
  std::ofstream(dir / "broken.bs") << "a = 1\nb = = 2\n";
  const auto with = [&](const std::string& text) {
    Problems problems;
    BuildContext context;
    context.problems = &problems;
    auto source = std::make_shared<Source>(Source{(dir / "main.cntk").string(), text, nullptr});
    Built b;
    b.graph = build_network({{text, source, 0, false}, {}, {}}, context);
    try {
      problems.throw_if_any();
    } catch (const ConfigError& e) {
      b.errors = e.what();
    }
    return b;
  };
  EXPECT_EQ(with("{ include \"layers.bs\"\n x = Input {three}; y = Twice (x) }").names(), "x y");
  EXPECT_THAT(with("{ include 'loop.bs' }").errors, HasSubstr("'loop.bs' includes itself"));
  EXPECT_THAT(with("{ include 'broken.bs' }").errors, HasSubstr("broken.bs:2:5: error: expected a value, found '='"));
  EXPECT_THAT(with("{ include 'broken.bs' }").errors, HasSubstr("main.cntk:1:11"));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace tutti::brainscript::network_test

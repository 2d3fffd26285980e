// SPDX-License-Identifier: Apache-2.0
// Models of CNTK as graphs: every class of nodes, the differences between format versions, and what is refused.
#include "cntk/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cntk/checkpoint.h"
#include "cntk/node_types.h"
#include "graph/kernel.h"
#include "graph/shapes.h"
#include "model_writer.h"
#include "tutti/error.h"

namespace tutti::cntk::model_test {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Model read(const WrittenModel& m) { return read_model(ByteReader("m.dnn", m.bytes())); }

const graph::Node& node(const Model& m, const std::string& name) {
  const auto found = std::ranges::find(m.graph.nodes, name, &graph::Node::name);
  EXPECT_NE(found, m.graph.nodes.end()) << name;
  return *found;
}
std::vector<std::string> names(const Model& m, const std::vector<std::size_t>& nodes) {
  std::vector<std::string> all;
  for (const auto n : nodes) all.push_back(m.graph.nodes[n].name);
  return all;
}
std::vector<std::string> inputs(const Model& m, const std::string& name) { return names(m, node(m, name).inputs); }
std::vector<float> values(const Model& m, const std::string& name) { return *node(m, name).start; }

std::string error_of(const WrittenModel& m) {
  try {
    read(m);
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

TEST(CntkModel, HasNodesInputsValuesAndSets) {
  for (const char* precision : {"float", "double"})
    for (std::uint64_t version = oldest_version; version <= newest_version; ++version) {
      SCOPED_TRACE(std::to_string(version) + precision);
      const Model m = read(small_model(version, precision));
      EXPECT_EQ(m.version, version);
      EXPECT_EQ(m.double_precision, std::string(precision) == "double");
      EXPECT_EQ(m.graph.nodes.size(), 8u);
      EXPECT_EQ(values(m, "W"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
      EXPECT_EQ(graph::numbers(node(m, "W"), "dims"), (std::vector<double>{3, 2}));
      EXPECT_THAT(inputs(m, "product"), ElementsAre("W", "features"));
      EXPECT_EQ(node(m, "errs").operation, "ClassificationError");
      EXPECT_THAT(names(m, m.graph.features), ElementsAre("features"));  // labels are not features as well
      EXPECT_THAT(names(m, m.graph.labels), ElementsAre("labels"));
      EXPECT_THAT(names(m, m.graph.criteria), ElementsAre("ce"));
      EXPECT_THAT(names(m, m.graph.evaluations), ElementsAre("errs"));
      EXPECT_THAT(names(m, m.graph.outputs), ElementsAre("z"));
      EXPECT_THAT(trained_parameters(m.graph), ElementsAre("W", "b"));
    }
}

TEST(CntkModel, HasNodesOfEveryKind) {
  for (std::uint64_t version = oldest_version; version <= newest_version; ++version) {
    SCOPED_TRACE(version);
    Model m = read(model_of_every_kind(version));
    EXPECT_EQ(graph::flag(node(m, "words"), "sparse", false), true);
    EXPECT_EQ(node(m, "halved").operation, "ElementTimes");
    EXPECT_EQ(graph::number(node(m, "first"), "end", 0), 2);
    EXPECT_EQ(graph::number(node(m, "repeated"), "numRepeats", 0), 2);
    EXPECT_EQ(graph::numbers(node(m, "flat"), "dims"), (std::vector<double>{8}));
    EXPECT_EQ(graph::text(node(m, "sum"), "op"), "Sum");
    EXPECT_FLOAT_EQ(static_cast<float>(graph::number(node(m, "before"), "defaultHiddenActivation", 0)), 0.1f);
    EXPECT_EQ(graph::text(node(m, "small"), "poolingType"), "max");
    EXPECT_EQ(graph::text(node(m, "shown"), "say"), "say");
    EXPECT_EQ(graph::number(node(m, "shown"), "onlyUpToT", 0), 4);
    EXPECT_EQ(values(m, "average"), (std::vector<float>{1, 2}));
    EXPECT_TRUE(graph::flag(node(m, "average"), "precomputed", false));
    std::vector<std::size_t> all;
    for (std::size_t n = 0; n < m.graph.nodes.size(); ++n) all.push_back(n);
    const auto shapes = graph::infer_graph(m.graph, graph::evaluation_order(m.graph, all));
    const auto shape = [&](const std::string& name) {
      return to_string(shapes[static_cast<std::size_t>(&node(m, name) - m.graph.nodes.data())].shape);
    };
    EXPECT_EQ(shape("maps"), "[4 x 4 x 3]");
    EXPECT_EQ(shape("pooled"), "[4 x 4 x 3]");
    EXPECT_EQ(shape("small"), "[2 x 2 x 3]");
    EXPECT_EQ(shape("turned"), "[2 x 4]");
  }
}

// Every row of the table is an operation of ours, or says why it is left out.
TEST(CntkModel, KnowsOnlyOperationsOfOurs) {
  for (const char* name : {"LearnableParameter",
                           "InputValue",
                           "SparseInputValue",
                           "Mean",
                           "InvStdDev",
                           "Times",
                           "TransposeTimes",
                           "DiagTimes",
                           "KhatriRaoProduct",
                           "LookupTable",
                           "ElementTimes",
                           "ColumnElementTimes",
                           "RowElementTimes",
                           "Scale",
                           "Plus",
                           "Minus",
                           "LogPlus",
                           "Less",
                           "Equal",
                           "Greater",
                           "GreaterEqual",
                           "NotEqual",
                           "LessEqual",
                           "If",
                           "Clip",
                           "Negate",
                           "Reciprocal",
                           "Sigmoid",
                           "Tanh",
                           "RectifiedLinear",
                           "Exp",
                           "Log",
                           "Sqrt",
                           "Abs",
                           "Floor",
                           "Sin",
                           "Cosine",
                           "Pass",
                           "Softmax",
                           "LogSoftmax",
                           "Hardmax",
                           "Trace",
                           "CrossEntropyWithSoftmax",
                           "CrossEntropy",
                           "SquareError",
                           "Logistic",
                           "ClassificationError",
                           "ErrorPrediction",
                           "ClassBasedCrossEntropyWithSoftmax",
                           "MatrixL1Reg",
                           "MatrixL2Reg",
                           "CosDistance",
                           "CosDistanceWithNegativeSamples",
                           "LambdaRank",
                           "NDCG1Eval",
                           "DummyCriterion",
                           "SumElements",
                           "SumColumnElements",
                           "ReduceElements",
                           "Slice",
                           "RowSlice",
                           "RowStack",
                           "RowRepeat",
                           "Reshape",
                           "LegacyReshape",
                           "TransposeDimensions",
                           "Transpose",
                           "Convolution",
                           "Pooling",
                           "MaxPooling",
                           "AveragePooling",
                           "MaxUnpooling",
                           "ROIPooling",
                           "BatchNormalization",
                           "PastValue",
                           "FutureValue",
                           "Delay",
                           "Where",
                           "PackedIndex",
                           "GatherPacked",
                           "ScatterPacked",
                           "ReconcileDynamicAxis",
                           "ReconcileMBLayout",
                           "DynamicAxis",
                           "Dropout",
                           "PerDimMeanVarNormalization",
                           "PerDimMeanVarDeNormalization",
                           "PerDimMeanVarNormalizationNode",
                           "PerDimMeanVarDeNormalizationNode"}) {
    const NodeType* const type = find_type(name);
    ASSERT_TRUE(type) << name;
    const std::string operation(type->operation.empty() ? name : type->operation);
    EXPECT_TRUE(!type->left_out.empty() || graph::find_operation(operation)) << name;
  }
  EXPECT_FALSE(find_type("Plus Minus"));
  EXPECT_FALSE(find_type(""));
}

// Before version 13 the deviation is stored inverted, and minibatches are counted.
TEST(CntkModel, ConvertsDeviationsOfOldVersions) {
  const auto written = [](std::uint64_t version) {
    WrittenModel m{version, "float", {}, {}, {}, {}, {}, {}};
    m.input("x", {2}).parameter("scale", {2}, {1, 1}).parameter("bias", {2}, {0, 0});
    m.parameter("mean", {2}, {0, 0}).parameter("deviation", {2}, {2, 0});
    for (const char* name : {"n", "again"})
      m.add("BatchNormalization", name, {"x", "scale", "bias", "mean", "deviation"}, normalization(3, 0.125, false));
    m.outputs = {"n"};
    return m;
  };
  const Model before = read(written(12)), since = read(written(13));
  EXPECT_EQ(values(before, "deviation"), (std::vector<float>{0.25f + 0.125f, 1e30f}));
  EXPECT_EQ(values(since, "deviation"), (std::vector<float>{2, 0}));
  EXPECT_EQ(graph::samples_seen(values(before, "n").data()), 48);
  EXPECT_EQ(graph::samples_seen(values(since, "n").data()), 3);
  ASSERT_EQ(before.notes.size(), 1u);
  EXPECT_THAT(before.notes[0], HasSubstr("1 running deviation was converted to variances"));
  EXPECT_TRUE(since.notes.empty());
  // Running statistics are not trained, whatever the file says.
  EXPECT_EQ(graph::number(node(since, "mean"), "learningRateMultiplier", 1), 0);
  EXPECT_EQ(graph::number(node(since, "scale"), "learningRateMultiplier", 0), 1);
}

// 16: a seed of 4 or 8 bytes and an offset; 17 and later: 8 bytes; before: nothing.
TEST(CntkModel, SkipsTheStateOfGenerators) {
  for (const auto& [version, seed] : {std::pair(15, 0), {16, 4}, {16, 8}, {17, 8}, {18, 8}})
    for (const bool last : {true, false}) {
      SCOPED_TRACE(std::to_string(version) + " " + std::to_string(seed));
      WrittenModel m{static_cast<std::uint64_t>(version), "float", {}, {}, {}, {}, {}, {}};
      m.input("x", {2});
      Bytes state;
      if (seed == 4) state.number<std::uint32_t>(7).u64(9);
      if (seed == 8) state.u64(7).u64(9);
      m.add("Dropout", "d", {"x"}, state);
      if (!last) m.add("Tanh", "t", {"d"});
      EXPECT_EQ(read(m).graph.nodes.size(), last ? 2u : 3u);
    }
}

TEST(CntkModel, TurnsConstantsIntoAttributes) {
  WrittenModel m = small_model();
  m.parameter("two", {1}, {2}, 0).parameter("three", {1, 1}, {3}, 0).input("weights", {1});
  m.add("ClassificationError", "top", {"labels", "z", "two"});
  m.add("CosDistanceWithNegativeSamples", "cos", {"labels", "z", "two", "three"});
  m.add("Logistic", "plain", {"labels", "z"}).add("Logistic", "weighted", {"labels", "z", "weights"});
  const Model read_back = read(m);
  EXPECT_EQ(graph::number(node(read_back, "top"), "topN", 0), 2);
  EXPECT_THAT(inputs(read_back, "top"), ElementsAre("labels", "z"));
  EXPECT_EQ(graph::number(node(read_back, "cos"), "shift", 0), 2);
  EXPECT_EQ(graph::number(node(read_back, "cos"), "negatives", 0), 3);
  EXPECT_EQ(node(read_back, "plain").operation, "Logistic");
  EXPECT_EQ(node(read_back, "weighted").operation, "WeightedLogistic");
  m.nodes.back().type = "ClassificationError";
  EXPECT_THAT(error_of(m), HasSubstr("topN ('weights') is not a constant number"));
}

TEST(CntkModel, HasDynamicAxesAtItsInputs) {
  WrittenModel m{};
  m.input("x", {2}, "t").add("DynamicAxis", "t").input("y", {2});
  const Model read_back = read(m);
  EXPECT_EQ(read_back.graph.nodes.size(), 2u);
  EXPECT_EQ(graph::text(node(read_back, "x"), "dynamicAxis"), "t");
  EXPECT_EQ(graph::text(node(read_back, "y"), "dynamicAxis"), "");
}

// The layout HWC has the maps of a filter first in memory.
TEST(CntkModel, TurnsFiltersOfTheOldLayout) {
  for (const std::int32_t layout : {0, 1}) {
    WrittenModel m{};
    m.input("image", layout == 0 ? std::vector<std::uint32_t>{1, 3, 3} : std::vector<std::uint32_t>{3, 3, 1});
    m.parameter("w", {2, 4}, {1, 10, 2, 20, 3, 30, 4, 40});
    m.add("Convolution", "c", {"w", "image"}, convolution(18, {2, 2, 1}, 2, layout));
    const Model read_back = read(m);
    EXPECT_EQ(values(read_back, "w"), layout == 0 ? (std::vector<float>{1, 2, 3, 4, 10, 20, 30, 40})
                                                  : (std::vector<float>{1, 10, 2, 20, 3, 30, 4, 40}));
    EXPECT_EQ(filters_with_maps_first(read_back.graph).size(), layout == 0 ? 1u : 0u);
  }
}

TEST(CntkModel, LeavesOutWhatOtherProgramsDerive) {
  WrittenModel m = small_model();
  m.input("objective", {1}).input("derivatives", {3});
  m.add("DummyCriterion", "cr", {"objective", "derivatives", "z"}).criteria = {"cr"};
  const Model read_back = read(m);
  EXPECT_TRUE(read_back.graph.criteria.empty());
  EXPECT_THAT(read_back.notes, ElementsAre(HasSubstr("the node 'cr' (DummyCriterion) is left out")));
  m.add("Plus", "sum", {"cr", "ce"});
  EXPECT_THAT(error_of(m), HasSubstr("'sum' needs it, but it is not supported"));
}

// As CNTK does: labels of an input beside a value on the axis of a Where.
TEST(CntkModel, ReconcilesAxes) {
  WrittenModel m{};
  m.input("words", {1}, "t").input("label", {1});
  m.add("Where", "where", {"words"}, Bytes().text("WhereNodeAxis")).add("PackedIndex", "index", {"words", "where"});
  m.add("GatherPacked", "last", {"index", "words"}).add("SquareError", "se", {"label", "last"});
  m.criteria = {"se"};
  const Model read_back = read(m);
  EXPECT_EQ(read_back.graph.nodes.size(), 7u);
  EXPECT_EQ(read_back.notes.size(), 1u);
}

TEST(CntkModel, RefusesOtherVersionsAndUnknownClasses) {
  EXPECT_THAT(error_of(small_model(6)),
              HasSubstr("'m.dnn' is a model of CNTK in format version 6; versions 7 to 18 are read"));
  EXPECT_THAT(error_of(small_model(19)), HasSubstr("format version 19"));
  WrittenModel m = small_model();
  m.add("OptimizedRNNStack", "rnn", {"W", "features"});
  EXPECT_THAT(error_of(m),
              HasSubstr("the node 'rnn' is of the class 'OptimizedRNNStack', which this version does not know"));
}

TEST(CntkModel, RefusesContradictions) {
  WrittenModel m = small_model();
  m.add("Tanh", "z", {"b"});
  EXPECT_THAT(error_of(m), HasSubstr("two nodes are called 'z'"));
  m = small_model();
  m.outputs = {"nowhere"};
  EXPECT_THAT(error_of(m), HasSubstr("a special node is 'nowhere', but there is no such node"));
  m = small_model();
  m.add("Tanh", "t", {"z", "b"});
  EXPECT_THAT(error_of(m), HasSubstr(", node 't' (Tanh): it has 2 inputs"));
  m = small_model();
  m.nodes[2].content = Bytes().number(1.0f).shape({3, 3}).matrix<float>(3, 2, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(error_of(m), HasSubstr("the shape of a parameter has 9 elements, its matrix 3 x 2"));
  m = small_model();
  m.add("Mean", "mean", {"labels"}, Bytes().flag(true).matrix<float>(2, 1, {1, 2}));
  EXPECT_THAT(error_of(m), HasSubstr("it has 2 values for [3]"));
  m = small_model();
  m.precision = "half";
  EXPECT_THAT(error_of(m), HasSubstr("a node has the precision 'half'"));
}

TEST(CntkCheckpoint, IsRead) {
  const Checkpoint c = read_checkpoint(ByteReader("m.ckp", small_checkpoint()));
  EXPECT_EQ(c.total_samples, 100);
  EXPECT_EQ(c.learning_rate, 0.5);
  EXPECT_EQ(c.previous_criterion, 1.5);
  EXPECT_EQ(c.minibatch_size, 25);
  ASSERT_EQ(c.gradients.size(), 2u);
  EXPECT_EQ(*c.gradients[1].values, (std::vector<float>{7, 8, 9}));
  EXPECT_THAT(c.counts, ElementsAre(3, 4));
  EXPECT_FALSE(c.block_momentum);
}

// The first version has no version, no counts, and rates of the model's precision.
TEST(CntkCheckpoint, OfTheFirstVersionIsRead) {
  for (const bool floats : {true, false}) {
    Bytes b;
    b.text("BCKP").text("BLearnRate").u64(7);
    floats ? b.number(0.5f).number(1.5f) : b.number(0.5).number(1.5);
    b.text("ELearnRate").text("BGradient").matrix<double>(1, 1, {3}).text("EGradient").text("ECKP");
    const Checkpoint c = read_checkpoint(ByteReader("m.ckp", b.get()));
    EXPECT_EQ(c.learning_rate, 0.5);
    EXPECT_EQ(c.previous_criterion, 1.5);
    EXPECT_EQ(*c.gradients[0].values, (std::vector<float>{3}));
  }
}

}  // namespace
}  // namespace tutti::cntk::model_test

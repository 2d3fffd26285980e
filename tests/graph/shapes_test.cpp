// SPDX-License-Identifier: Apache-2.0
// Shape rules and inference over graphs, with the texts that users see.
#include "graph/shapes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/kernel.h"
#include "graph_builder.h"

namespace tutti::graph::shapes_test {
namespace {

using test::Attributes;
using test::GraphBuilder;

Shape of(const std::string& operation, std::vector<Shape> in, Attributes attributes = {}) {
  const Node node{"n", operation, {}, std::move(attributes), {}};
  return infer_shape(node, in);
}
std::string error_of(const std::string& operation, std::vector<Shape> in, Attributes attributes = {}) {
  try {
    of(operation, std::move(in), std::move(attributes));
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Shapes, Broadcasting) {
  EXPECT_EQ(of("Plus", {{{3, 4}}, {{3, 1}}}), (Shape{{3, 4}}));
  EXPECT_EQ(of("Plus", {{{3}}, {{1, 5}}}), (Shape{{3, 5}}));
  EXPECT_EQ(of("ElementTimes", {{{1}}, {{7}}}), (Shape{{7}}));
  EXPECT_EQ(of("If", {{{1}}, {{7}}, {{7, 2}}}), (Shape{{7, 2}}));
  EXPECT_EQ(of("Plus", {Shape{}, {{2, 3}}}), (Shape{{2, 3}}));
}

TEST(Shapes, Products) {
  EXPECT_EQ(of("Times", {{{10, 784}}, {{784}}}), (Shape{{10}}));
  EXPECT_EQ(of("Times", {{{10, 784}}, {{784, 3}}}), (Shape{{10, 3}}));
  EXPECT_EQ(of("Times", {{{2, 5, 28, 28}}, {{28, 28}}}, {{"outputRank", 2.0}}), (Shape{{2, 5}}));
  EXPECT_EQ(of("Times", {{{4}}, {{1}}}), (Shape{{4, 1}}));
  EXPECT_EQ(of("TransposeTimes", {{{5, 3}}, {{5}}}), (Shape{{3}}));
  EXPECT_EQ(of("TransposeTimes", {{{5}}, {{5}}}), (Shape{{1}}));
  EXPECT_EQ(of("KhatriRaoProduct", {{{2}}, {{3}}}), (Shape{{6}}));
}

TEST(Shapes, MovingValues) {
  EXPECT_EQ(of("Slice", {{{10}}}, {{"begin", 2.0}, {"end", 5.0}}), (Shape{{3}}));
  EXPECT_EQ(of("Slice", {{{10, 4}}}, {{"begin", -3.0}, {"end", 0.0}, {"axis", 1.0}}), (Shape{{3, 4}}));
  EXPECT_EQ(of("RowStack", {{{3, 2}}, {{4, 2}}}), (Shape{{7, 2}}));
  EXPECT_EQ(of("RowStack", {{{3}}, {{3}}}, {{"axis", 2.0}}), (Shape{{3, 2}}));
  EXPECT_EQ(of("RowStack", {{{3, 1}}, {{4, 5}}, {{2}}}), (Shape{{9, 5}}));
  EXPECT_EQ(of("RowStack", {{{3}}, {{3}}, {{3, 2}}}, {{"axis", 4.0}}), (Shape{{3, 2, 1, 3}}));
  EXPECT_EQ(of("RowStack", {{{1, 2, 3}}, {{4, 5, 3}}, {{4, 1, 1}}}, {{"axis", 2.0}}), (Shape{{4, 8, 3}}));
  EXPECT_EQ(of("RowRepeat", {{{3}}}, {{"numRepeats", 4.0}}), (Shape{{12}}));
  EXPECT_EQ(of("Reshape", {{{12}}}, {{"dims", std::vector<double>{3, 0}}}), (Shape{{3, 4}}));
  EXPECT_EQ(of("Reshape", {{{6, 4, 5}}}, {{"dims", std::vector<double>{2, 3}}, {"beginAxis", 1.0}, {"endAxis", 2.0}}),
            (Shape{{2, 3, 4, 5}}));
  EXPECT_EQ(of("Reshape", {{{2, 3, 4}}}, {{"dims", std::vector<double>{0}}, {"beginAxis", 2.0}}), (Shape{{2, 12}}));
  EXPECT_EQ(of("TransposeDimensions", {{{3, 4}}}, {{"axis1", 1.0}, {"axis2", 2.0}}), (Shape{{4, 3}}));
  EXPECT_EQ(of("ReduceElements", {{{3, 4}}}, {{"axis", 2.0}}), (Shape{{3, 1}}));
  EXPECT_EQ(of("ReduceElements", {{{3, 4}}}), (Shape{{1}}));
}

TEST(Shapes, ErrorsNameNodeShapesAndFix) {
  EXPECT_EQ(error_of("Plus", {{{3}}, {{4}}}),
            "error: Plus 'n': [3] and [4] do not fit: axis 1 has 3 and 4 elements\n"
            "fix: give both operands the same dimensions, or 1 where one is to be repeated\n");
  EXPECT_EQ(
      error_of("Times", {{{10, 5}}, {{4}}}),
      "error: Times 'n': [10 x 5] and [4] do not fit: axis 2 of the left has 5 elements and axis 1 of the right has 4\n"
      "fix: the axes that a product sums over must agree; a weight dimension of 0 is inferred\n");
  EXPECT_EQ(error_of("RowStack", {{{2, 1}}, {{2, 4}}, {{2, 3}}}),
            "error: RowStack 'n': [2 x 4] and [2 x 3] do not fit: axis 2 has 4 and 3 elements\n"
            "fix: all axes but the stacked one (axis = 1) must agree, or have 1 element, which is repeated\n");
  EXPECT_NE(error_of("RowStack", {{{3}}, {{3}}}, {{"axis", 2.5}}).find("axis = 2.5 is not one of"), std::string::npos);
  EXPECT_NE(error_of("RowStack", {{{3}}, {{3}}}, {{"axis", 1e12}}).find("is not one of the 8 axes"), std::string::npos);
  EXPECT_NE(error_of("SquareError", {{{3}}, {{2}}}).find("[3] and [2] do not fit"), std::string::npos);
  EXPECT_NE(error_of("Slice", {{{3}}}, {{"begin", 2.0}, {"end", 9.0}}).find("not a part of an axis with 3"),
            std::string::npos);
  EXPECT_NE(error_of("Slice", {{{3}}}, {{"axis", 3.0}}).find("axis = 3 is not one of the 1 axes"), std::string::npos);
  EXPECT_NE(error_of("Reshape", {{{12}}}, {{"dims", std::vector<double>{5, 0}}}).find("cannot become"),
            std::string::npos);
  EXPECT_NE(error_of("Sigmoit", {{{3}}}).find("did you mean 'Sigmoid'?"), std::string::npos);
  EXPECT_NE(error_of("Plus", {{{3}}}).find("has 1 inputs but takes 2"), std::string::npos);
  EXPECT_NE(error_of("ReduceElements", {{{3}}}, {{"op", std::string("Product")}}).find("use Sum, LogSum"),
            std::string::npos);
}

using Numbers = std::vector<double>;

Shape convolved(Shape image, Attributes attributes) {
  attributes["mapDims"] = Numbers{7};
  attributes.try_emplace("kernelDims", Numbers{3, 3});
  Shape weight{{0}};
  return of("Convolution", {weight, std::move(image)}, attributes);
}

TEST(Shapes, Convolution) {
  const Shape image{{10, 9, 3}};
  EXPECT_EQ(convolved(image, {}), (Shape{{8, 7, 7}}));
  EXPECT_EQ(convolved(image, {{"stride", Numbers{2}}}), (Shape{{4, 4, 7}}));
  EXPECT_EQ(convolved(image, {{"stride", Numbers{2, 3}}, {"autoPadding", Numbers{1}}}), (Shape{{5, 3, 7}}));
  EXPECT_EQ(convolved(image, {{"autoPadding", Numbers{1, 0}}}), (Shape{{10, 7, 7}}));
  EXPECT_EQ(convolved(image, {{"lowerPad", Numbers{1}}, {"upperPad", Numbers{2}}}), (Shape{{11, 10, 7}}));
  EXPECT_EQ(convolved(image, {{"kernelDims", Numbers{3}}}), (Shape{{8, 1, 7}}));  // the other axis wholly
  EXPECT_EQ(convolved(image, {{"kernelDims", Numbers{3, 3, 3}}}), (Shape{{8, 7, 7}}));
  EXPECT_EQ(convolved(Shape{{10, 9}}, {}), (Shape{{8, 7 * 7}}));  // no axis of channels: maps behind each other
  EXPECT_EQ(convolved(Shape{{3, 10, 9}}, {{"imageLayout", std::string("HWC")}}), (Shape{{7, 8, 7}}));
  EXPECT_EQ(convolved(image, {{"transpose", true}}), (Shape{{12, 11, 7}}));
  EXPECT_EQ(convolved(image, {{"transpose", true}, {"stride", Numbers{2}}, {"autoPadding", Numbers{1}}}),
            (Shape{{19, 17, 7}}));
  EXPECT_EQ(
      convolved(
          image,
          {{"transpose", true}, {"stride", Numbers{2}}, {"autoPadding", Numbers{1}}, {"outputShape", Numbers{20, 18}}}),
      (Shape{{20, 18, 7}}));
  EXPECT_THROW(convolved(image, {{"kernelDims", Numbers{11, 3}}, {"autoPadding", Numbers{1}}}), ConfigError);
  EXPECT_EQ(convolved(image, {{"sharing", Numbers{0}}}), (Shape{{8, 7, 7}}));
  EXPECT_THROW(convolved(image, {{"groups", 2.0}}), ConfigError);
  for (const double seen : {2.0, 14.0})  // the channels of a group, or all
    EXPECT_EQ(convolved(Shape{{10, 9, 14}}, {{"groups", 7.0}, {"kernelDims", Numbers{3, 3, seen}}}),
              (Shape{{8, 7, 7}}));
  EXPECT_THROW(convolved(image, {{"kernelDims", Numbers{1, 2, 3, 4}}}), ConfigError);
  EXPECT_THROW(convolved(image, {{"stride", Numbers{0}}}), ConfigError);
  EXPECT_THROW(convolved(image, {{"imageLayout", std::string("HCW")}}), ConfigError);
  EXPECT_THROW(convolved(image, {{"transpose", true}, {"outputShape", Numbers{13, 11}}}), ConfigError);
}

TEST(Shapes, Pooling) {
  const auto pooled = [](Shape image, Attributes attributes) { return of("Pooling", {std::move(image)}, attributes); };
  EXPECT_EQ(pooled(Shape{{10, 9, 3}}, {{"kernelDims", Numbers{3, 3}}, {"stride", Numbers{2}}}), (Shape{{4, 4, 3}}));
  EXPECT_EQ(pooled(Shape{{10, 9, 3}}, {{"kernelDims", Numbers{2}}, {"stride", Numbers{2}}}), (Shape{{5, 9, 3}}));
  EXPECT_EQ(pooled(Shape{{10, 9, 3}}, {{"kernelDims", Numbers{10, 9}}}), (Shape{{1, 1, 3}}));
  EXPECT_EQ(pooled(Shape{{10, 9, 3}}, {{"kernelDims", Numbers{1, 1, 3}}}), (Shape{{10, 9, 1}}));
  EXPECT_THROW(pooled(Shape{{10, 9, 3}}, {{"kernelDims", Numbers{3, 3}}, {"poolingType", std::string("min")}}),
               ConfigError);
  EXPECT_THROW(pooled(Shape{{2, 9, 3}}, {{"kernelDims", Numbers{3, 3}}}), ConfigError);
}

TEST(Shapes, PoolingThatRoundsUp) {
  const auto pooled = [](std::size_t width, double kernel, double stride, bool automatic) {
    return of("Pooling", {Shape{{width, 1}}},
              {{"kernelDims", Numbers{kernel}},
               {"stride", Numbers{stride}},
               {"autoPadding", Numbers{automatic ? 1.0 : 0.0}},
               {"ceilOutDim", true}})
        .dims[0];
  };
  EXPECT_EQ(pooled(10, 3, 2, false), 5u);
  EXPECT_EQ(pooled(9, 3, 2, false), 4u);
  EXPECT_EQ(pooled(4, 3, 2, true), 3u);
  EXPECT_EQ(pooled(5, 3, 2, true), 3u);
  EXPECT_THROW(pooled(5, 1, 3, false), ConfigError) << "a window outside of the image";
  EXPECT_THROW(pooled(4, 2, 2, true), ConfigError);
}

TEST(Shapes, RecurrentCells) {
  const Shape x{{12}}, h{{12, 4}}, open{{0}};
  EXPECT_EQ(of("GRU", {x, h}), (Shape{{4}}));
  EXPECT_EQ(of("GRU", {x, h, x}, {{"resetAfter", true}}), (Shape{{4}}));
  EXPECT_EQ(of("GRU", {x, h, open}, {{"resetAfter", true}}), (Shape{{4}}));
  EXPECT_THROW(of("GRU", {Shape{{13}}, h}), ConfigError);
  EXPECT_THROW(of("GRU", {x, Shape{{4, 12}}}), ConfigError);
  EXPECT_THROW(of("GRU", {x, h, x}), ConfigError);
  EXPECT_THROW(of("GRU", {x, h, Shape{{4}}}, {{"resetAfter", true}}), ConfigError);
}

TEST(Shapes, EveryOperationHasARuleAndAnExecution) {
  // Expressed through others, or leaves.
  const std::vector<std::string> indirect = {"InputValue",
                                             "LearnableParameter",
                                             "Pass",
                                             "Reshape",
                                             "Trace",
                                             "DiagTimes",
                                             "KhatriRaoProduct",
                                             "RowRepeat",
                                             "MatrixL2Reg",
                                             "SumColumnElements",
                                             "CosDistance",
                                             "Mean",
                                             "InvStdDev",
                                             "CosDistanceWithNegativeSamples",
                                             "LookupTable",
                                             "Precision",
                                             "Recall",
                                             "F1Score"};
  for (const auto& name : operation_names()) {
    const auto* info = find_operation(name);
    ASSERT_NE(info, nullptr) << name;
    const bool executable = has_kernel(name) || std::find(indirect.begin(), indirect.end(), name) != indirect.end();
    EXPECT_TRUE(executable) << name;
    const auto inputs = static_cast<std::size_t>(std::max(info->min_inputs, info->max_inputs < 0 ? 2 : 0));
    Attributes attributes;
    if (name == "Reshape" || inputs == 0) attributes["dims"] = std::vector<double>{4, 4};
    std::vector<Shape> in(inputs, Shape{{4, 4}});
    if (name == "DiagTimes") in[0] = Shape{{4}};
    if (name == "Convolution" || name == "Pooling") attributes["kernelDims"] = std::vector<double>{1, 4};
    if (name == "BatchNormalization")
      for (std::size_t k = 1; k < 5; ++k) in[k] = Shape{{0}};
    if (name == "ROIPooling") {
      in = {Shape{{4, 4, 2}}, Shape{{4, 3}}};
      attributes["shape"] = std::vector<double>{2, 2};
    }
    if (name == "ClassBasedCrossEntropyWithSoftmax") in[0] = in[1] = in[3] = Shape{{4}};
    if (name == "LSTM") in = {Shape{{16}}, Shape{{16, 4}}};
    if (name == "GRU") in = {Shape{{12}}, Shape{{12, 4}}};
    if (name == "LambdaRank" || name == "NDCG1Eval") in.assign(3, Shape{{1}});
    if (name == "Where" || name == "PackedIndex") in.back() = Shape{{1}};
    EXPECT_NO_THROW(of(name, in, attributes)) << name;
  }
  EXPECT_EQ(find_operation("Convolve"), nullptr);
}

std::vector<Value> infer(Graph& g, const std::vector<std::size_t>& roots) {
  return infer_graph(g, evaluation_order(g, roots));
}

TEST(InferGraph, WeightDimensionsComeFromTheData) {
  GraphBuilder b;
  const auto x = b.input("x", {28, 28});
  const auto w = b.parameter("W", {10, 0});
  const auto z = b.add("Times", "z", {w, x}, {{"inferInputRankToMap", 0.0}});
  const auto bias = b.parameter("b", {0});
  const auto y = b.add("Plus", "y", {z, bias});
  const auto values = infer(b.graph(), {y});
  EXPECT_EQ(values[w].shape, (Shape{{10, 28, 28}}));
  EXPECT_EQ(values[y].shape, (Shape{{10}}));
  EXPECT_EQ(values[bias].shape, (Shape{{10}}));
  EXPECT_EQ(declared_shape(b.graph().nodes[w]), (Shape{{10, 28, 28}}));
  EXPECT_TRUE(values[y].per_sample);
  EXPECT_FALSE(values[w].per_sample);
}

TEST(InferGraph, WithoutMappingOnlyTheLeadingAxisIsContracted) {
  GraphBuilder b;
  const auto x = b.input("x", {5, 3});
  const auto w = b.parameter("W", {2, 0});
  const auto z = b.add("Times", "z", {w, x});
  const auto values = infer(b.graph(), {z});
  EXPECT_EQ(values[w].shape, (Shape{{2, 5}}));
  EXPECT_EQ(values[z].shape, (Shape{{2, 3}}));
}

TEST(InferGraph, ThroughATransposedParameter) {
  GraphBuilder b;
  const auto x = b.input("x", {7});
  const auto e = b.parameter("E", {0, 4});
  const auto t = b.add("TransposeDimensions", "T", {e}, {{"axis1", 1.0}, {"axis2", 2.0}});
  const auto z = b.add("Times", "z", {t, x});
  const auto values = infer(b.graph(), {z});
  EXPECT_EQ(values[e].shape, (Shape{{7, 4}}));
  EXPECT_EQ(values[z].shape, (Shape{{4}}));
}

TEST(InferGraph, SampleAxesAndDynamicAxes) {
  GraphBuilder b;
  const auto x = b.input("x", {3}), y = b.input("y", {3}, false, "other");
  const auto w = b.parameter("W", {3});
  const auto weights_only = b.add("Negate", "m", {w});
  const auto total = b.add("SumElements", "total", {x});
  const auto mean = b.add("Mean", "mean", {x});
  const auto sum = b.add("Plus", "sum", {x, y});
  const auto fine = infer(b.graph(), {weights_only, total, mean});
  EXPECT_FALSE(fine[weights_only].per_sample);
  EXPECT_FALSE(fine[total].per_sample);
  EXPECT_FALSE(fine[mean].per_sample);
  try {
    infer(b.graph(), {sum});
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("'x' and 'y' lie on different dynamic axes ('' and 'other')"),
              std::string::npos);
  }
}

TEST(InferGraph, CriteriaTakeValuesPerSampleOrNone) {
  for (const char* name : {"SquareError", "CrossEntropyWithSoftmax", "ClassificationError", "CrossEntropy", "Logistic"})
    for (const bool swapped : {false, true}) {
      GraphBuilder b;
      const auto x = b.input("x", {3}), y = b.input("y", {3}), w = b.parameter("W", {3}), v = b.parameter("V", {3});
      EXPECT_NO_THROW(infer(b.graph(), {b.add(name, "samples", {x, y})})) << name;
      EXPECT_NO_THROW(infer(b.graph(), {b.add(name, "weights", {w, v})})) << name;
      const auto mixed = swapped ? b.add(name, "mixed", {w, x}) : b.add(name, "mixed", {x, w});
      EXPECT_THROW(infer(b.graph(), {mixed}), ConfigError) << name;
    }
}

// What inference says of an operation on inputs (s) and parameters (p) of these dims.
std::string error_of(const char* operation, const std::vector<Numbers>& dims, const std::string& kinds,
                     const Attributes& attributes) {
  GraphBuilder b;
  std::vector<std::size_t> operands;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const std::string name = "operand" + std::to_string(k);
    operands.push_back(kinds[k] == 's' ? b.input(name, dims[k]) : b.parameter(name, dims[k]));
  }
  try {
    infer(b.graph(), {b.add(operation, "n", operands, attributes)});
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

TEST(InferGraph, OperandsWithSamplesAndWithout) {
  struct Case {
    const char* operation;
    std::vector<Numbers> dims;
    std::vector<std::string> good, bad;
    Attributes attributes = {};
  };
  const Case cases[] = {
      {"Convolution",
       {{2, 1, 1, 3}, {4, 4, 1}},
       {"ps", "pp"},
       {"ss", "sp"},
       {{"kernelDims", Numbers{2, 1}}, {"mapDims", Numbers{3}}}},
      {"BatchNormalization",
       {{3}, {3}, {3}, {3}, {3}},
       {"spppp", "ppppp"},
       {"ssppp", "spspp", "sppsp", "sppps", "psppp"}},
      {"MaxUnpooling",
       {{2, 2, 1}, {4, 4, 1}},
       {"ss", "pp"},
       {"sp", "ps"},
       {{"kernelDims", Numbers{2, 2}}, {"stride", Numbers{2}}}},
      {"ROIPooling", {{4, 4, 2}, {4, 3}}, {"ss", "pp"}, {"sp", "ps"}, {{"shape", Numbers{2, 2}}}},
      {"CosDistanceWithNegativeSamples", {{3}, {3}}, {"ss"}, {"sp", "ps", "pp"}},
      {"ClassBasedCrossEntropyWithSoftmax", {{4}, {3}, {3, 5}, {2}}, {"ssps"}, {"psps", "spps", "ssss", "sspp"}},
      {"LSTM", {{16}, {16, 4}, {4}, {4}}, {"sp", "sppp"}, {"pp", "ss", "spsp", "spps"}},
      {"GRU", {{12}, {12, 4}}, {"sp"}, {"pp", "ss"}},
      {"PackedIndex", {{3}, {1}}, {"ss"}, {"sp", "ps"}},
      {"GatherPacked", {{1}, {3}}, {"ss"}, {"sp", "ps"}},
      {"ScatterPacked", {{1}, {1}, {3}}, {"sss"}, {"ssp", "sps", "pss"}},
      {"ReconcileDynamicAxis", {{3}, {3}}, {"ss"}, {"sp", "ps"}},
      {"BroadcastSequenceAs", {{3}, {3}}, {"ss"}, {"sp", "ps"}},
      {"Mean", {{3}}, {"s"}, {"p"}},
      {"InvStdDev", {{3}}, {"s"}, {"p"}},
  };
  for (const Case& c : cases) {
    for (const auto& kinds : c.good)
      EXPECT_EQ(error_of(c.operation, c.dims, kinds, c.attributes), "no error") << c.operation << " " << kinds;
    for (const auto& kinds : c.bad) {
      const std::string error = error_of(c.operation, c.dims, kinds, c.attributes);
      EXPECT_NE(error.find(std::string(c.operation) + " 'n': "), std::string::npos) << kinds << ": " << error;
      EXPECT_NE(error.find("'operand"), std::string::npos) << kinds << ": " << error;
      EXPECT_NE(error.find("fix: "), std::string::npos) << kinds << ": " << error;
    }
  }
}

TEST(InferGraph, OnlyWhatTheRootsNeedCounts) {
  GraphBuilder b;
  const auto x = b.input("x", {3});
  const auto wrong = b.add("Plus", "wrong", {x, b.parameter("W", {4})});
  const auto fine = b.add("Negate", "fine", {x});
  EXPECT_NO_THROW(infer(b.graph(), {fine}));
  try {
    infer(b.graph(), {wrong});
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("Plus 'wrong': 'x' [3] and 'W' [4] do not fit"), std::string::npos);
  }
}

TEST(InferGraph, LoopsAndOpenDimensionsAreErrors) {
  GraphBuilder b;
  const auto a = b.add("Negate", "a", {1});
  b.add("Negate", "b", {0});
  EXPECT_THROW(evaluation_order(b.graph(), {a}), ConfigError);
  GraphBuilder c;
  const auto w = c.parameter("W", {3, 0});
  const auto n = c.add("Negate", "n", {w});
  EXPECT_THROW(infer(c.graph(), {n}), ConfigError);
}

TEST(InferGraph, PlaceOfTheError) {
  GraphBuilder b;
  const auto source = std::make_shared<Source>(Source{"net.bs", "z = W + x\n", nullptr});
  const auto sum = b.add("Plus", "z", {b.parameter("W", {2}), b.input("x", {3})});
  b.graph().nodes[sum].where = {source, 4, 5};
  try {
    infer(b.graph(), {sum});
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, 64), "net.bs:1:5: error: Plus 'z': 'W' [2] and 'x' [3] do not fit: axi");
  }
}

}  // namespace
}  // namespace tutti::graph::shapes_test

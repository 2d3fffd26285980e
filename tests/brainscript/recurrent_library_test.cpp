// SPDX-License-Identifier: Apache-2.0
// Recurrent layers as graphs: names, seeds, loops through definitions, and the mistakes that users make with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/shapes.h"
#include "networks.h"

namespace tutti::brainscript::recurrent_library_test {
namespace {

using testing::HasSubstr;

std::vector<double> dims(const Built& b, const std::string& name) { return graph::numbers(b[name], "dims"); }

TEST(RecurrentLibrary, SeedsGoFromTheLastLayerToTheFirst) {
  const Built b = build(
      "{ x = Input {9}; labels = Input {3}\n"
      "model = Sequential (EmbeddingLayer {5} : RecurrentLSTMLayer {4} : DenseLayer {3})\n"
      "z = model (x); ce = CrossEntropyWithSoftmax (labels, z); criterionNodes = (ce) }");
  EXPECT_EQ(b.errors, "");
  EXPECT_EQ(b.seed("model.arrayOfFunctions[2].arrayOfFunctions[0].W"), 1);
  EXPECT_EQ(b.seed("model.arrayOfFunctions[1].lstm.W"), 2);
  EXPECT_EQ(b.seed("model.arrayOfFunctions[0].E"), 3);
  EXPECT_EQ(b.seed("model.arrayOfFunctions[1].lstm.H"), 4);
}

TEST(RecurrentLibrary, FusedAndExplicitLayersHaveTheSameParameters) {
  const std::string rest = "} (x); ce = SquareError (z, x); criterionNodes = (ce) }";
  const Built fused = build("{ x = Input {4}; z = RecurrentLSTMLayer {4" + rest);
  const Built loop = build("{ x = Input {4}; z = RecurrentLSTMLayer {4, usePeepholes=true" + rest);
  EXPECT_EQ(fused.errors + loop.errors, "");
  for (const Built* b : {&fused, &loop}) {
    EXPECT_EQ(dims(*b, "z.lstm.B"), (std::vector<double>{16})) << b->listing();
    EXPECT_EQ(dims(*b, "z.lstm.W"), (std::vector<double>{16, 0}));
    EXPECT_EQ(dims(*b, "z.lstm.H"), (std::vector<double>{16, 4}));
    EXPECT_EQ(b->seed("z.lstm.W"), 1);
    EXPECT_EQ(b->seed("z.lstm.H"), 2);
  }
  EXPECT_EQ(loop.seed("z.lstm.Co"), 3);
  EXPECT_THAT(fused.listing(), HasSubstr(" = LSTM ("));
  EXPECT_THAT(loop.listing(), HasSubstr(" = PastValue ("));
}

TEST(RecurrentLibrary, DefinitionsReferToEachOtherThroughDelays) {
  const Built b = build("{ x = Input {4}; a = x + PastValue (0, b); b = Tanh (a) .* PastValue (0, a, timeStep=2) }");
  EXPECT_EQ(b.errors, "");
  const graph::Node& delay = b["a.PlusArgs[1]"];
  EXPECT_EQ(delay.operation, "PastValue");
  ASSERT_EQ(delay.inputs.size(), 1U);
  EXPECT_EQ(b.graph.nodes[delay.inputs[0]].name, "b");
  graph::Graph copy = b.graph;
  std::vector<std::size_t> roots(copy.nodes.size());
  for (std::size_t i = 0; i < roots.size(); ++i) roots[i] = i;
  const auto values = graph::infer_graph(copy, graph::evaluation_order(copy, roots));
  EXPECT_EQ(values[delay.inputs[0]].shape, (Shape{{4}}));
}

TEST(RecurrentLibrary, ArgumentsWithoutANameMayFollowNamedOnes) {
  const Built b =
      build("{ x = Input {4}; s = BS.RNNs.RecurrentLSTMPStack (3:2, cellDims=4:5, x, inputDim=4); z = s[1].h }");
  EXPECT_EQ(b.errors, "");
}

// The message that a network with this definition gives, from whichever stage.
std::string error_of(const std::string& definitions) {
  const Built b = build("{ x = Input {4}; y = Input {4, dynamicAxis=DynamicAxis {}}\n" + definitions + " }");
  if (!b.errors.empty()) return b.errors;
  try {
    graph::Graph copy = b.graph;
    std::vector<std::size_t> roots(copy.nodes.size());
    for (std::size_t i = 0; i < roots.size(); ++i) roots[i] = i;
    graph::infer_graph(copy, graph::evaluation_order(copy, roots));
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

TEST(RecurrentLibrary, Mistakes) {
  EXPECT_THAT(error_of("h = Tanh (h + x)"), HasSubstr("let it go through time: PastValue (0, x)"));
  EXPECT_THAT(error_of("h = PastValue (0, h)"), HasSubstr("'h' is no sequence"));
  EXPECT_THAT(error_of("h = x + PastValue (0, h) + FutureValue (0, h)"), HasSubstr("within one loop"));
  EXPECT_THAT(error_of("h = PastValue (3, x)"), HasSubstr("dims [3] and the delayed"));
  EXPECT_THAT(error_of("h = PastValue (0, x, timeStep=0)"), HasSubstr("timeStep cannot be 0"));
  EXPECT_THAT(error_of("h = PastValue (0, x, initialState=Constant (0, rows=3))"), HasSubstr("the initial state"));
  EXPECT_THAT(error_of("h = x + BS.Sequences.Last (x)"), HasSubstr("use ReconcileDynamicAxis"));
  EXPECT_THAT(error_of("h = x + y"), HasSubstr("different dynamic axes"));
  EXPECT_THAT(error_of("h = BS.Sequences.Last (Constant (1))"), HasSubstr("is no sequence"));
  EXPECT_THAT(error_of("h = DelayLayer {T=1} (x) + PastValue (0, z); z = DenseLayer {3} (h)"),
              HasSubstr("[3] do not fit"));
  EXPECT_EQ(error_of("h = x + ReconcileDynamicAxis (y, x)"), "no error");
}

}  // namespace
}  // namespace tutti::brainscript::recurrent_library_test

// SPDX-License-Identifier: Apache-2.0
// Operands on different dynamic axes: which meet with a warning, and which are refused.

#include <gtest/gtest.h>

#include <numeric>

#include "graph/shapes.h"
#include "graph_builder.h"

namespace tutti::graph::reconcile_axes_test {
namespace {

using test::GraphBuilder;

std::vector<Value> infer(Graph& graph) {
  std::vector<std::size_t> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return infer_graph(graph, evaluation_order(graph, all));
}

std::size_t last(GraphBuilder& b, const std::string& name, std::size_t of) {
  return b.add("Slice", name, {of}, {{"begin", -1.0}, {"end", 0.0}, {"axis", -1.0}});
}

TEST(ReconcileAxes, MadeAxesMeetWithAWarning) {
  GraphBuilder b;
  const auto words = b.input("words", {3}, false, "n"), label = b.input("label", {3});
  const auto end = last(b, "end", words), again = last(b, "again", words);
  const auto sum = b.add("Plus", "sum", {end, again});
  const auto loss = b.add("SquareError", "loss", {label, sum});
  const auto twice = b.add("ElementTimes", "twice", {label, sum});
  const auto warnings = reconcile_axes(b.graph());
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_NE(warnings[0].message.find("'end' and 'again' lie on different dynamic axes"), std::string::npos);
  const auto values = infer(b.graph());
  EXPECT_EQ(values[sum].axis, "end") << "the first operand gives the axis";
  EXPECT_EQ(values[twice].axis, "");
  const Node& equal = b.graph().nodes[b.graph().nodes[loss].inputs[1]];
  EXPECT_EQ(equal.operation, "ReconcileDynamicAxis");
  EXPECT_EQ(equal.inputs, (std::vector<std::size_t>{sum, label}));
  EXPECT_TRUE(reconcile_axes(b.graph()).empty()) << "once";
}

TEST(ReconcileAxes, BehindALoopToo) {
  GraphBuilder b;
  const auto words = b.input("words", {3}, false, "n"), label = b.input("label", {3});
  const auto before = b.add("PastValue", "before", {words}), sum = b.add("Plus", "sum", {words, before});
  b.graph().nodes[before].inputs[0] = sum;
  b.add("SquareError", "loss", {label, last(b, "end", sum)});
  EXPECT_EQ(reconcile_axes(b.graph()).size(), 1u);
  EXPECT_NO_THROW(infer(b.graph()));
}

TEST(ReconcileAxes, DeclaredAxesStayApart) {
  GraphBuilder b;
  const auto x = b.input("x", {3}, false, "n"), y = b.input("y", {3});
  last(b, "end", x);
  b.add("Plus", "sum", {x, y});
  const std::size_t nodes = b.graph().nodes.size();
  EXPECT_TRUE(reconcile_axes(b.graph()).empty());
  EXPECT_EQ(b.graph().nodes.size(), nodes);
  EXPECT_THROW(infer(b.graph()), MixedAxes);
}

TEST(ReconcileAxes, OtherMistakesAreLeftToTheInference) {
  GraphBuilder b;
  const auto x = b.input("x", {3}, false, "n");
  b.add("Plus", "sum", {last(b, "end", x), b.parameter("W", {4})});
  EXPECT_TRUE(reconcile_axes(b.graph()).empty());
}

}  // namespace
}  // namespace tutti::graph::reconcile_axes_test

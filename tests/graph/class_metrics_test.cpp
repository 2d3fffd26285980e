// SPDX-License-Identifier: Apache-2.0
// Precision, recall and F1 as nodes: ratios of sums over samples, so any parts and ranks add up.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "graph/shapes.h"
#include "graph_builder.h"

namespace tutti::class_metrics_test {
namespace {

using test::Announced;
using test::Data;
using test::GraphBuilder;

constexpr std::size_t kColumns = 8;

GraphBuilder metrics(bool sparse, double of_class) {
  GraphBuilder b;
  const auto z = b.input("z", {3}), labels = b.input("labels", {3}, sparse);
  const auto scaled = b.add("ElementTimes", "scaled", {b.parameter("P", {3}, 1, 0), z});
  b.criterion("CrossEntropyWithSoftmax", "ce", {labels, b.add("Plus", "sum", {scaled, z})});
  for (const char* operation : {"Precision", "Recall", "F1Score"})
    b.evaluation(operation, operation, {labels, z}, {{"class", of_class}});
  return b;
}

// Labels 0 0 0 1 1 1 2 2, predictions 0 0 1 1 1 0 0 1.
void fill(Data& d, bool sparse) {
  d.dense("z", {3, 1, 1, 2, 0, 1, 0, 4, 1, 1, 2, 0, 0, 5, 1, 6, 1, 1, 2, 1, 1, 0, 1, 0});
  d.dense(sparse ? "copied" : "labels", {1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1});
  if (sparse) d.sparse_copy("labels", 1);
}

void expect(const StepMetrics& m, std::array<StepMetrics::Evaluation, 3> expected, const char* what) {
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(m.evaluations[i].sum, expected[i].sum) << what << i;
    EXPECT_EQ(m.evaluations[i].count, expected[i].count) << what << i;
  }
}

TEST(ClassMetrics, AreRatiosOfSums) {
  const std::array<std::array<StepMetrics::Evaluation, 3>, 3> expected{{{{{2, 4}, {2, 3}, {4, 7}}},
                                                                        {{{2, 4}, {2, 3}, {4, 7}}},
                                                                        {{{0, 0}, {0, 2}, {0, 2}}}}};
  for (const bool sparse : {false, true})
    for (std::size_t c = 0; c < 3; ++c)
      for (const int most : {8, 3}) {
        Data d(kColumns);
        fill(d, sparse);
        Network network(metrics(sparse, static_cast<double>(c)).graph(), {});
        network.initialize_parameters();
        network.bind(d.infos);
        network.plan_training(most);
        network.plan_evaluation(most, {});
        Announced sink;
        expect(network.forward_backward(d.batch, sink), expected[c], "trained ");
        const StepMetrics m = network.evaluate(d.batch);
        expect(m, expected[c], "evaluated ");
        EXPECT_EQ(m.criterion_count, kColumns);
      }
}

TEST(ClassMetrics, AClassThatIsNoneIsRefused) {
  const auto refusal = [](double of_class) -> std::string {
    try {
      Network(metrics(false, of_class).graph(), {});
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "not refused";
  };
  EXPECT_NE(refusal(3).find("classes count from 0 to 2"), std::string::npos) << refusal(3);
  EXPECT_NE(refusal(-1).find("class"), std::string::npos);
  EXPECT_NE(refusal(0.5).find("class"), std::string::npos);
}

TEST(ErrorRates, OfZeroAreNamed) {
  GraphBuilder b;
  const auto z = b.input("z", {3}), labels = b.input("labels", {3});
  for (const double top : {1.0, 2.0, 3.0, 5.0})
    b.evaluation("ClassificationError", fmt::format("top{}", top), {labels, z}, {{"topN", top}});
  const auto warnings = graph::find_error_rates_of_zero(b.graph());
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].message, "'top3' is always 0: topN = 3, and 'z' has 3 elements");
  EXPECT_EQ(warnings[1].message, "'top5' is always 0: topN = 5, and 'z' has 3 elements");
}

}  // namespace
}  // namespace tutti::class_metrics_test

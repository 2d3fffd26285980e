// SPDX-License-Identifier: Apache-2.0
#include "actions/confusion_table.h"

#include <gtest/gtest.h>

#include <array>

#include "support/run_ranks.h"

namespace tutti::actions::confusion_table_test {
namespace {

// Labels 0 0 0 1, predictions 0 0 1 1 of three classes.
void fill(ConfusionTable& t) {
  constexpr std::array<float, 3> a{1, 0, 0}, b{0, 1, 0}, like_a{2, 1, 2}, like_b{-3, -1, -2};
  t.add(a, like_a), t.add(a, like_a), t.add(a, like_b), t.add(b, like_b);
}

TEST(ConfusionTable, CountsAndRates) {
  ConfusionTable t(3);
  fill(t);
  EXPECT_EQ(t.count(0, 0), 2);
  EXPECT_EQ(t.count(0, 1), 1);
  EXPECT_EQ(t.count(1, 0), 0);
  EXPECT_EQ(t.text({"cat", "a,dog"}),
            "Confusion table (rows: label; columns: prediction):\n"
            "class   samples precision    recall        F1    cat  a,dog      2\n"
            "cat           3    1.0000    0.6667    0.8000      2      1      0\n"
            "a,dog         1    0.5000    1.0000    0.6667      0      1      0\n"
            "2             0    0.0000    0.0000    0.0000      0      0      0\n"
            "mean          4    0.7500    0.8333    0.7333\n"
            "accuracy 0.7500; the mean is over the 2 classes that have samples");
  EXPECT_EQ(t.csv({"cat", "a,dog"}),
            "class,samples,precision,recall,f1,cat,\"a,dog\",2\n"
            "cat,3,1,0.6666666666666666,0.8,2,1,0\n"
            "\"a,dog\",1,0.5,1,0.6666666666666666,0,1,0\n"
            "2,0,0,0,0,0,0,0\n");
}

TEST(ConfusionTable, ManyClassesHaveNoMatrix) {
  ConfusionTable t(ConfusionTable::most_columns + 1);
  const std::string text = t.text({});
  EXPECT_EQ(text.find("prediction"), std::string::npos);
  EXPECT_NE(text.find("\n20            0    0.0000    0.0000    0.0000\n"), std::string::npos) << text;
}

TEST(ConfusionTable, RanksAddUp) {
  run_ranks(3, [](Communicator& world) {
    ConfusionTable t(3);
    if (world.rank() > 0) fill(t);
    t.sum_over(world);
    EXPECT_EQ(t.count(0, 0), 4);
    EXPECT_EQ(t.count(1, 1), 2);
  });
}

TEST(ConfusionTable, IsThatOfTheFirstClassification) {
  graph::Graph g;
  const auto add = [&](const char* operation, const char* name, std::vector<std::size_t> in) {
    g.nodes.push_back({name, operation, std::move(in), {}, {}, {}});
    return g.nodes.size() - 1;
  };
  const auto labels = add("InputValue", "labels", {}), z = add("InputValue", "z", {}), y = add("InputValue", "y", {});
  g.evaluations = {add("SquareError", "se", {labels, z})};
  EXPECT_FALSE(find_classification(g));
  g.criteria = {add("CrossEntropyWithSoftmax", "ce", {labels, y})};
  EXPECT_EQ(find_classification(g)->scores, "y");
  g.evaluations.push_back(add("ClassificationError", "errs", {labels, z}));
  EXPECT_EQ(find_classification(g)->scores, "z");
  EXPECT_EQ(find_classification(g)->labels, "labels");
}

}  // namespace
}  // namespace tutti::actions::confusion_table_test

// SPDX-License-Identifier: Apache-2.0
// A network trained with labelSmoothing against one whose labels are smoothed beforehand, and against the formula.
#include <gtest/gtest.h>

#include <cmath>

#include "graph_builder.h"

namespace tutti::label_smoothing_test {
namespace {

using test::Announced;
using test::Data;
using test::GraphBuilder;

constexpr std::size_t kColumns = 7, kClasses = 5;
constexpr float kAmount = 0.2f;

GraphBuilder softmax(bool sparse = false, bool with_penalty = false) {
  GraphBuilder b;
  const auto x = b.input("x", {4}), labels = b.input("labels", {static_cast<double>(kClasses)}, sparse);
  const auto W = b.parameter("W", {static_cast<double>(kClasses), 4});
  const auto z = b.add("Times", "z", {W, x});
  if (with_penalty) {
    const auto ce = b.add("CrossEntropyWithSoftmax", "ce", {labels, z});
    b.criterion("Plus", "both", {ce, b.add("SquareError", "se", {labels, z})});
  } else {
    b.criterion("CrossEntropyWithSoftmax", "ce", {labels, z});
  }
  b.evaluation("CrossEntropyWithSoftmax", "plain", {labels, z});
  return b;
}

std::unique_ptr<Network> ready(GraphBuilder b, const Data& d, double amount, std::size_t most = kColumns) {
  NetworkOptions options;
  options.label_smoothing = amount;
  auto network = std::make_unique<Network>(b.graph(), options);
  network->initialize_parameters();
  network->bind(d.infos);
  network->plan_training(static_cast<std::int64_t>(most));
  network->plan_evaluation(static_cast<std::int64_t>(most), {});
  return network;
}

TEST(LabelSmoothing, EqualsLabelsThatAreSmoothedBeforehand) {
  for (const std::size_t most : {kColumns, std::size_t{3}}) {
    Data plain(kColumns), smooth(kColumns);
    for (Data* d : {&plain, &smooth}) d->random("x", 4), d->one_hot("labels", kClasses);
    for (float& l : smooth.values(1)) l = (1 - kAmount) * l + kAmount / kClasses;
    auto one = ready(softmax(), plain, kAmount, most), other = ready(softmax(), smooth, 0, most);
    Announced sink;
    const StepMetrics a = one->forward_backward(plain.batch, sink), b = other->forward_backward(smooth.batch, sink);
    EXPECT_NEAR(a.criterion, b.criterion, 1e-5);
    EXPECT_EQ(a.criterion_count, kColumns);
    const auto g = test::gradients(*one), h = test::gradients(*other);
    for (std::size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(g[i], h[i], 1e-5);
    const double evaluated = a.evaluations[0].sum;
    EXPECT_GT(std::abs(evaluated - a.criterion), 0.02) << "the evaluation is that of the labels as they are";
    const StepMetrics tested = one->evaluate(plain.batch);
    EXPECT_NEAR(tested.criterion, evaluated, 1e-5) << "nothing is smoothed outside of training";
  }
}

TEST(LabelSmoothing, SparseLabelsAndSumsOfCriteria) {
  Data dense(kColumns), sparse(kColumns);
  dense.random("x", 4), dense.one_hot("labels", kClasses);
  sparse.random("x", 4), sparse.one_hot("copied", kClasses), sparse.sparse_copy("labels", 1);
  auto one = ready(softmax(), dense, kAmount), other = ready(softmax(true), sparse, kAmount);
  auto sum = ready(softmax(false, true), dense, kAmount), of_two = ready(softmax(false, true), dense, 0);
  Announced sink;
  const double expected = one->forward_backward(dense.batch, sink).criterion;
  EXPECT_EQ(other->forward_backward(sparse.batch, sink).criterion, expected);
  EXPECT_EQ(test::gradients(*other), test::gradients(*one));
  const StepMetrics smoothed = sum->forward_backward(dense.batch, sink),
                    plain = of_two->forward_backward(dense.batch, sink);
  EXPECT_NEAR(smoothed.criterion - plain.criterion, expected - plain.evaluations[0].sum, 1e-4);
}

TEST(LabelSmoothing, WhatCannotBeSmoothedIsRefused) {
  const auto refusal = [](GraphBuilder b) -> std::string {
    NetworkOptions options;
    options.label_smoothing = 0.1;
    try {
      Network(b.graph(), options);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "not refused";
  };
  GraphBuilder other;
  const auto y = other.input("y", {2});
  other.criterion("SquareError", "se", {y, other.add("ElementTimes", "t", {other.parameter("P", {2}), y})});
  const std::string text = refusal(other);
  EXPECT_NE(text.find("labelSmoothing needs a criterion CrossEntropyWithSoftmax; 'se' is a SquareError"),
            std::string::npos)
      << text;
  GraphBuilder trained;
  const auto x = trained.input("x", {3});
  const auto labels = trained.add("Softmax", "s", {trained.add("Times", "t", {trained.parameter("T", {3, 3}), x})});
  trained.criterion("CrossEntropyWithSoftmax", "ce", {labels, x});
  EXPECT_NE(refusal(trained).find("the labels of 'ce' depend on the trained parameter 'T'"), std::string::npos);
}

}  // namespace
}  // namespace tutti::label_smoothing_test

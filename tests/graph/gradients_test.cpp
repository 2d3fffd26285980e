// SPDX-License-Identifier: Apache-2.0
// Gradients of every operation against central differences: x and y are made from parameters and data, go through the
// operation, are weighted so that every element counts, and are summed.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "graph_builder.h"
#include "tutti/gradient_check.h"

namespace tutti::gradients_test {
namespace {

using test::Announced;
using test::Attributes;
using test::Data;
using test::GraphBuilder;

// The operation under test; its operands all have a gradient.
struct Case {
  std::string name;
  std::function<std::size_t(GraphBuilder&)> value;  // the node under test
  std::size_t elements;                             // of its result; 0 = it is the criterion itself
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr std::size_t columns = 5;

Data& data() {
  static Data* d = [] {
    auto* made = new Data(columns);
    made->random("x", 6);
    made->random("y", 6, 0.3f, 1.7f);
    made->one_hot("labels", 6);
    made->random("binary", 6, 0, 1);
    for (auto& v : made->values(3)) v = v < 0.5f ? 0.0f : 1.0f;
    made->random("weight", 1, 0.5f, 2);
    // Words 0 to 5 of the classes [0, 2), [2, 5), [5, 6): word, class, first word of the class, first word behind it.
    made->dense("words", {0, 0, 0, 2, 4, 1, 2, 5, 5, 2, 5, 6, 2, 1, 2, 5, 1, 0, 0, 2});
    return made;
  }();
  return *d;
}

std::size_t times(GraphBuilder& b, std::size_t parameter, std::size_t x, const std::string& name) {
  return b.add("ElementTimes", name, {parameter, x});
}
// [6] or the like, per sample, depends on the parameter P elementwise.
std::size_t sampled(GraphBuilder& b, std::vector<double> dims, double seed, const std::string& input = "x",
                    double scale = 10) {
  const auto n = std::to_string(static_cast<int>(seed));
  const auto x = b.add("Reshape", "r" + n, {b.input(input, {6})}, {{"dims", dims}});
  return times(b, b.parameter("P" + n, dims, seed, scale), x, "px" + n);
}
// A parameter near 2.
std::size_t deviation(GraphBuilder& b) {
  return b.add("Plus", "deviation", {b.constant("two", 2), b.parameter("D", {6}, 5)});
}
// Away from zero and positive.
std::size_t positive(GraphBuilder& b, std::vector<double> dims, double seed) {
  const auto n = std::to_string(static_cast<int>(seed));
  return b.add("Plus", "pos" + n,
               {b.add("Exp", "exp" + n, {sampled(b, std::move(dims), seed)}), b.constant("c" + n, 0.5)});
}

std::vector<GradientMismatch> mismatches(const Case& c, bool reuse = true, std::int64_t plan = columns) {
  GraphBuilder b;
  const auto value = c.value(b);
  if (c.elements == 0) {
    b.graph().criteria.push_back(value);
  } else {
    // A different weight for every element, trained as well, and a square so that gradients are not constant.
    const auto n = static_cast<double>(c.elements);
    const auto flat = b.add("Reshape", "flat", {value}, {{"dims", std::vector<double>{n}}});
    const auto weighted = b.add("ElementTimes", "weighted", {b.parameter("Q", {n}, 99, 20), flat});
    const auto curved = b.add("Plus", "curved", {weighted, b.add("ElementTimes", "sq", {weighted, weighted})});
    b.criterion("SumElements", "total", {curved});
  }
  NetworkOptions options;
  options.reuse_memory = reuse;
  Network network(b.graph(), options);
  network.bind(data().infos);
  network.initialize_parameters();
  network.plan_training(plan);
  GradientCheckOptions check;
  check.entries = 0;
  return check_gradients(network, data().batch, check);
}

Case unary(const std::string& op, bool needs_positive = false, Attributes attributes = {}, std::size_t elements = 6) {
  return {op + (attributes.empty() ? "" : "With"),
          [=](GraphBuilder& b) {
            return b.add(op, "op", {needs_positive ? positive(b, {2, 3}, 1) : sampled(b, {2, 3}, 1)}, attributes);
          },
          elements};
}
Case binary(const std::string& name, const std::string& op, std::vector<double> left, std::vector<double> right,
            std::size_t elements) {
  return {name,
          [=](GraphBuilder& b) {
            const auto operand = [&](const std::vector<double>& dims, double seed) {
              std::size_t n = 1;
              for (const auto d : dims) n *= static_cast<std::size_t>(d);
              return n == 6 ? sampled(b, dims, seed, seed == 1 ? "x" : "y")
                            : b.parameter("P" + std::to_string(static_cast<int>(seed)), dims, seed);
            };
            return b.add(op, "op", {operand(left, 1), operand(right, 2)});
          },
          elements};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto* op : {"Negate", "Sigmoid", "Tanh", "Exp", "Sin", "Cosine", "Pass"}) all.push_back(unary(op));
  for (const auto* op : {"Reciprocal", "Log", "Sqrt", "Abs", "RectifiedLinear"}) all.push_back(unary(op, true));
  all.push_back(unary("Softmax")), all.push_back(unary("LogSoftmax"));
  all.push_back(unary("Softmax", false, {{"axis", 1.0}})), all.back().name = "SoftmaxFirstAxis";
  all.push_back(unary("Softmax", false, {{"axis", 2.0}})), all.back().name = "SoftmaxLastAxis";
  all.push_back(unary("LogSoftmax", false, {{"axis", 2.0}})), all.back().name = "LogSoftmaxLastAxis";
  for (const auto* op : {"Sum", "LogSum", "Mean", "Min", "Max"})
    for (const double axis : {0.0, 1.0, 2.0}) {
      all.push_back(unary("ReduceElements", false, {{"op", std::string(op)}, {"axis", axis}},
                          axis == 0   ? 1
                          : axis == 1 ? 3
                                      : 2));
      all.back().name = std::string("Reduce") + op + std::to_string(static_cast<int>(axis));
    }
  all.push_back(unary("SumColumnElements", false, {}, 1));
  all.push_back(unary("SumElements", false, {}, 1));
  all.push_back(unary("MatrixL1Reg", true, {}, 1));
  all.push_back(unary("MatrixL2Reg", false, {}, 1));
  all.push_back(unary("Dropout"));
  all.push_back(unary("Slice", false, {{"begin", 1.0}, {"end", 3.0}, {"axis", 2.0}}, 4)),
      all.back().name = "SliceLastAxis";
  all.push_back(unary("Slice", false, {{"begin", -1.0}, {"end", 0.0}}, 3)), all.back().name = "SliceFirstAxis";
  all.push_back(unary("RowRepeat", false, {{"numRepeats", 3.0}}, 18));
  all.push_back(unary("TransposeDimensions", false, {{"axis1", 1.0}, {"axis2", 2.0}}));
  for (const auto* op : {"Plus", "Minus", "ElementTimes", "LogPlus"}) {
    const std::string name = op;
    all.push_back(binary(name + "Same", op, {2, 3}, {2, 3}, 6));
    all.push_back(binary(name + "RepeatedRight", op, {2, 3}, {2, 1}, 6));
    all.push_back(binary(name + "RepeatedRightFirst", op, {2, 3}, {1, 3}, 6));
    all.push_back(binary(name + "RepeatedLeft", op, {1}, {3, 2}, 6));
    all.push_back(binary(name + "MissingAxis", op, {3, 2}, {3}, 6));
    all.push_back(binary(name + "Outer", op, {6}, {1, 4}, 24));
    all.push_back(binary(name + "NewAxis", op, {1, 6}, {5}, 30));
  }
  all.push_back(binary("DiagTimes", "DiagTimes", {2}, {2, 3}, 6));
  all.push_back(binary("KhatriRao", "KhatriRaoProduct", {6}, {4}, 24));
  all.push_back(binary("CosDistance", "CosDistance", {6}, {6}, 1));
  all.push_back({"CosDistanceWithNegativeSamples",
                 [](GraphBuilder& b) {
                   return b.add("CosDistanceWithNegativeSamples", "op", {sampled(b, {6}, 1), sampled(b, {6}, 2, "y")},
                                {{"shift", 2.0}, {"negatives", 3.0}});
                 },
                 4});
  all.push_back({"KhatriRaoSamples",
                 [](GraphBuilder& b) {
                   return b.add("KhatriRaoProduct", "op", {sampled(b, {6}, 1), sampled(b, {6}, 2, "y")});
                 },
                 36});
  all.push_back({"RowStack",
                 [](GraphBuilder& b) {
                   return b.add("RowStack", "op",
                                {sampled(b, {2, 3}, 1), b.parameter("S", {5, 3}, 3), sampled(b, {2, 3}, 2, "y")});
                 },
                 27});
  all.push_back({"RowStackSecondAxis",
                 [](GraphBuilder& b) {
                   return b.add("RowStack", "op", {sampled(b, {2, 3}, 1), sampled(b, {2, 3}, 2, "y")}, {{"axis", 2.0}});
                 },
                 12});
  all.push_back({"RowStackRepeats",
                 [](GraphBuilder& b) {
                   const auto first = b.add("Slice", "first", {sampled(b, {2, 3}, 1)}, {{"end", 1.0}, {"axis", 2.0}});
                   return b.add("RowStack", "op", {first, sampled(b, {2, 3}, 2, "y"), b.parameter("S", {4, 1}, 3)});
                 },
                 24});
  all.push_back({"SpliceAxisFurtherOn",
                 [](GraphBuilder& b) {
                   return b.add("RowStack", "op", {sampled(b, {6}, 1), sampled(b, {6}, 2, "y")}, {{"axis", 3.0}});
                 },
                 12});
  all.push_back({"SpliceNewAxis",
                 [](GraphBuilder& b) {
                   return b.add("RowStack", "op", {sampled(b, {6}, 1), sampled(b, {6}, 2, "y")}, {{"axis", 2.0}});
                 },
                 12});
  all.push_back({"If",
                 [](GraphBuilder& b) {
                   const auto c = b.add("Greater", "c", {b.input("x", {6}), b.constant("zero", 0)});
                   return b.add("If", "op", {c, sampled(b, {6}, 1), b.parameter("E", {1}, 3)});
                 },
                 6});
  all.push_back({"Clip",
                 [](GraphBuilder& b) {
                   const auto scaled = b.add("ElementTimes", "s", {b.constant("k", 0.01), sampled(b, {6}, 1)});
                   return b.add("Clip", "op", {b.constant("low", -1), b.constant("high", 1), scaled});
                 },
                 6});
  all.push_back(
      {"Normalization",
       [](GraphBuilder& b) {
         return b.add("PerDimMeanVarNormalization", "op", {sampled(b, {6}, 1), b.parameter("m", {6}, 3), deviation(b)});
       },
       6});
  all.push_back({"DeNormalization",
                 [](GraphBuilder& b) {
                   return b.add("PerDimMeanVarDeNormalization", "op",
                                {sampled(b, {6}, 1), b.parameter("m", {6}, 3), deviation(b)});
                 },
                 6});
  // Products in every combination of sample axes.
  all.push_back({"Times",
                 [](GraphBuilder& b) {
                   return b.add("Times", "op", {b.parameter("W", {7, 6}, 3), sampled(b, {6}, 1)});
                 },
                 7});
  all.push_back({"TimesMapped",
                 [](GraphBuilder& b) {
                   return b.add("Times", "op", {b.parameter("W", {7, 2}, 3), sampled(b, {2, 3}, 1)});
                 },
                 21});
  all.push_back(
      {"TimesTensor",
       [](GraphBuilder& b) {
         return b.add("Times", "op", {b.parameter("W", {2, 4, 2, 3}, 3), sampled(b, {2, 3}, 1)}, {{"outputRank", 2.0}});
       },
       8});
  all.push_back({"TimesColumn",
                 [](GraphBuilder& b) {
                   return b.add("Times", "op", {b.parameter("W", {7}, 3), sampled(b, {6}, 1)});
                 },
                 42});
  all.push_back({"TransposeTimes",
                 [](GraphBuilder& b) {
                   return b.add("TransposeTimes", "op", {b.parameter("W", {6, 7}, 3), sampled(b, {6}, 1)});
                 },
                 7});
  all.push_back({"TimesParameters",
                 [](GraphBuilder& b) {
                   return b.add("Times", "op", {b.parameter("W", {4, 3}, 3), b.parameter("V", {3, 2}, 4)});
                 },
                 8});
  all.push_back({"TimesOfSamples",
                 [](GraphBuilder& b) {
                   return b.add("Times", "op", {sampled(b, {3, 2}, 1), sampled(b, {2, 3}, 2, "y")});
                 },
                 9});
  all.push_back({"TransposeTimesOfSamples",
                 [](GraphBuilder& b) {
                   return b.add("TransposeTimes", "op", {sampled(b, {2, 3}, 1), sampled(b, {2, 3}, 2, "y")});
                 },
                 9});
  all.push_back({"TimesSampleParameter",
                 [](GraphBuilder& b) {
                   return b.add("Times", "op", {sampled(b, {3, 2}, 1), b.parameter("V", {2, 4}, 3)});
                 },
                 12});
  all.push_back({"TimesOfItself",
                 [](GraphBuilder& b) {
                   const auto w = b.parameter("W", {3, 3}, 3);
                   return b.add("Times", "op", {w, w});
                 },
                 9});
  // One parameter in several places.
  all.push_back({"SharedWeight",
                 [](GraphBuilder& b) {
                   const auto w = b.parameter("W", {6, 6}, 3, 5);
                   const auto h = b.add("Tanh", "h", {b.add("Times", "t1", {w, sampled(b, {6}, 1)})});
                   return b.add("Times", "op", {w, b.add("Plus", "u", {h, w})});
                 },
                 36});
  all.push_back({"FusedSigmoid",
                 [](GraphBuilder& b) {
                   const auto t = b.add("Times", "t", {b.parameter("W", {7, 6}, 3), sampled(b, {6}, 1)});
                   return b.add("Sigmoid", "op", {b.add("Plus", "p", {t, b.parameter("B", {7, 1}, 4)})});
                 },
                 7});
  all.push_back({"FusedTanhBiasFirst",
                 [](GraphBuilder& b) {
                   const auto t = b.add("TransposeTimes", "t", {b.parameter("W", {6, 7}, 3), sampled(b, {6}, 1)});
                   return b.add("Tanh", "op", {b.add("Plus", "p", {b.parameter("B", {7}, 4), t})});
                 },
                 7});
  all.push_back({"BiasTwice",
                 [](GraphBuilder& b) {
                   const auto bias = b.parameter("B", {6}, 4);
                   const auto t = b.add("Times", "t", {b.parameter("W", {6, 6}, 3), sampled(b, {6}, 1)});
                   const auto h = b.add("Tanh", "h", {b.add("Plus", "p", {t, bias})});
                   const auto u = b.add("Times", "u", {b.parameter("V", {6, 6}, 5), h});
                   return b.add("Plus", "op", {u, bias});
                 },
                 6});
  // Criteria.
  const auto prediction = [](GraphBuilder& b) {
    return b.add("Times", "z", {b.parameter("W", {6, 6}, 3, 30), sampled(b, {6}, 1)});
  };
  all.push_back({"CrossEntropyWithSoftmax",
                 [=](GraphBuilder& b) {
                   return b.add("CrossEntropyWithSoftmax", "op", {b.input("labels", {6}), prediction(b)});
                 },
                 0});
  all.push_back({"CrossEntropySoftLabels",
                 [=](GraphBuilder& b) {
                   const auto soft = b.add("Softmax", "soft", {sampled(b, {6}, 5, "y")});
                   return b.add("CrossEntropyWithSoftmax", "op", {soft, prediction(b)});
                 },
                 0});
  all.push_back(
      {"CrossEntropyOfAxis",
       [=](GraphBuilder& b) {
         const auto l = b.add("Reshape", "l2", {b.input("labels", {6})}, {{"dims", std::vector<double>{2, 3}}});
         return b.add("CrossEntropyWithSoftmax", "op",
                      {l, b.add("Reshape", "z2", {prediction(b)}, {{"dims", std::vector<double>{2, 3}}})},
                      {{"axis", 2.0}});
       },
       0});
  all.push_back({"CrossEntropy",
                 [=](GraphBuilder& b) {
                   return b.add("CrossEntropy", "op", {b.input("labels", {6}), b.add("Softmax", "p", {prediction(b)})});
                 },
                 0});
  all.push_back({"SquareError",
                 [=](GraphBuilder& b) {
                   return b.add("SquareError", "op", {sampled(b, {6}, 5, "y"), prediction(b)});
                 },
                 0});
  all.push_back({"Logistic",
                 [=](GraphBuilder& b) {
                   return b.add("Logistic", "op", {b.input("binary", {6}), b.add("Sigmoid", "p", {prediction(b)})});
                 },
                 0});
  all.push_back({"WeightedLogistic",
                 [=](GraphBuilder& b) {
                   return b.add(
                       "WeightedLogistic", "op",
                       {b.input("binary", {6}), b.add("Sigmoid", "p", {prediction(b)}), b.input("weight", {1})});
                 },
                 0});
  all.push_back({"ClassBasedCrossEntropyWithSoftmax",
                 [=](GraphBuilder& b) {
                   const auto z = prediction(b);
                   const auto classes = b.add("Times", "classes", {b.parameter("C", {3, 6}, 7), z});
                   return b.add("ClassBasedCrossEntropyWithSoftmax", "op",
                                {b.input("words", {4}), z, b.parameter("V", {6, 6}, 8), classes});
                 },
                 0});
  all.push_back({"LookupTable",
                 [=](GraphBuilder& b) {
                   return b.add("LookupTable", "op", {b.parameter("E", {4, 6}, 7), sampled(b, {6}, 1)});
                 },
                 4});
  all.push_back({"LookupTableOfTwoWords",
                 [=](GraphBuilder& b) {
                   return b.add("LookupTable", "op", {b.parameter("E", {4, 3}, 7), sampled(b, {6}, 1)});
                 },
                 8});
  all.push_back({"PerSampleCriterion", [=](GraphBuilder& b) { return b.add("Sin", "op", {prediction(b)}); }, 0});
  all.push_back({"Penalised",
                 [=](GraphBuilder& b) {
                   const auto z = prediction(b);
                   const auto ce = b.add("SquareError", "se", {b.input("y", {6}), z});
                   const auto w = b.parameter("V", {4}, 9);
                   return b.add(
                       "Plus", "op",
                       {ce, b.add("ElementTimes", "l2", {b.constant("half", 0.5), b.add("MatrixL2Reg", "n", {w})})});
                 },
                 0});
  return all;
}

class Gradients : public testing::TestWithParam<Case> {};

TEST_P(Gradients, AgreeWithDifferences) {
  for (const auto& m : mismatches(GetParam()))
    ADD_FAILURE() << m.parameter << "[" << m.index << "]: analytic " << m.analytic << ", numeric " << m.numeric;
}

TEST_P(Gradients, AgreeInParts) {
  for (const auto& m : mismatches(GetParam(), true, 2))
    ADD_FAILURE() << m.parameter << "[" << m.index << "]: analytic " << m.analytic << ", numeric " << m.numeric;
}

INSTANTIATE_TEST_SUITE_P(Operations, Gradients, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Criteria, LogisticTrainsOnlyItsSecondOperand) {
  const auto error = [](const std::function<std::size_t(GraphBuilder&)>& value) -> std::string {
    try {
      mismatches({"", value, 0});
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  };
  const auto p = [](GraphBuilder& b, double seed) { return b.add("Sigmoid", "p", {sampled(b, {6}, seed)}); };
  EXPECT_NE(error([&](GraphBuilder& b) {
              return b.add("Logistic", "op", {sampled(b, {6}, 2, "y"), p(b, 1)});
            }).find("Logistic 'op': its label depends on trained parameters"),
            std::string::npos);
  EXPECT_NE(error([&](GraphBuilder& b) {
              return b.add("WeightedLogistic", "op", {b.input("binary", {6}), p(b, 1), sampled(b, {6}, 2, "y")});
            }).find("WeightedLogistic 'op': its weight depends on trained parameters"),
            std::string::npos);
}

// The check itself must be able to fail: a criterion whose gradient is cut off disagrees with its differences.
TEST(GradientCheck, FindsAWrongGradient) {
  GraphBuilder b;
  const auto w = b.parameter("W", {3}, 1);
  b.criterion("SumElements", "total", {b.add("ElementTimes", "t", {w, b.input("x", {3})})});
  Network network(b.graph(), {});
  Data d(4);
  d.random("x", 3);
  network.bind(d.infos);
  network.initialize_parameters();
  network.plan_training(4);
  EXPECT_TRUE(check_gradients(network, d.batch).empty());
  // Steps across the kink of a rounding function: the analytic gradient is zero, the differences are not.
  GraphBuilder c;
  const auto v = c.parameter("V", {1}, 1, 0);
  const auto stepped = c.add("Round", "r", {c.add("Plus", "p", {v, c.constant("half", 0.5)})});
  c.criterion("SumElements", "total", {c.add("ElementTimes", "t", {stepped, c.input("x", {3})})});
  Network steps(c.graph(), {});
  steps.bind(d.infos);
  steps.initialize_parameters();
  steps.plan_training(4);
  const auto wrong = check_gradients(steps, d.batch);
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0].parameter, "V");
  EXPECT_EQ(wrong[0].analytic, 0);
  EXPECT_FALSE(steps.trains());
}

// A kink within the step, near the weight and at it.
TEST(GradientCheck, BearsKinks) {
  Data d(4);
  d.random("x", 3);
  for (const double distance : {0.003, 0.0001, 0.0, -0.0001, -0.003}) {
    GraphBuilder b;
    const auto moved = b.add("Plus", "p", {b.parameter("V", {1}, 1, 0), b.constant("d", distance)});
    const auto kinked = b.add("RectifiedLinear", "r", {moved});
    b.criterion("SumElements", "total", {b.add("ElementTimes", "t", {kinked, b.input("x", {3})})});
    Network network(b.graph(), {});
    network.bind(d.infos);
    network.initialize_parameters();
    network.plan_training(4);
    EXPECT_TRUE(check_gradients(network, d.batch).empty()) << distance;
  }
}

}  // namespace
}  // namespace tutti::gradients_test

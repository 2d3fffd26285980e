// SPDX-License-Identifier: Apache-2.0
// Initial values against an independent calculation from the generator's published outputs.
#include "graph/initialize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <random>

#include "graph/shapes.h"
#include "graph_builder.h"

namespace tutti::graph::initialize_test {
namespace {

using test::Attributes;

std::vector<float> made(Attributes attributes, Shape shape) {
  const Node node{"W", "LearnableParameter", {}, std::move(attributes), {}};
  std::vector<float> values(shape.elements(), -7);
  initialize(node, shape, values);
  return values;
}

TEST(Initialize, FirstUniformDraws) {
  // mt19937_64 seeded with 1 begins with 2469588189546311528, 2516265689700432462, 8323445853463659930.
  std::mt19937_64 engine(1);
  ASSERT_EQ(engine(), 2469588189546311528ull);
  const double two64 = 18446744073709551616.0;
  const auto values = made({{"init", std::string("uniform")}, {"randomSeed", 1.0}}, {{3, 2}});
  EXPECT_NEAR(values[0], 2469588189546311528.0 / two64 * 0.1 - 0.05, 5e-9);
  EXPECT_NEAR(values[1], 2516265689700432462.0 / two64 * 0.1 - 0.05, 5e-9);
  EXPECT_NEAR(values[2], 8323445853463659930.0 / two64 * 0.1 - 0.05, 5e-9);
  const auto scaled = made({{"init", std::string("uniform")}, {"initValueScale", 10.0}, {"randomSeed", 1.0}}, {{3}});
  EXPECT_NEAR(scaled[1], 2516265689700432462.0 / two64 - 0.5, 1e-7);
  EXPECT_NE(made({{"randomSeed", 2.0}}, {{3}})[0], values[0]);
  EXPECT_EQ(made({{"randomSeed", 1.0}}, {{3}})[2], values[2]);  // uniform is the default
}

TEST(Initialize, RangesFollowTheFans) {
  const auto largest = [](const std::string& init, Shape shape, Attributes extra = {}) {
    extra["init"] = init, extra["randomSeed"] = 3.0;
    float most = 0;
    for (const float v : made(extra, shape)) most = std::max(most, std::fabs(v));
    return most;
  };
  const Shape matrix{{40, 60}};  // 40 out, 60 in
  EXPECT_NEAR(largest("xavier", matrix), std::sqrt(3.0 / 60), 1e-3);
  EXPECT_NEAR(largest("glorotUniform", matrix), std::sqrt(6.0 / 100), 1e-3);
  EXPECT_NEAR(largest("heUniform", matrix), std::sqrt(6.0 / 60), 1e-3);
  // Filter 3x3, 8 maps in, 40 out: outputs are the last axis.
  const Attributes filter = {{"initFilterRank", 2.0}, {"initOutputRank", -1.0}};
  EXPECT_NEAR(largest("glorotUniform", {{3, 3, 8, 40}}, filter), std::sqrt(6.0 / (9 * 8 + 9 * 40)), 1e-3);
  EXPECT_NEAR(largest("heUniform", {{3, 3, 8, 40}}, filter), std::sqrt(6.0 / 72), 1e-3);
}

TEST(Initialize, NormalDrawsByThePolarMethod) {
  std::mt19937_64 engine(5);
  const auto c = [&] { return static_cast<double>(static_cast<float>(engine()) / 18446744073709551616.0f); };
  double a = 0, b = 0, q = 0;
  do {
    a = 2 * c() - 1, b = 2 * c() - 1, q = a * a + b * b;
  } while (q <= 0 || q >= 1);
  const double f = std::sqrt(-2 * std::log(q) / q);
  const auto values = made({{"init", std::string("normal")}, {"randomSeed", 5.0}}, {{101, 100}});
  EXPECT_NEAR(values[0], f * a, 1e-5);
  EXPECT_NEAR(values[1], f * b, 1e-5);
  double square = 0;
  for (const float v : values) square += static_cast<double>(v) * v;
  EXPECT_NEAR(square / static_cast<double>(values.size()), 1, 0.05);
  const auto he = made({{"init", std::string("heNormal")}, {"randomSeed", 5.0}}, {{101, 100}});
  EXPECT_FLOAT_EQ(he[0], values[0] * static_cast<float>(std::sqrt(2.0 / 100)));
  const auto glorot = made({{"init", std::string("glorotNormal")}, {"randomSeed", 5.0}}, {{101, 100}});
  EXPECT_FLOAT_EQ(glorot[3], values[3] * static_cast<float>(std::sqrt(2.0 / 201)));
  const auto gaussian =
      made({{"init", std::string("gaussian")}, {"initValueScale", 2.0}, {"randomSeed", 5.0}}, {{101, 100}});
  EXPECT_FLOAT_EQ(gaussian[3], values[3] * static_cast<float>(0.2 / 10 * 2));
}

TEST(Initialize, GivenValues) {
  EXPECT_EQ(made({{"init", std::string("fixedValue")}, {"value", 2.5}}, {{2}}), (std::vector<float>{2.5f, 2.5f}));
  EXPECT_EQ(made({{"init", std::string("fixedValue")}}, {{2}}), (std::vector<float>{0, 0}));
  EXPECT_EQ(made({{"init", std::string("zero")}}, {{2}}), (std::vector<float>{0, 0}));
  EXPECT_EQ(made({{"initValue", std::vector<double>{1, 2, 3}}}, {{3}}), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(made({{"initValue", 4.0}}, {{2}}), (std::vector<float>{4, 4}));
  EXPECT_EQ(made({{"initFromLiteral", std::string("1 2\n3 4\n")}}, {{2, 2}}), (std::vector<float>{1, 3, 2, 4}));
  EXPECT_THROW(made({{"initValue", std::vector<double>{1, 2}}}, {{3}}), ConfigError);
  EXPECT_EQ(made({{"initFromLiteral", std::string("1e-50 -1e-400\n3 1e-45\n")}}, {{2, 2}}),
            (std::vector<float>{0, 3, 0, 1e-45f}))
      << "as files in float64 have them";
  EXPECT_THROW(made({{"initFromLiteral", std::string("1e50\n")}}, {{1, 1}}), ConfigError);
  EXPECT_THROW(made({{"initFromLiteral", std::string("1e400\n")}}, {{1, 1}}), ConfigError);
  EXPECT_THROW(made({{"initFromLiteral", std::string("1 2\n3\n")}}, {{2, 2}}), ConfigError);
  EXPECT_THROW(made({{"initFromLiteral", std::string("1 x\n")}}, {{1, 2}}), ConfigError);
}

TEST(Initialize, BilinearKernelsInterpolate) {
  const auto four = made({{"init", std::string("bilinear")}, {"initFilterRank", 2.0}}, {{4, 4, 2, 2}});
  ASSERT_EQ(four.size(), 64u);
  const std::vector<float> line = {0.25f, 0.75f, 0.75f, 0.25f};
  for (std::size_t i = 0; i < four.size(); ++i)  // each channel by itself
    EXPECT_EQ(four[i], i / 16 == 0 || i / 16 == 3 ? line[i % 4] * line[i / 4 % 4] : 0) << i;
  EXPECT_THROW(made({{"init", std::string("bilinear")}, {"initFilterRank", 2.0}}, {{4, 4, 1, 2}}), ConfigError);
  EXPECT_EQ(made({{"init", std::string("bilinear")}}, {{3, 3}})[4], 1.0f);
  EXPECT_THROW(made({{"init", std::string("bilinear")}, {"initFilterRank", 2.0}}, {{3, 4, 1}}), ConfigError);
}

TEST(Initialize, OrthogonalRowsOrColumns) {
  for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{3, 7}, {7, 3}, {5, 5}, {1, 4}, {4, 1}}) {
    const auto v =
        made({{"init", std::string("orthogonal")}, {"initValueScale", 2.0}, {"randomSeed", 3.0}}, {{rows, columns}});
    const std::size_t n = std::min(rows, columns), length = std::max(rows, columns);
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b <= a; ++b) {
        double dot = 0;
        for (std::size_t i = 0; i < length; ++i)
          dot += rows <= columns ? v[i * rows + a] * v[i * rows + b] : v[a * rows + i] * v[b * rows + i];
        EXPECT_NEAR(dot, a == b ? 4 : 0, 1e-5) << rows << " x " << columns;
      }
  }
}

TEST(Initialize, OrthogonalTensors) {
  struct Case {
    Shape shape;
    double filter_rank, output_rank;
    std::size_t outputs, apart;  // the number of outputs, and their distance in memory
  };
  // Filters, filters with the outputs in front of the inputs, a layer [4 x 5] of 30 inputs, and one of 6.
  for (const Case& c : {Case{{{3, 3, 16, 32}}, 2, -1, 32, 144}, Case{{{3, 3, 5, 7}}, 2, 1, 5, 9},
                        Case{{{4, 5, 30}}, 0, 2, 20, 1}, Case{{{4, 5, 2, 3}}, 0, 2, 20, 1}}) {
    const auto v = made({{"init", std::string("orthogonal")},
                         {"randomSeed", 3.0},
                         {"initFilterRank", c.filter_rank},
                         {"initOutputRank", c.output_rank}},
                        c.shape);
    std::vector<std::vector<double>> matrix(c.outputs);  // by output
    for (std::size_t i = 0; i < v.size(); ++i) matrix[i / c.apart % c.outputs].push_back(v[i]);
    const std::size_t inputs = v.size() / c.outputs, n = std::min(c.outputs, inputs);
    const auto at = [&](std::size_t vector, std::size_t element) {
      return c.outputs <= inputs ? matrix[vector][element] : matrix[element][vector];
    };
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b <= a; ++b) {
        double dot = 0;
        for (std::size_t i = 0; i < std::max(c.outputs, inputs); ++i) dot += at(a, i) * at(b, i);
        EXPECT_NEAR(dot, a == b ? 1 : 0, 1e-5) << to_string(c.shape) << " " << a << " " << b;
      }
  }
}

TEST(Initialize, SizesOfFilesAreCheckedWithoutTheValues) {
  const std::string path = testing::TempDir() + "initialize_test_sizes.txt";
  std::ofstream(path) << "\n1.5 -2 3e1\r\n \n4 5 6\n";
  const auto check = [&](std::vector<double> dims) {
    check_initializer({"w", "LearnableParameter", {}, {{"dims", std::move(dims)}, {"initFromFilePath", path}}, {}, {}});
  };
  EXPECT_NO_THROW(check({2, 3}));
  EXPECT_NO_THROW(check({2, 3, 1}));
  EXPECT_THROW(check({3, 2}), ConfigError);
  EXPECT_THROW(check({2, 4}), ConfigError);
  EXPECT_THROW(check({2}), ConfigError);
  std::ofstream(path) << "\n \n";
  EXPECT_THROW(check({2, 3}), ConfigError);
  std::remove(path.c_str());
}

TEST(Initialize, FromFile) {
  const std::string path = testing::TempDir() + "initialize_test_matrix.txt";
  std::ofstream(path) << "1.5 -2 3e1\n4 5 6\n";
  EXPECT_EQ(made({{"init", std::string("fromFile")}, {"initFromFilePath", path}}, {{2, 3}}),
            (std::vector<float>{1.5f, 4, -2, 5, 30, 6}));
  EXPECT_THROW(made({{"initFromFilePath", path}}, {{3, 2}}), ConfigError);
  EXPECT_THROW(made({{"initFromFilePath", path + ".absent"}}, {{2, 3}}), ConfigError);
  test::GraphBuilder b;
  const auto w =
      b.add("LearnableParameter", "W", {}, {{"dims", std::vector<double>{0, 0}}, {"initFromFilePath", path}});
  const auto order = evaluation_order(b.graph(), {w});
  EXPECT_EQ(infer_graph(b.graph(), order)[w].shape, (Shape{{2, 3}}));
  std::remove(path.c_str());
}

TEST(Initialize, Unknown) {
  try {
    made({{"init", std::string("glorotUnifrom")}}, {{2}});
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'glorotUniform'?"), std::string::npos);
  }
  EXPECT_THROW(made({{"init", std::string("bilinear")}}, {{2}}), ConfigError);
}

}  // namespace
}  // namespace tutti::graph::initialize_test

// SPDX-License-Identifier: Apache-2.0
// The network as a whole: results, counts, parts, order of the chunks, sparse inputs, statistics, dropout, faults.
#include "tutti/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string_view>

#include "graph_builder.h"

namespace tutti::network_test {
namespace {

using test::Announced;
using test::Data;
using test::gradients;
using test::GraphBuilder;

// x [dim] -> hidden -> classes, with the given activation.
GraphBuilder classifier(double dim, double hidden, double classes, const std::string& activation = "RectifiedLinear",
                        bool sparse = false) {
  GraphBuilder b;
  const auto x = b.input("x", {dim}, sparse);
  const auto t1 = b.add("Times", "t1", {b.parameter("W1", {hidden, dim}, 1), x});
  const auto h = b.add(activation, "h", {b.add("Plus", "s1", {t1, b.parameter("b1", {hidden}, 2)})});
  const auto t2 = b.add("Times", "t2", {b.parameter("W2", {classes, hidden}, 3), h});
  const auto z = b.add("Plus", "z", {t2, b.parameter("b2", {classes}, 4)});
  const auto labels = b.input("labels", {classes});
  b.criterion("CrossEntropyWithSoftmax", "ce", {labels, z});
  b.evaluation("ClassificationError", "errs", {labels, z});
  b.evaluation("ClassificationError", "top2", {labels, z}, {{"topN", 2.0}});
  b.graph().outputs.push_back(z);
  b.graph().features.push_back(x);
  return b;
}

std::unique_ptr<Network> ready(const graph::Graph& graph, const Data& data, std::int64_t plan,
                               NetworkOptions options = {}) {
  auto network = std::make_unique<Network>(graph, options);
  network->bind(data.infos);
  network->initialize_parameters();
  network->plan_training(plan);
  return network;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::fabs(a[i]))) << i;
}

TEST(Network, CriterionAndErrorsByHand) {
  GraphBuilder b;
  const auto z = b.input("z", {3}), labels = b.input("labels", {3});
  b.criterion("CrossEntropyWithSoftmax", "ce", {labels, z});
  b.evaluation("ClassificationError", "errs", {labels, z});
  b.evaluation("ClassificationError", "top2", {labels, z}, {{"topN", 2.0}});
  b.evaluation("SquareError", "se", {labels, z});
  Data d(3);
  d.dense("z", {1, 2, 3, 5, 5, 0, 0, 1, 1});
  d.dense("labels", {0, 0, 1, 1, 0, 0, 0, 0, 1});
  Network network(b.graph(), {});
  network.bind(d.infos);
  network.plan_evaluation(8, {});
  const StepMetrics t = network.evaluate(d.batch);
  const double first = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)) - 3;
  const double second = std::log(2 * std::exp(5.0) + 1) - 5, third = std::log(1 + 2 * std::exp(1.0)) - 1;
  EXPECT_NEAR(t.criterion, first + second + third, 1e-6);
  EXPECT_EQ(t.criterion_count, 3);
  EXPECT_EQ(t.samples, 3);
  // Of equal values the first is the maximum: right for sample 2, wrong for sample 3.
  EXPECT_EQ(t.evaluations[0].sum, 1);
  EXPECT_EQ(t.evaluations[1].sum, 0);
  EXPECT_EQ(t.evaluations[2].sum, 1 + 4 + 4 + 16 + 25 + 0 + 0 + 1 + 0);
  EXPECT_EQ(t.evaluations[2].count, 3);
}

// One number of a sample, the mean over the lines along the axis.
TEST(Network, ErrorsAlongAnAxisAreTheirMean) {
  GraphBuilder b;
  const auto z = b.input("z", {3, 2}), labels = b.input("labels", {3, 2});
  b.criterion("SquareError", "se", {labels, z});
  b.evaluation("ClassificationError", "errs", {labels, z}, {{"axis", 1.0}});
  Data d(2);
  d.dense("z", {1, 2, 3, 5, 4, 0, 0, 1, 2, 7, 8, 9});
  d.dense("labels", {0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 0});
  Network network(b.graph(), {});
  network.bind(d.infos);
  network.plan_evaluation(2, {});
  const StepMetrics t = network.evaluate(d.batch);
  EXPECT_EQ(t.evaluations[0].sum, 0.5 + 1);
  EXPECT_EQ(t.evaluations[0].count, 2);
}

TEST(Network, ChunksComeLastLayerFirstAndCoverEverything) {
  Data d(4);
  d.random("x", 1000);
  d.one_hot("labels", 10);
  auto network = ready(classifier(1000, 600, 10).graph(), d, 4);
  const Parameters& p = network->parameters();
  ASSERT_EQ(p.slices.size(), 4u);
  EXPECT_EQ(p.slices[0].name, "b2");
  EXPECT_EQ(p.slices[1].name, "W2");
  EXPECT_EQ(p.slices[2].name, "b1");
  EXPECT_EQ(p.slices[3].name, "W1");
  EXPECT_EQ(p.slices[3].rows, 600u);
  EXPECT_EQ(p.slices[3].columns, 1000u);
  std::vector<std::size_t> columns(p.slices.size(), 0);
  for (const auto& chunk : p.chunks) {
    EXPECT_EQ(chunk.first_column, columns[chunk.slice]);
    columns[chunk.slice] += chunk.columns;
    EXPECT_LE(p.count(chunk), std::size_t{1} << 19);
  }
  for (std::size_t s = 0; s < p.slices.size(); ++s) {
    EXPECT_EQ(columns[s], p.slices[s].columns);
    EXPECT_EQ(p.slices[s].offset % 16, 0u);
  }
  EXPECT_EQ(p.chunks.size(), 5u);
  Announced sink;
  network->forward_backward(d.batch, sink);
  ASSERT_EQ(sink.order.size(), p.chunks.size());
  for (std::size_t i = 0; i < sink.order.size(); ++i) EXPECT_EQ(sink.order[i], i);
  // An empty share says the same, with zeros.
  Data empty(0);
  empty.dense("x", {}), empty.dense("labels", {});
  Announced same;
  const StepMetrics t = network->forward_backward(empty.batch, same);
  EXPECT_EQ(same.order, sink.order);
  EXPECT_EQ(t.samples, 0);
  EXPECT_EQ(t.evaluations.size(), 2u);
  for (const float g : gradients(*network)) ASSERT_EQ(g, 0);
}

// Weights may change as soon as they are announced: the gradients are those of the weights before.
TEST(Network, WeightsMayChangeWhenAnnounced) {
  Data d(6);
  d.random("x", 900);
  d.one_hot("labels", 5);
  const auto graph = classifier(900, 700, 5, "Tanh").graph();
  auto calm = ready(graph, d, 6), busy = ready(graph, d, 6);
  Announced nothing;
  calm->forward_backward(d.batch, nothing);
  struct Spoil : GradientSink {
    Parameters& p;
    explicit Spoil(Parameters& parameters) : p(parameters) {}
    void chunk_ready(std::size_t i) override {
      std::fill_n(p.weights.data() + p.offset(p.chunks[i]), p.count(p.chunks[i]),
                  std::numeric_limits<float>::quiet_NaN());
    }
  } spoil(busy->parameters());
  busy->forward_backward(d.batch, spoil);
  EXPECT_EQ(gradients(*calm), gradients(*busy));
}

TEST(Network, PartsAddUpToTheWhole) {
  for (const std::string activation : {"RectifiedLinear", "Sigmoid", "Tanh"}) {
    Data d(23);
    d.random("x", 17);
    d.one_hot("labels", 5);
    const auto graph = classifier(17, 13, 5, activation).graph();
    auto whole = ready(graph, d, 23);
    Announced sink;
    const StepMetrics expected = whole->forward_backward(d.batch, sink);
    for (const std::int64_t plan : {1, 5, 22}) {
      auto parts = ready(graph, d, plan);
      Announced other;
      const StepMetrics t = parts->forward_backward(d.batch, other);
      EXPECT_EQ(other.order, sink.order);
      EXPECT_NEAR(t.criterion, expected.criterion, 1e-5);
      EXPECT_EQ(t.criterion_count, 23);
      EXPECT_EQ(t.evaluations[0].sum, expected.evaluations[0].sum);
      EXPECT_EQ(t.evaluations[1].count, 23);
      expect_near(gradients(*whole), gradients(*parts), 1e-5);
    }
  }
}

// A penalty on weights counts once, however the share would be split.
TEST(Network, WhatIsNoSumOverSamplesIsNotSplit) {
  Data d(9);
  d.random("x", 4);
  GraphBuilder b;
  const auto w = b.parameter("W", {3, 4}, 1);
  const auto z = b.add("Times", "z", {w, b.input("x", {4})});
  b.criterion("Plus", "total",
              {b.add("SquareError", "se", {z, b.add("Sigmoid", "s", {z})}), b.add("MatrixL2Reg", "n", {w})});
  auto whole = ready(b.graph(), d, 9), small = ready(b.graph(), d, 2);
  Announced sink;
  EXPECT_EQ(whole->forward_backward(d.batch, sink).criterion, small->forward_backward(d.batch, sink).criterion);
  EXPECT_EQ(gradients(*whole), gradients(*small));
}

// Values per sample that are computed from a sum over the minibatch.
TEST(Network, SamplesThatUseASumOverSamplesAreNotSplit) {
  Data d(9);
  d.random("x", 3);
  using Criterion = std::function<std::size_t(GraphBuilder&, std::size_t z, std::size_t x)>;
  const auto scaled = [](GraphBuilder& b, std::size_t values, std::size_t summed) {
    return b.add("ElementTimes", "scaled", {values, b.add("SumElements", "sum", {summed})});
  };
  const auto product = [&](GraphBuilder& b, std::size_t z) {
    return scaled(b, z, b.add("ElementTimes", "square", {z, z}));
  };
  const std::map<std::string, Criterion> criteria = {
      {"SumElements", [&](auto& b, auto z, auto) { return b.add("SumElements", "total", {product(b, z)}); }},
      {"SquareError", [&](auto& b, auto z, auto x) { return b.add("SquareError", "total", {z, scaled(b, x, z)}); }},
      {"ReduceElements", [&](auto& b, auto z, auto) {
         return b.add("ReduceElements", "total", {product(b, z)}, {{"op", std::string("Sum")}, {"axis", 0.0}});
       }}};
  for (const auto& [name, criterion] : criteria) {
    SCOPED_TRACE(name);
    GraphBuilder b;
    const auto x = b.input("x", {3});
    b.graph().criteria.push_back(criterion(b, b.add("Times", "z", {b.parameter("W", {3, 3}, 1), x}), x));
    auto whole = ready(b.graph(), d, 9), small = ready(b.graph(), d, 2);
    Announced sink;
    EXPECT_EQ(whole->forward_backward(d.batch, sink).criterion, small->forward_backward(d.batch, sink).criterion);
    EXPECT_EQ(gradients(*whole), gradients(*small));
    const auto nodes = whole->indivisible_nodes();
    ASSERT_EQ(nodes.size(), 1u);
    EXPECT_EQ(nodes[0].name, "total");
  }
}

TEST(Network, PenaltyCountsOncePerMinibatch) {
  GraphBuilder b;
  const auto w = b.parameter("W", {3, 4}, 1);
  const auto z = b.add("Times", "z", {w, b.input("x", {4})});
  const auto penalty = b.add("MatrixL2Reg", "n", {w});
  b.criterion("Plus", "total", {b.add("SquareError", "se", {z, b.add("Sigmoid", "s", {z})}), penalty});
  b.graph().evaluations.push_back(penalty);
  Data whole(9), first(3), rest(6);
  whole.random("x", 4);
  const auto& x = whole.values(0);
  first.dense("x", {x.begin(), x.begin() + 12});
  rest.dense("x", {x.begin() + 12, x.end()});
  first.batch.global_samples = rest.batch.global_samples = 9;
  auto network = ready(b.graph(), whole, 9);
  Announced sink;
  const StepMetrics all = network->forward_backward(whole.batch, sink);
  const auto gradients_of_all = gradients(*network);
  const StepMetrics one = network->forward_backward(first.batch, sink);
  const auto shared = gradients(*network);
  const StepMetrics other = network->forward_backward(rest.batch, sink);
  auto sum = gradients(*network);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += shared[i];
  EXPECT_NEAR(one.criterion + other.criterion, all.criterion, 1e-5 * all.criterion);
  EXPECT_NEAR(one.evaluations[0].sum + other.evaluations[0].sum, all.evaluations[0].sum, 1e-5);
  expect_near(sum, gradients_of_all, 1e-5);
  EXPECT_NEAR(network->evaluate(first.batch).evaluations[0].sum, all.evaluations[0].sum / 3, 1e-5);
  // A rank that updates alone: the results are shares, the gradient is that of the whole penalty.
  EXPECT_EQ(network->forward_backward(first.batch, sink, 3).criterion, one.criterion);
  auto alone = gradients(*network);
  const float* const weights = network->parameters().weights.data();
  for (std::size_t i = 0; i < alone.size(); ++i)
    alone[i] -= 2.0f / 3 * weights[i] / static_cast<float>(all.evaluations[0].sum);
  expect_near(alone, shared, 1e-5);
  // A node that is written is no result of a share.
  network->plan_evaluation(9, {"n"});
  EXPECT_NEAR(network->forward(first.batch).at(0).values[0], all.evaluations[0].sum, 1e-5);
}

TEST(Network, NamesWhatIsNoSumOverSamples) {
  GraphBuilder b;
  const auto w = b.parameter("W", {3, 4}, 1);
  const auto z = b.add("Times", "z", {w, b.input("x", {4})});
  const auto squares = b.add("SumElements", "squares", {b.add("ElementTimes", "zz", {z, z})});
  b.criterion("Plus", "total", {squares, b.add("Sqrt", "penalty", {b.add("SumElements", "sum", {w})})});
  b.evaluation("Times", "scaled", {b.parameter("scale", {1, 1}, 2), b.add("SumElements", "again", {squares})});
  EXPECT_TRUE(Network(b.graph(), {}).indivisible_nodes().empty());
  b.evaluation("Negate", "negative", {b.add("Sqrt", "root", {squares})});
  const auto nodes = Network(b.graph(), {}).indivisible_nodes();
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0].name, "root");
}

TEST(Network, SharesOfAnySizeFollowEachOther) {
  const auto graph = classifier(20, 33, 4).graph();
  Data large(32), small(7), odd(31);
  for (auto* d : {&large, &small, &odd}) d->random("x", 20), d->one_hot("labels", 4);
  auto network = ready(graph, large, 32);
  Announced sink;
  network->forward_backward(large.batch, sink);
  const auto first = gradients(*network);
  network->forward_backward(small.batch, sink);
  network->forward_backward(odd.batch, sink);
  auto fresh = ready(graph, odd, 31);
  fresh->forward_backward(odd.batch, sink);
  EXPECT_EQ(gradients(*network), gradients(*fresh));
  network->forward_backward(large.batch, sink);
  EXPECT_EQ(gradients(*network), first);
}

TEST(Network, ReusedMemoryChangesNothing) {
  for (const std::string activation : {"RectifiedLinear", "Sigmoid", "Tanh", "Abs", "Sin"}) {
    Data d(4000);  // enough for the sizes in describe() to differ
    d.random("x", 21);
    d.one_hot("labels", 6);
    const auto graph = classifier(21, 18, 6, activation).graph();
    NetworkOptions apart;
    apart.reuse_memory = false;
    auto reused = ready(graph, d, 4000), separate = ready(graph, d, 4000, apart);
    Announced sink;
    EXPECT_EQ(reused->forward_backward(d.batch, sink).criterion, separate->forward_backward(d.batch, sink).criterion);
    EXPECT_EQ(gradients(*reused), gradients(*separate));
    EXPECT_NE(reused->describe(), separate->describe()) << "the plan should need less memory";
  }
}

TEST(Network, SparseInputsGiveWhatDenseOnesGive) {
  Data d(11);
  d.random("x", 40);
  for (auto& v : d.values(0))
    if (v < 0.5f) v = 0;
  d.one_hot("labels", 5);
  Data s(11);
  s.dense("x0", d.values(0));
  s.sparse_copy("x", 0);
  s.dense("l0", d.values(1));
  s.sparse_copy("labels", 2);
  auto dense = ready(classifier(40, 9, 5, "Tanh").graph(), d, 11);
  auto sparse = ready(classifier(40, 9, 5, "Tanh", true).graph(), s, 11);
  auto fed_sparse = ready(classifier(40, 9, 5, "Tanh").graph(), s, 11);  // declared dense, delivered sparse
  Announced sink;
  const double expected = dense->forward_backward(d.batch, sink).criterion;
  EXPECT_NEAR(sparse->forward_backward(s.batch, sink).criterion, expected, 1e-4);
  EXPECT_EQ(fed_sparse->forward_backward(s.batch, sink).criterion, expected);
  expect_near(gradients(*dense), gradients(*sparse), 1e-5);
  EXPECT_EQ(gradients(*dense), gradients(*fed_sparse));
  const auto& slices = sparse->parameters().slices;
  EXPECT_TRUE(
      std::find_if(slices.begin(), slices.end(), [](const auto& x) { return x.name == "W1"; })->sparse_gradient);
  EXPECT_FALSE(
      std::find_if(slices.begin(), slices.end(), [](const auto& x) { return x.name == "W2"; })->sparse_gradient);
  EXPECT_FALSE(dense->parameters().slices[3].sparse_gradient);
  auto parts = ready(classifier(40, 9, 5, "Tanh", true).graph(), s, 4);
  parts->forward_backward(s.batch, sink);
  expect_near(gradients(*sparse), gradients(*parts), 1e-5);
}

// A bag of words of each of two inputs, through one weight: E [4 x 40], or its transpose.
GraphBuilder bags(bool sparse, bool transposed, bool tied_to_dense = false) {
  GraphBuilder b;
  const auto e = b.parameter("E", transposed ? std::vector<double>{40, 4} : std::vector<double>{4, 40}, 3);
  const std::string times = transposed ? "TransposeTimes" : "Times";
  const auto one = b.add(times, "one", {e, b.input("x", {40}, sparse)});
  const auto two = b.add(times, "two", {e, b.input("y", {40}, sparse)});
  const auto h = b.add("Tanh", "h", {b.add("Plus", "sum", {one, two})});
  const auto w = b.parameter("W", {5, 4}, 5);
  auto z = b.add("Times", "z", {w, h});
  if (tied_to_dense)
    z = b.add("Plus", "zz",
              {z, b.add("SumElements", "s", {b.add("Sqrt", "r", {b.add("ElementTimes", "ee", {e, e})})})});
  b.criterion("CrossEntropyWithSoftmax", "ce", {b.input("labels", {5}), z});
  return b;
}

struct Words {
  explicit Words(std::size_t columns, bool sparse, unsigned from = 0) : data(columns) {
    Data dense(columns);
    for (const char* name : {"x", "y"}) {
      dense.random(name, 40);
      for (auto& v : dense.values(dense.infos.size() - 1)) {
        engine = engine * 1664525u + 1013904223u + from;
        if (engine >> 28 != 3) v = 0;
      }
    }
    for (const char* name : {"x", "y"}) {
      const std::size_t at = data.infos.size();
      data.dense(sparse ? std::string(name) + "0" : name, dense.values(name[0] == 'x' ? 0 : 1));
      if (sparse) data.sparse_copy(name, at);
    }
    data.one_hot("labels", 5);
  }
  unsigned engine = 17;
  Data data;
};

const Slice& slice_of(Network& n, std::string_view name, std::size_t& index) {
  const auto& slices = n.parameters().slices;
  for (index = 0; index < slices.size(); ++index)
    if (slices[index].name == name) return slices[index];
  throw std::runtime_error("no slice " + std::string(name));
}

// Whatever stands outside the listed rows must be zero, and every line with a gradient must be listed.
void expect_listed(Network& n, const std::vector<std::uint32_t>& expected) {
  std::size_t index = 0;
  const Slice& s = slice_of(n, "E", index);
  const Parameters& p = n.parameters();
  EXPECT_EQ(p.sparse_rows[index], expected);
  for (std::uint32_t line = 0; line < s.sparse_row_count(); ++line)
    for (std::size_t d = 0; d < s.sparse_row_size(); ++d)
      if (!std::binary_search(expected.begin(), expected.end(), line)) {
        EXPECT_EQ(p.gradients.data()[s.offset + (s.sparse_by_row ? d * s.rows + line : line * s.rows + d)], 0.0f);
      }
}

std::vector<std::uint32_t> words_of(const Data& d) {
  std::vector<std::uint32_t> words;
  for (const auto& s : d.batch.streams)
    for (const auto i : s.indices) words.push_back(static_cast<std::uint32_t>(i));
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

TEST(Network, SparseGradientsAreZeroButForTheirLists) {
  for (const bool transposed : {false, true}) {
    const Words dense_words(7, false), words(7, true), others(3, true, 5);
    auto dense = ready(bags(false, transposed).graph(), dense_words.data, 7);
    for (const std::size_t workspace : {7u, 2u}) {  // whole, and in parts
      auto sparse = ready(bags(true, transposed).graph(), words.data, workspace);
      std::size_t index = 0;
      const Slice& s = slice_of(*sparse, "E", index);
      EXPECT_TRUE(s.sparse_gradient);
      EXPECT_EQ(s.sparse_by_row, transposed);
      EXPECT_EQ(std::ranges::count(sparse->parameters().chunks, index, &GradientChunk::slice), 1);
      Announced sink;
      const double expected = dense->forward_backward(dense_words.data.batch, sink).criterion;
      // Other words in between: what they touched must be gone again.
      for (int round = 0; round < 2; ++round) {
        EXPECT_NEAR(sparse->forward_backward(words.data.batch, sink).criterion, expected, 1e-4);
        expect_near(gradients(*dense), gradients(*sparse), 1e-5);
        expect_listed(*sparse, words_of(words.data));
        sparse->forward_backward(others.data.batch, sink);
        expect_listed(*sparse, words_of(others.data));
      }
      Batch empty = words.data.batch;
      empty.samples = empty.sequences = 0;
      for (auto& stream : empty.streams)
        stream.columns = 0, stream.column_begin = stream.column_begin.first(stream.column_begin.empty() ? 0 : 1);
      sparse->forward_backward(empty, sink);
      expect_listed(*sparse, {});
      for (const float g : gradients(*sparse)) EXPECT_EQ(g, 0.0f);
    }
  }
}

TEST(Network, AWeightThatIsUsedElsewhereTooIsDense) {
  const Words dense_words(7, false), words(7, true);
  auto dense = ready(bags(false, false, true).graph(), dense_words.data, 7);
  auto tied = ready(bags(true, false, true).graph(), words.data, 7);
  std::size_t index = 0;
  EXPECT_FALSE(slice_of(*tied, "E", index).sparse_gradient);
  Announced sink;
  for (int round = 0; round < 2; ++round) {
    EXPECT_NEAR(tied->forward_backward(words.data.batch, sink).criterion,
                dense->forward_backward(dense_words.data.batch, sink).criterion, 1e-3);
    expect_near(gradients(*dense), gradients(*tied), 1e-4);
  }
}

// Products in bfloat16 against float32: off by the rounding of operands, by 2^-9 of their size.
TEST(Network, ProductsInBfloat16) {
  NetworkOptions options;
  options.compute_type = ComputeType::bfloat16;
  if (!supports("cpu", ComputeType::bfloat16)) GTEST_SKIP() << "this processor has no AVX-512 with BF16";
  Data d(37);
  d.random("x", 300);
  d.one_hot("labels", 11);
  const auto graph = classifier(300, 700, 11, "Tanh").graph();
  auto exact = ready(graph, d, 37), rounded = ready(graph, d, 37, options), again = ready(graph, d, 37, options);
  auto parts = ready(graph, d, 10, options);
  EXPECT_NE(rounded->describe().find("bfloat16"), std::string::npos);
  Announced sink;
  for (int step = 0; step < 3; ++step) {
    const double expected = exact->forward_backward(d.batch, sink).criterion;
    const double criterion = rounded->forward_backward(d.batch, sink).criterion;
    EXPECT_NEAR(criterion, expected, 4e-3 * expected);
    EXPECT_NE(criterion, expected);
    EXPECT_EQ(criterion, again->forward_backward(d.batch, sink).criterion);
    EXPECT_EQ(gradients(*rounded), gradients(*again));
    parts->forward_backward(d.batch, sink);
    const auto g = gradients(*exact), r = gradients(*rounded), p = gradients(*parts);
    double difference = 0, between_parts = 0, size = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      difference += (g[i] - r[i]) * (g[i] - r[i]);
      between_parts += (p[i] - r[i]) * (p[i] - r[i]);
      size += g[i] * g[i];
    }
    EXPECT_LT(std::sqrt(difference / size), 0.01);
    EXPECT_GT(difference, 0);
    EXPECT_LT(std::sqrt(between_parts / size), 1e-6);
    EXPECT_NEAR(exact->evaluate(d.batch).criterion, rounded->evaluate(d.batch).criterion, 4e-3 * expected);
    // The next step sees other weights: nothing converted may be left over.
    for (auto* n : {exact.get(), rounded.get(), again.get(), parts.get()}) {
      const auto w = n->parameters().weights.span();
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 1e-3f * g[i];
    }
  }
}

TEST(Network, OutputsByName) {
  Data d(5);
  d.random("x", 6);
  d.one_hot("labels", 3);
  auto b = classifier(6, 4, 3);
  const auto p = b.add("Softmax", "p", {b.graph().outputs[0]});  // without a tag
  Network network(b.graph(), {});
  network.bind(d.infos);
  network.initialize_parameters();
  network.plan_evaluation(2, {"p", "h", "b1", "x"});
  EXPECT_EQ(network.inputs_for({"p"}).size(), 1u);
  EXPECT_EQ(network.inputs_for_training().size(), 2u);
  const auto out = network.forward(d.batch);
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(out[0].columns, 5u);
  for (std::size_t c = 0; c < 5; ++c) {
    float sum = 0;
    for (std::size_t i = 0; i < 3; ++i) sum += out[0].values[c * 3 + i];
    EXPECT_NEAR(sum, 1, 1e-6);
  }
  EXPECT_TRUE(std::all_of(out[1].values.begin(), out[1].values.end(), [](float v) { return v >= 0; }));
  EXPECT_FALSE(out[2].per_sample);
  EXPECT_EQ(out[2].values.size(), 4u);
  EXPECT_TRUE(std::equal(out[3].values.begin(), out[3].values.end(), d.values(0).begin()));
  EXPECT_THROW(network.plan_evaluation(2, {"q"}), ConfigError);
  EXPECT_EQ(network.gradient_nodes(), 10u);  // four parameters, two products, two sums, one activation, one criterion
  (void)p;
}

// As where a script loads a model, adds a node and tags none: the inputs alone are no reason to leave the others out.
TEST(Network, OutputsByNameWithoutTags) {
  Data d(2);
  d.random("x", 6);
  d.one_hot("labels", 3);
  auto b = classifier(6, 4, 3);
  b.add("Softmax", "p", {b.graph().outputs[0]});
  auto graph = b.graph();
  graph.criteria.clear(), graph.evaluations.clear(), graph.outputs.clear();
  ASSERT_FALSE(graph.features.empty());
  Network network(graph, {});
  network.bind(d.infos);
  network.initialize_parameters();
  network.plan_evaluation(2, {"p"});
  const auto out = network.forward(d.batch);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_NEAR(out[0].values[0] + out[0].values[1] + out[0].values[2], 1, 1e-6);
}

TEST(Network, StreamsMustFit) {
  Data d(2);
  d.random("x", 6);
  auto b = classifier(6, 4, 3);
  Network network(b.graph(), {});
  network.plan_training(2);
  EXPECT_THROW(network.bind(d.infos), Error);  // labels are missing
  d.random("labels", 4);
  EXPECT_THROW(network.bind(d.infos), Error);  // three classes
  auto sparse = classifier(6, 4, 3, "Tanh", true);
  Network declared(sparse.graph(), {});
  EXPECT_THROW(declared.bind({{"x", 6, false}, {"labels", 3, false}}), Error);
}

TEST(Network, StatisticsOverTheCorpus) {
  GraphBuilder b;
  const auto x = b.input("x", {3});
  const auto mean = b.add("Mean", "mean", {x}), deviation = b.add("InvStdDev", "invstd", {x});
  const auto normal = b.add("PerDimMeanVarNormalization", "n", {x, mean, deviation});
  b.criterion("SumElements", "total", {b.add("ElementTimes", "t", {b.parameter("W", {3}), normal})});
  Data first(4), second(2);
  first.dense("x", {1, 5, 2, 2, 5, 4, 3, 5, 6, 4, 5, 8});
  second.dense("x", {5, 5, 10, 6, 5, 12});
  Network network(b.graph(), {});
  network.bind(first.infos);
  network.initialize_parameters();
  EXPECT_EQ(network.precompute_nodes(), (std::vector<std::string>{"mean", "invstd"}));
  network.precompute_begin();
  network.precompute_accumulate(first.batch);
  network.precompute_accumulate(second.batch);
  network.precompute_end([](std::span<float>) {});
  EXPECT_TRUE(network.precompute_nodes().empty());
  const auto state = network.state();
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(state[0].name, "mean");
  const double variance = 35.0 / 12;  // biased, of 1..6
  EXPECT_FLOAT_EQ(state[0].values[0], 3.5f);
  EXPECT_FLOAT_EQ(state[0].values[2], 7.0f);
  EXPECT_FLOAT_EQ(state[1].values[0], static_cast<float>(1 / std::sqrt(variance)));
  EXPECT_FLOAT_EQ(state[1].values[1], 1e5f);  // no variance: the floor of 1e-10
  // The mark is part of the graph: a model made of it does not compute them again.
  Network again(network.graph(), {});
  EXPECT_TRUE(again.precompute_nodes().empty());
  EXPECT_EQ(network.inputs_for({"mean"}).size(), 0u);
}

// A model whose output uses the mean of the labels, as needPrior makes them, writes its output from the features alone.
TEST(Network, StatisticsInTheModelNeedNoData) {
  GraphBuilder b;
  const auto x = b.input("x", {2}), labels = b.input("labels", {2});
  const auto prior = b.add("Mean", "prior", {labels});
  const auto output = b.add("Minus", "scaled", {x, b.add("Log", "logprior", {prior})});
  b.criterion("SquareError", "se", {labels, output});
  Data d(2);
  d.dense("x", {1, 2, 3, 4});
  d.dense("labels", {0.25f, 1, 0.75f, 1});
  Network network(b.graph(), {});
  network.bind(d.infos);
  network.initialize_parameters();
  network.precompute_begin();
  network.precompute_accumulate(d.batch);
  network.precompute_end([](std::span<float>) {});
  Data features(2);
  features.dense("x", {1, 2, 3, 4});
  network.plan_evaluation(2, {"scaled"});
  network.bind(features.infos);
  const auto outputs = network.forward(features.batch);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_FLOAT_EQ(outputs[0].values[0], 1 - std::log(0.5f));
  EXPECT_FLOAT_EQ(outputs[0].values[3], 4);
}

Network& dropping(const graph::Graph& graph, const Data& d, std::unique_ptr<Network>& n, std::uint64_t seed) {
  n = ready(graph, d, 8);
  n->set_mode({0.3, seed});
  return *n;
}

TEST(Network, DropoutFollowsSeedAndPosition) {
  GraphBuilder b;
  const auto w = b.parameter("W", {500}, 1);
  const auto one = b.add("Dropout", "d1", {b.add("ElementTimes", "t", {w, b.input("x", {500})})});
  b.criterion("SumElements", "total", {b.add("Dropout", "d2", {one})});
  b.graph().outputs.push_back(one);
  Data d(8);
  d.dense("x", std::vector<float>(8 * 500, 1.0f));
  Announced sink;
  std::unique_ptr<Network> n;
  dropping(b.graph(), d, n, 4).forward_backward(d.batch, sink);
  EXPECT_EQ(n->random_nodes(), 2u);
  const auto expected = gradients(*n);
  // Kept elements are scaled by 1 / 0.7 twice; on average the gradient is that without dropout.
  double sum = 0;
  for (std::size_t i = 0; i < 500; ++i) sum += expected[i];
  EXPECT_NEAR(sum / 500, 8, 0.4);
  const double steps = expected[0] * 0.7 * 0.7;
  EXPECT_NEAR(steps, std::round(steps), 1e-4);
  dropping(b.graph(), d, n, 4).forward_backward(d.batch, sink);
  EXPECT_EQ(gradients(*n), expected);
  dropping(b.graph(), d, n, 5).forward_backward(d.batch, sink);
  EXPECT_NE(gradients(*n), expected);
  d.batch.position = 8;
  dropping(b.graph(), d, n, 4).forward_backward(d.batch, sink);
  EXPECT_NE(gradients(*n), expected);
  d.batch.position = 0;
  // Parts of the share drop the same elements.
  auto parts = ready(b.graph(), d, 3);
  parts->set_mode({0.3, 4});
  parts->forward_backward(d.batch, sink);
  expect_near(gradients(*parts), expected, 1e-5);
  // None in evaluation, and none at rate 0.
  parts->plan_evaluation(8, {});
  const double plain = parts->evaluate(d.batch).criterion;
  parts->set_mode({0, 4});
  EXPECT_NEAR(parts->forward_backward(d.batch, sink).criterion, plain, 1e-4 * std::fabs(plain));
}

std::string culprit(Network& n, const Data& d) {
  Announced sink;
  try {
    n.forward_backward(d.batch, sink);
  } catch (const NumericError& e) {
    EXPECT_TRUE(sink.order.empty()) << "nothing may be announced from a broken step";
    return e.node;
  }
  return "no error";
}

TEST(Network, NotANumberIsTracedToItsSource) {
  Data d(4);
  d.random("x", 6);
  d.one_hot("labels", 3);
  auto n = ready(classifier(6, 4, 3).graph(), d, 4);
  EXPECT_EQ(culprit(*n, d), "no error");
  d.values(0)[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(culprit(*n, d), "x");
  d.values(0)[7] = 1;
  n->parameters().weights.data()[n->parameters().slices[1].offset] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(culprit(*n, d), "W2");
  n->initialize_parameters();
  EXPECT_EQ(culprit(*n, d), "no error");
  // An overflow inside: exp(1e3) is infinite, and infinity minus infinity is nothing.
  GraphBuilder b;
  const auto big = b.add("Exp", "big",
                         {b.add("ElementTimes", "t", {b.constant("k", 1000), b.add("Abs", "a", {b.input("x", {6})})})});
  const auto gone = b.add("Minus", "gone", {big, b.add("ElementTimes", "twice", {big, b.constant("two", 2)})});
  b.criterion("SumElements", "total", {b.add("ElementTimes", "weighted", {b.parameter("W", {6}), gone})});
  auto overflow = ready(b.graph(), d, 4);
  EXPECT_EQ(culprit(*overflow, d), "big");
}

TEST(Network, SeveralDynamicAxes) {
  GraphBuilder b;
  const auto x = b.input("x", {3}), y = b.input("y", {3}, false, "other");
  const auto w = b.parameter("W", {3}, 1);
  const auto sx = b.add("SumElements", "sx", {b.add("ElementTimes", "tx", {w, x})});
  const auto sy = b.add("SumElements", "sy", {b.add("ElementTimes", "ty", {w, y})});
  b.criterion("Plus", "total", {sx, sy});
  Data d(6), other(2);
  d.random("x", 3), other.random("y", 3);
  const std::vector<std::int64_t> long_ones = {0, 2, 6}, short_ones = {0, 1, 2};
  d.batch.streams[0].sequence_begin = long_ones;
  d.infos.push_back(other.infos[0]);
  d.batch.streams.push_back(other.batch.streams[0]);
  d.batch.streams[1].sequence_begin = short_ones;
  auto whole = ready(b.graph(), d, 6), parts = ready(b.graph(), d, 4);
  Announced sink;
  const StepMetrics a = whole->forward_backward(d.batch, sink), c = parts->forward_backward(d.batch, sink);
  EXPECT_NEAR(a.criterion, c.criterion, 1e-5);
  EXPECT_EQ(a.criterion_count, 6);
  EXPECT_EQ(c.criterion_count, 6);
  expect_near(gradients(*whole), gradients(*parts), 1e-5);
  // The sequences of a value are those of the input on its axis.
  whole->plan_evaluation(6, {"tx", "ty"});
  const auto outputs = whole->forward(d.batch);
  EXPECT_TRUE(std::ranges::equal(outputs.at(0).sequence_begin, long_ones));
  EXPECT_TRUE(std::ranges::equal(outputs.at(1).sequence_begin, short_ones));
  // Two streams of different length on one axis do not fit.
  GraphBuilder joined;
  joined.criterion("SquareError", "se", {joined.input("x", {3}), joined.input("y", {3})});
  Network wrong(joined.graph(), {});
  wrong.bind(d.infos);
  wrong.plan_evaluation(6, {});
  EXPECT_THROW(wrong.evaluate(d.batch), Error);
  // Nor do sequences of different length that are as long together.
  Data same(6);
  same.random("x", 3), same.random("y", 3);
  same.batch.streams[0].sequence_begin = long_ones;
  const std::vector<std::int64_t> others = {0, 3, 6};
  same.batch.streams[1].sequence_begin = others;
  EXPECT_THROW(wrong.evaluate(same.batch), Error);
  same.batch.streams[1].sequence_begin = long_ones;
  EXPECT_NO_THROW(wrong.evaluate(same.batch));
}

TEST(Network, UntrainedParametersAreState) {
  GraphBuilder b;
  const auto w = b.parameter("W", {2}, 1);
  const auto c = b.constant("C", 3, {2});
  b.criterion("SumElements", "total", {b.add("Plus", "p", {b.add("ElementTimes", "t", {w, b.input("x", {2})}), c})});
  Network n(b.graph(), {});
  n.initialize_parameters();
  ASSERT_EQ(n.parameters().slices.size(), 1u);
  ASSERT_EQ(n.state().size(), 1u);
  EXPECT_EQ(n.state()[0].name, "C");
  EXPECT_EQ(n.state()[0].values[1], 3);
}

// A parameter behind a step function gets a gradient of zero, and is announced all the same.
TEST(Network, ParametersCutOffFromTheCriterion) {
  GraphBuilder b;
  const auto x = b.input("x", {2});
  const auto kept = b.add("ElementTimes", "t", {b.parameter("W", {2}, 1), x});
  const auto cut =
      b.add("Greater", "g", {b.add("ElementTimes", "u", {b.parameter("V", {2}, 2), x}), b.constant("zero", 0)});
  b.criterion("SumElements", "total", {b.add("ElementTimes", "m", {kept, cut})});
  Data d(3);
  d.random("x", 2);
  auto n = ready(b.graph(), d, 3);
  Announced sink;
  std::fill_n(n->parameters().gradients.data(), n->parameters().gradients.size(), 7.0f);
  n->forward_backward(d.batch, sink);
  EXPECT_EQ(sink.order, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(n->parameters().slices[1].name, "V");
  EXPECT_EQ(n->parameters().gradients.data()[n->parameters().slices[1].offset], 0);
}

}  // namespace
}  // namespace tutti::network_test

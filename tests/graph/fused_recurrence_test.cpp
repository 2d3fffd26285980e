// SPDX-License-Identifier: Apache-2.0
// Recurrent layers that are one operation against the loops that define them, and which loops become one.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graph/lower.h"
#include "recurrent_networks.h"

namespace tutti::fused_recurrence_test {
namespace {

using test::gru;
using test::network_of;
using test::parsed;
using test::SequenceData;
using test::Sums;
using test::sums;

// The same parameters through the fused operation and through the explicit loop of the definition.
void expect_fused_is_explicit(const std::string& options, const std::string& initial, std::size_t cells) {
  const std::string c = std::to_string(cells);
  const std::string head = "{ x = Input {3}; labels = Input {2}; ";
  const std::string tail = "z = DenseLayer {2} (h); ce = CrossEntropyWithSoftmax (labels, z); criterionNodes = (ce) }";
  const bool back = options.find("goBackwards=true") != std::string::npos;
  const std::string hook = back ? "BS.RNNs.NextHC" : "BS.RNNs.PreviousHC";
  const std::vector<StreamInfo> two = {{"x", 3, false}, {"labels", 2, false}};
  const auto fused = network_of(head + "h = RecurrentLSTMLayer {" + c + options + "} (x); " + tail, two);
  const auto explicitly =
      network_of(head + initial + "block = BS.RNNs.LSTMBlock (" + c + "); state = block (x, " + hook + " (state" +
                     (initial.empty() ? "" : ", initialState=i") + ")); h = state.h; " + tail,
                 two);
  const auto& operations = fused->graph().nodes;
  ASSERT_TRUE(std::any_of(operations.begin(), operations.end(), [](const auto& n) { return n.operation == "LSTM"; }));
  SequenceData data(two);
  const auto sequences = data.random({{6, 1, 9, 6, 2, 9, 5}});
  // By the dimensions of the parameters: names and order differ.
  const auto sorted = [](Network& n) {
    std::vector<const Slice*> all;
    for (const auto& s : n.parameters().slices) all.push_back(&s);
    std::stable_sort(all.begin(), all.end(),
                     [](const Slice* a, const Slice* b) { return a->name.back() < b->name.back(); });
    return all;
  };
  const auto a = sorted(*fused), b = sorted(*explicitly);
  ASSERT_EQ(a.size(), b.size());
  std::mt19937 engine(5);
  std::uniform_real_distribution<float> draw(-0.5f, 0.5f);
  for (std::size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(a[k]->shape, b[k]->shape) << a[k]->name << " " << b[k]->name;
    for (std::size_t i = 0; i < a[k]->size(); ++i)
      fused->parameters().weights.data()[a[k]->offset + i] = explicitly->parameters().weights.data()[b[k]->offset + i] =
          draw(engine);
  }
  const Sums f = sums(*fused, data.batch(sequences)), e = sums(*explicitly, data.batch(sequences));
  EXPECT_NEAR(f.criterion, e.criterion, 1e-5 * e.criterion);
  for (std::size_t k = 0; k < a.size(); ++k)
    for (std::size_t i = 0; i < a[k]->size(); ++i)
      ASSERT_NEAR(f.gradients[a[k]->offset + i], e.gradients[b[k]->offset + i], 2e-5) << a[k]->name << " " << i;
}

TEST(FusedLSTM, EqualsTheLoop) {
  for (const std::size_t cells : {1UL, 5UL, 16UL, 20UL, 37UL}) {
    expect_fused_is_explicit("", "", cells);
    expect_fused_is_explicit(", goBackwards=true", "", cells);
  }
}
TEST(FusedLSTM, EqualsTheLoopWithTrainedInitialState) {
  const std::string initial = "i = { h = ParameterTensor {20, initValue=0}; c = ParameterTensor {20, initValue=0} }; ";
  expect_fused_is_explicit(", trainInitialState=true", initial, 20);
  expect_fused_is_explicit(", trainInitialState=true, goBackwards=true", initial, 20);
}

// With the same parameters the same numbers. Slices stand in the order in which their gradients are complete, which a
// loop changes.
void expect_equal(Network& one, Network& loop, const std::vector<StreamInfo>& data_streams) {
  ASSERT_EQ(one.parameters().weights.size(), loop.parameters().weights.size());
  std::mt19937 engine(5);
  std::uniform_real_distribution<float> draw(-0.5f, 0.5f);
  for (std::size_t i = 0; i < one.parameters().weights.size(); ++i) one.parameters().weights.data()[i] = draw(engine);
  const auto in_loop = [&](const std::string& name) {
    const auto& slices = loop.parameters().slices;
    return std::find_if(slices.begin(), slices.end(), [&](const Slice& s) { return s.name == name; })->offset;
  };
  for (const Slice& s : one.parameters().slices)
    std::copy_n(one.parameters().weights.data() + s.offset, s.size(),
                loop.parameters().weights.data() + in_loop(s.name));
  SequenceData data(data_streams);
  const auto sequences = data.random({{6, 1, 9, 6, 2, 9, 5}});
  const Sums a = sums(one, data.batch(sequences)), b = sums(loop, data.batch(sequences));
  EXPECT_NEAR(a.criterion, b.criterion, 1e-5 * b.criterion);
  for (const Slice& s : one.parameters().slices)
    for (std::size_t i = 0; i < s.size(); ++i)
      ASSERT_NEAR(a.gradients[s.offset + i], b.gradients[in_loop(s.name) + i], 2e-5) << s.name << " " << i;
}

void expect_gru_is_loop(bool bias, bool late, bool backwards, std::size_t cells) {
  const std::vector<StreamInfo> two = {{"x", 3, false}, {"labels", 2, false}};
  const auto network = [&](bool plain) {
    return network_of("{ x = Input {3}; labels = Input {2}; z = DenseLayer {2} (" +
                          gru(bias, late, backwards, plain, cells) +
                          " (x)); ce = CrossEntropyWithSoftmax (labels, z); criterionNodes = (ce) }",
                      two);
  };
  const auto fused = network(true), loop = network(false);
  const auto& nodes = fused->graph().nodes;
  ASSERT_EQ(std::count_if(nodes.begin(), nodes.end(), [](const auto& n) { return n.operation == "GRU"; }), 1);
  expect_equal(*fused, *loop, two);
}

TEST(FusedGRU, EqualsTheLoop) {
  for (const std::size_t cells : {1UL, 5UL, 16UL, 20UL, 37UL})
    for (const bool late : {false, true})
      for (const bool backwards : {false, true}) {
        expect_gru_is_loop(true, late, backwards, cells);
        expect_gru_is_loop(false, late, backwards, cells);
      }
}

// A GRU as users write it, with something put in the place of `d .* r1`, `1` and the definitions behind it.
std::string written_gru(const std::string& reset = "d .* r1", const std::string& one = "1",
                        const std::string& more = "", const std::string& delay = "PastValue (0, h)") {
  return "x = Input {3}; labels = Input {2}; par (n) = ParameterTensor {n, init='uniform', initValueScale=10}; "
         "part (x) = DenseLayer {4} (x); d = " +
         delay +
         "; z1 = Sigmoid (part (x) + par (4:4) * d); r1 = Sigmoid (par (4:4) * d + part (x)); c1 = Tanh (par (4:4) * "
         "(" +
         reset + ") + part (x)); h = z1 .* d + c1 .* (" + one +
         " - z1); z = DenseLayer {2} (h); ce = CrossEntropyWithSoftmax (labels, z); criterionNodes = (ce); " + more;
}

// `constant`: what a model file holds in the place of 1.
bool is_recognized(const std::string& text, float constant = 1) {
  graph::Graph g = parsed("{ " + text + " }");
  for (graph::Node& n : g.nodes)
    if (graph::number(n, "value", 0) == 1) n.start = std::make_shared<std::vector<float>>(1, constant);
  std::vector<std::size_t> roots = g.criteria;
  roots.insert(roots.end(), g.evaluations.begin(), g.evaluations.end());
  const auto order = graph::evaluation_order(g, roots);
  const auto code = graph::lower(g, order, graph::infer_graph(g, order), roots, {.training = true});
  const auto count = [&](const char* operation) {
    return std::count_if(code.instructions.begin(), code.instructions.end(),
                         [&](const graph::Instruction& i) { return i.operation == operation; });
  };
  EXPECT_NE(count("GRU") > 0, code.loops.size() > 0) << text;
  EXPECT_EQ(count("GRU") > 0, !code.ones.empty()) << text;
  return count("GRU") > 0;
}

TEST(WrittenGRU, IsRecognized) {
  EXPECT_TRUE(is_recognized(written_gru()));
  EXPECT_TRUE(is_recognized(written_gru("r1 .* d", "1", "", "FutureValue (0, h, defaultHiddenActivation=0)")));
  EXPECT_TRUE(
      is_recognized("x = Input {3}; l = BS.RNNs.RecurrentBidirectionalGRUStack (3:2, input=x); criterionNodes = "
                    "(SumElements (l[1].h))"));
}

// What looks like one and is another thing, and values that somebody wants to see.
TEST(WrittenGRU, OthersStayLoops) {
  EXPECT_FALSE(is_recognized(written_gru("d .* r1", "2")));
  EXPECT_FALSE(is_recognized(written_gru(), 0.842f));
  EXPECT_FALSE(is_recognized(written_gru("d .* r1 .* r1")));
  EXPECT_FALSE(is_recognized(written_gru("c2 .* r1", "1", "c2 = PastValue (0, c1)")));
  EXPECT_FALSE(is_recognized(written_gru("d .* r1", "1", "evaluationNodes = (SumElements (z1))")));
  EXPECT_FALSE(is_recognized(written_gru("d .* r1", "1", "", "PastValue (0, h, timeStep=2)")));
  EXPECT_FALSE(is_recognized(written_gru("d .* r1", "1", "", "PastValue (0, h, initialState=par (4))")));
  EXPECT_FALSE(
      is_recognized("x = Input {3}; par (n) = ParameterTensor {n}; d = PastValue (0, h); more = PastValue (0, h .* x); "
                    "z1 = Sigmoid (par (3:3) * more + par (3:3) * d); r1 = Sigmoid (x + par (3:3) * d); "
                    "h = (1 - z1) .* Tanh (x + par (3:3) * (d .* r1)) + z1 .* d; criterionNodes = (SumElements (h))"))
      << "its input comes from itself";
}

// A gate that is seen keeps the loop.
TEST(WrittenGRU, EqualsTheLoop) {
  const std::vector<StreamInfo> two = {{"x", 3, false}, {"labels", 2, false}};
  for (const std::string delay : {"PastValue (0, h)", "FutureValue (0, h)"}) {
    const auto one = network_of("{ " + written_gru("d .* r1", "1", "", delay) + " }", two);
    const auto loop =
        network_of("{ " + written_gru("d .* r1", "1", "evaluationNodes = (SumElements (z1))", delay) + " }", two);
    expect_equal(*one, *loop, two);
    const auto ones_of = [](Network& network) {
      return std::ranges::count_if(network.state(), [](const Network::State& s) { return s.is_one; });
    };
    EXPECT_EQ(ones_of(*one), 1);
    EXPECT_EQ(ones_of(*loop), 0);
  }
}

}  // namespace
}  // namespace tutti::fused_recurrence_test

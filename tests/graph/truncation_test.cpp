// SPDX-License-Identifier: Apache-2.0
// Truncated back-propagation: chunks of sequences that carry state from minibatch to minibatch against the sequences in
// one chunk.
#include <gtest/gtest.h>

#include <algorithm>

#include "../brainscript/networks.h"
#include "../support/on_gpu.h"
#include "graph_builder.h"
#include "sequence_data.h"
#include "tutti/gradient_check.h"

namespace tutti::truncation_test {
namespace {

using test::Announced;
using test::Sequence;
using test::SequenceData;

const std::vector<StreamInfo> streams = {{"x", 3, false}, {"labels", 2, false}};

struct Case {
  std::string name, network;  // defines h
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string gru(const std::string& late) {
  return "_Keras.Gru {4, (Repeat (12, 0)), Tanh, Sigmoid, 'uniform', 5, 'uniform', 5, false, " + late + ", true} (x)";
}

std::vector<Case> cases() {
  return {{"PastValue", "h = PastValue (0, DenseLayer {4} (x))"},
          {"LongPastValue", "h = PastValue (0, DenseLayer {4} (x), timeStep=3)"},
          {"InitialState", "i = par (4); h = PastValue (0, DenseLayer {4} (x), timeStep=2, initialState=i)"},
          {"Loop", "R = par (4:4); h = Tanh (DenseLayer {4} (x) + R * PastValue (0, h))"},
          {"LoopOfLongSteps",
           "R = par (4:4); h = Tanh (DenseLayer {4} (x) + R * PastValue (0, h, timeStep=4) + PastValue (0, h))"},
          {"LSTM", "h = RecurrentLSTMLayer {4} (x)"},
          {"LSTMTrainedState", "h = RecurrentLSTMLayer {4, trainInitialState=true} (x)"},
          {"LSTMPeepholes", "h = RecurrentLSTMLayer {4, usePeepholes=true, trainInitialState=true} (x)"},
          {"LSTMStack", "h = RecurrentLSTMLayerStack {4:3} (x)"},
          {"GRU", "h = " + gru("true")},
          {"GRUResetBefore", "h = " + gru("false")},
          {"GRULoop", "h = BS.RNNs.RecurrentGRU (4, x).h"}};
}

std::unique_ptr<Network> network_of(const std::string& text, const NetworkOptions& options = {}) {
  const auto built = brainscript::build(
      "{ x = Input {3}; labels = Input {2}; par (n) = ParameterTensor {n, init='uniform', initValueScale=10}\n" + text +
      "; z = DenseLayer {2} (h); ce = CrossEntropyWithSoftmax (labels, z); criterionNodes = (ce) }");
  EXPECT_EQ(built.errors, "");
  auto network = std::make_unique<Network>(built.graph, options);
  network->bind(streams);
  network->initialize_parameters();
  network->plan_training(100);
  return network;
}

const std::vector<std::vector<std::size_t>> lengths = {{9, 4, 11, 1, 6}};

Sequence steps(const Sequence& s, std::size_t begin, std::size_t end) {
  Sequence part;
  for (std::size_t k = 0; k < s.size(); ++k)
    part.emplace_back(s[k].begin() + static_cast<long>(begin * streams[k].dim),
                      s[k].begin() + static_cast<long>(end * streams[k].dim));
  return part;
}

// Two lanes with a segment of `length` steps each per minibatch; sequences stand in them end to end.
struct Minibatch {
  std::vector<Sequence> sequences;
  std::vector<Fragment> fragments;
};
std::vector<Minibatch> cut(const std::vector<Sequence>& sequences, std::size_t length) {
  std::vector<Minibatch> all;
  for (std::int32_t lane = 0; lane < 2; ++lane) {
    std::size_t minibatch = 0, workspace = length;
    for (std::size_t s = static_cast<std::size_t>(lane); s < sequences.size(); s += 2) {
      const std::size_t total = sequences[s][0].size() / streams[0].dim;
      for (std::size_t at = 0; at < total;) {
        if (workspace == 0) ++minibatch, workspace = length;
        if (all.size() <= minibatch) all.resize(minibatch + 1);
        const std::size_t end = std::min(total, at + workspace);
        all[minibatch].sequences.push_back(steps(sequences[s], at, end));
        all[minibatch].fragments.push_back({lane, at == 0, end == total});
        workspace -= end - at;
        at = end;
      }
    }
  }
  return all;
}

class Truncation : public testing::TestWithParam<Case> {};

TEST_P(Truncation, CarriedStateEqualsOneLongPass) {
  const auto network = network_of(GetParam().network);
  SequenceData data(streams);
  Announced sink;
  const auto sequences = data.random(lengths);
  const double whole = network->forward_backward(data.batch(sequences), sink).criterion;
  for (const std::size_t length : {1UL, 2UL, 3UL, 5UL, 40UL}) {
    network->forget_states();
    double sum = 0;
    for (const auto& m : cut(sequences, length))
      sum += network->forward_backward(data.batch(m.sequences, m.fragments), sink).criterion;
    EXPECT_NEAR(sum, whole, 1e-5 * whole) << "segments of " << length;
  }
}

TEST_P(Truncation, WholeSequencesInLanesAreWholeSequences) {
  const auto network = network_of(GetParam().network);
  SequenceData data(streams);
  Announced sink;
  const auto sequences = data.random(lengths);
  const double whole = network->forward_backward(data.batch(sequences), sink).criterion;
  const auto gradients = test::gradients(*network);
  const double lanes =
      network
          ->forward_backward(
              data.batch(sequences,
                         {{0, true, true}, {0, true, true}, {1, true, true}, {2, true, true}, {2, true, true}}),
              sink)
          .criterion;
  EXPECT_NEAR(lanes, whole, 1e-6 * whole);
  const auto in_lanes = test::gradients(*network);
  for (std::size_t i = 0; i < gradients.size(); ++i) EXPECT_NEAR(in_lanes[i], gradients[i], 1e-5);
}

// No gradient flows into what was carried over, and none of those sequences into the initial state.
TEST_P(Truncation, GradientsAgreeWithDifferences) {
  const auto network = network_of(GetParam().network);
  SequenceData data(streams);
  Announced sink;
  const auto minibatches = cut(data.random(lengths), 5);
  network->forward_backward(data.batch(minibatches[0].sequences, minibatches[0].fragments), sink);
  GradientCheckOptions check;
  check.entries = 12;
  for (const auto& m : check_gradients(*network, data.batch(minibatches[1].sequences, minibatches[1].fragments), check))
    ADD_FAILURE() << m.parameter << "[" << m.index << "]: " << m.analytic << " by back-propagation, " << m.numeric
                  << " by differences";
}

TEST_P(Truncation, TheCheckOfGradientsLeavesStatesAlone) {
  const auto network = network_of(GetParam().network), unchecked = network_of(GetParam().network);
  SequenceData data(streams);
  Announced sink;
  GradientCheckOptions check;
  check.entries = 1;
  for (const auto& m : cut(data.random(lengths), 5)) {
    const Batch batch = data.batch(m.sequences, m.fragments);
    const double expected = unchecked->forward_backward(batch, sink).criterion;
    check_gradients(*network, batch, check);
    EXPECT_EQ(network->forward_backward(batch, sink).criterion, expected);
  }
}

TEST_P(Truncation, OnADevice) {
  if (skipped_without_gpu()) return;
  NetworkOptions options;
  options.device = "cuda:0";
  const auto expected = network_of(GetParam().network), network = network_of(GetParam().network, options);
  SequenceData data(streams);
  Announced sink;
  for (const auto& m : cut(data.random(lengths), 5)) {
    const Batch& batch = data.batch(m.sequences, m.fragments);
    const double criterion = expected->forward_backward(batch, sink).criterion;
    EXPECT_NEAR(network->forward_backward(batch, sink).criterion, criterion, 1e-5 * criterion);
    const auto a = test::gradients(*network), b = test::gradients(*expected);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5) << "entry " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Truncation, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Truncation, ForgottenStatesAreInitialStates) {
  const auto network = network_of("h = RecurrentLSTMLayer {4} (x)");
  SequenceData data(streams);
  Announced sink;
  const auto sequences = data.random({{4, 3}});
  const double fresh = network->forward_backward(data.batch(sequences), sink).criterion;
  const std::vector<Fragment> going_on = {{0, false, false}, {1, false, false}};
  EXPECT_NEAR(network->forward_backward(data.batch(sequences, going_on), sink).criterion, fresh, 1e-6);
  const double later = network->forward_backward(data.batch(sequences, going_on), sink).criterion;
  EXPECT_GT(std::abs(later - fresh), 1e-4);
  network->forget_states();
  EXPECT_NEAR(network->forward_backward(data.batch(sequences, going_on), sink).criterion, fresh, 1e-6);
}

TEST(Truncation, TheFutureIsAnError) {
  SequenceData data(streams);
  Announced sink;
  for (const std::string text :
       {"h = FutureValue (0, DenseLayer {4} (x))", "h = RecurrentLSTMLayer {4, goBackwards=true} (x)",
        "h = RecurrentLSTMLayer {4, goBackwards=true, usePeepholes=true} (x)"}) {
    const auto network = network_of(text);
    const auto sequences = data.random({{4, 3}});
    try {
      network->forward_backward(data.batch(sequences, {{0, true, false}, {1, true, true}}), sink);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("truncat"), std::string::npos) << e.what();
    }
    EXPECT_NO_THROW(network->forward_backward(data.batch(sequences, {{0, true, true}, {1, true, true}}), sink));
  }
}

}  // namespace
}  // namespace tutti::truncation_test

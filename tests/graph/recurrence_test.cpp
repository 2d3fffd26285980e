// SPDX-License-Identifier: Apache-2.0
// Networks with recurrence, written in the network language: gradients against differences over ragged minibatches,
// the same sums in whatever order, parts or batches the sequences come, and on a device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../support/on_gpu.h"
#include "recurrent_networks.h"
#include "tutti/gradient_check.h"

namespace tutti::recurrence_test {
namespace {

using test::gru;
using test::network_of;
using test::parsed;
using test::SequenceData;
using test::Sums;
using test::sums;

// Every case reads x [3], labels [2] and a sparse s [5] on one axis; y has steps of its own on the axis a.
const std::vector<StreamInfo> streams = {{"x", 3, false}, {"labels", 2, false}, {"s", 5, true}, {"y", 3, false}};

struct Case {
  std::string name;
  std::string network;  // defines z [2] on the default axis, or `criterion` itself
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string whole(const Case& c) {
  const bool own = c.network.find("criterion =") != std::string::npos;
  return "{ axis = DynamicAxis {}; x = Input {3}; labels = Input {2}; s = SparseInput {5}; y = Input {3, "
         "dynamicAxis=axis}\n"
         "  par (n) = ParameterTensor {n, init='uniform', initValueScale=10}\n" +
         c.network + "\n" + (own ? "" : "criterion = CrossEntropyWithSoftmax (labels, z)\n") +
         "criterionNodes = (criterion) }";
}

std::vector<Case> cases() {
  return {
      {"PastValueAlone", "z = DenseLayer {2} (PastValue (0, x))"},
      {"PastValueOfTrained", "z = DenseLayer {2} (PastValue (0, DenseLayer {4} (x), timeStep=2))"},
      {"FutureValueOfTrained", "z = DenseLayer {2} (FutureValue (0, DenseLayer {4} (x), timeStep=3))"},
      {"TrainedInitialState",
       "i = par (4); z = DenseLayer {2} (PastValue (0, DenseLayer {4} (x), timeStep=2, initialState=i))"},
      {"InitialStateOfOneElement",
       "i = par (1); z = DenseLayer {2} (FutureValue (0, DenseLayer {4} (x), initialState=i))"},
      {"InitialStatePerStep",
       "i = DenseLayer {4} (x); z = DenseLayer {2} (PastValue (0, DenseLayer {4} (x), initialState=i))"},
      {"InitialStateOfOtherSequence",
       "i = DenseLayer {4} (y); z = DenseLayer {2} (PastValue (0, DenseLayer {4} (x), initialState=i))"},
      {"InitialStateOfALoop",
       "R = par (4:4); i = DenseLayer {4} (x); h = Tanh (DenseLayer {4} (x) + R * PastValue (0, h, initialState=i)); "
       "z = DenseLayer {2} (h)"},
      {"InitialStateOfALoopOfLongSteps",
       "R = par (4:4); i = DenseLayer {4} (x); h = Tanh (i + R * FutureValue (0, h, timeStep=2, initialState=i)); "
       "z = DenseLayer {2} (h .* i)"},
      {"InitialStateOfADecoder",
       "R = par (4:4); i = BS.Sequences.BroadcastSequenceAs (x, BS.Sequences.Last (DenseLayer {4} (y))); "
       "h = Tanh (DenseLayer {4} (x) + R * PastValue (0, h, initialState=i)); z = DenseLayer {2} (h)"},
      {"SimpleLoop", "R = par (4:4); h = Tanh (DenseLayer {4} (x) + R * PastValue (0, h)); z = DenseLayer {2} (h)"},
      {"SimpleLoopBackwards",
       "R = par (4:4); h = Tanh (DenseLayer {4} (x) + R * FutureValue (0, h)); z = DenseLayer {2} (h)"},
      {"LoopOfLongSteps",
       "R = par (4:4); h = Tanh (DenseLayer {4} (x) + R * PastValue (0, h, timeStep=2)); z = DenseLayer {2} (h)"},
      {"LoopUsedInsideAndOut",
       "R = par (4:4); d = PastValue (0, h); h = Tanh (DenseLayer {4} (x) + R * d); z = DenseLayer {2} (h .* h + d)"},
      {"TwoDelaysInOneLoop",
       "R = par (4:4); S = par (4:4); h = Tanh (DenseLayer {4} (x) + R * PastValue (0, h) + S * PastValue (0, h, "
       "timeStep=3)); z = DenseLayer {2} (h)"},
      {"StatesInACircle",
       "R = par (4:4); a = Tanh (DenseLayer {4} (x) + R * PastValue (0, b)); b = Sigmoid (a .* PastValue (0, c) + par "
       "(4)); "
       "c = b - PastValue (0, a); z = DenseLayer {2} (c)"},
      {"DenseInsideTheLoop",
       "h = DenseLayer {4, activation=Tanh} (Splice (x : PastValue (0, h))); z = DenseLayer {2} (h)"},
      {"SharedWeight",
       "R = par (4:4); e = R * DenseLayer {4} (x); h = Tanh (e + R * PastValue (0, h)); z = DenseLayer {2} (R * h)"},
      {"LoopInALoopOfLayers",
       "z = DenseLayer {2} (RecurrentLSTMLayer {3, goBackwards=true, enableSelfStabilization=true} (RecurrentLSTMLayer "
       "{4, enableSelfStabilization=true} (x)))"},
      {"ConvolutionIntoLoop",
       "c = ConvolutionalLayer {2, (2), pad=true} (Reshape (x, (3:1))); R = par (4:4); "
       "h = Tanh (DenseLayer {4} (c) + R * PastValue (0, h)); z = DenseLayer {2} (h)"},
      {"ConvolutionInTheLoop",
       "R = par (4:8); i = DenseLayer {4} (x) + R * PastValue (0, h); "
       "h = Reshape (ConvolutionalLayer {2, (3), pad=true, activation=Tanh} (Reshape (i, (4:1))), (8)); "
       "z = DenseLayer {2} (h)"},
      {"SparseIntoLoop",
       "R = par (4:4); h = Tanh (EmbeddingLayer {4} (s) + R * PastValue (0, h)); z = DenseLayer {2} (h)"},
      {"LSTM", "z = DenseLayer {2} (RecurrentLSTMLayer {4} (x))"},
      {"LSTMPeepholes", "z = DenseLayer {2} (RecurrentLSTMLayer {4, usePeepholes=true} (x))"},
      {"LSTMProjected", "z = DenseLayer {2} (RecurrentLSTMLayer {3, cellShape=5, usePeepholes=true} (x))"},
      {"LSTMStabilized",
       "z = DenseLayer {2} (RecurrentLSTMLayer {3, cellShape=5, usePeepholes=true, enableSelfStabilization=true} (x))"},
      {"LSTMTrainedState", "z = DenseLayer {2} (RecurrentLSTMLayer {4, trainInitialState=true} (x))"},
      {"LSTMBackwards", "z = DenseLayer {2} (RecurrentLSTMLayer {4, goBackwards=true} (x))"},
      {"LSTMSparse", "z = DenseLayer {2} (RecurrentLSTMLayer {4} (s))"},
      {"LSTMStack", "z = DenseLayer {2} (RecurrentLSTMLayerStack {4:3} (x))"},
      {"Bidirectional",
       "z = DenseLayer {2} (Splice (RecurrentLSTMLayer {3} (x) : RecurrentLSTMLayer {3, goBackwards=true} (x)))"},
      {"LSTMPStack",
       "z = DenseLayer {2} (BS.RNNs.RecurrentLSTMPStack (4:3, cellDims=4:5, x, enableSelfStabilization=true)[1].h)"},
      {"BidirectionalLSTMPStack", "z = DenseLayer {2} (BS.RNNs.RecurrentBidirectionalLSTMPStack (3:2, input=x)[1].h)"},
      {"GRUStack", "z = DenseLayer {2} (BS.RNNs.RecurrentGRUStack (4:3, input=x)[1].h)"},
      {"BidirectionalGRU", "z = DenseLayer {2} (BS.RNNs.RecurrentBidirectionalGRUStack (3, input=x)[0].h)"},
      {"GRU", "z = DenseLayer {2} (" + gru(true, true, false) + " (x))"},
      {"GRUBackwards", "z = DenseLayer {2} (" + gru(true, true, true) + " (x))"},
      {"GRUSparse", "z = DenseLayer {2} (" + gru(true, true, false) + " (s))"},
      {"GRUWithoutBias", "z = DenseLayer {2} (" + gru(false, true, false) + " (x))"},
      {"GRUResetBefore", "z = DenseLayer {2} (" + gru(true, false, false) + " (x))"},
      {"GRUResetBeforeBackwards", "z = DenseLayer {2} (" + gru(true, false, true) + " (x))"},
      {"TimeReverse", "z = DenseLayer {2} (TimeReverse (DenseLayer {4} (x)))"},
      {"Last",
       "l = ReduceSum (ReduceSum (BS.Sequences.Last (RecurrentLSTMLayer {4} (x)) .* par (4))); criterion = SumElements "
       "(l .* l)"},
      {"First", "l = BS.Sequences.First (DenseLayer {4} (x)) .* par (4); criterion = SumElements (l .* l)"},
      {"SliceInTime", "l = Slice (1, -1, DenseLayer {4} (x), axis=-1) .* par (4); criterion = SumElements (l .* l)"},
      {"Gather",
       "e = DenseLayer {4} (x); l = BS.Sequences.Gather (Greater (Slice (0, 1, x), 0), e) .* par (4); criterion = "
       "SumElements (l .* l)"},
      {"Scatter",
       "f = Greater (Slice (0, 1, x), 0); g = BS.Sequences.Gather (f, DenseLayer {4} (x)); "
       "z = DenseLayer {2} (BS.Sequences.Scatter (f, g))"},
      {"LoopOnGathered",
       "g = BS.Sequences.Gather (Greater (Slice (0, 1, x), 0), DenseLayer {4} (x)); R = par (4:4); "
       "h = Tanh (g + R * PastValue (0, h)); criterion = SumElements (h .* h .* par (4))"},
      {"Broadcast",
       "z = DenseLayer {2} (x) + BS.Sequences.BroadcastSequenceAs (x, BS.Sequences.Last (DenseLayer {2} (y)))"},
      {"Encoder",
       "z = DenseLayer {2} (RecurrentLSTMLayer {3} (x) + BS.Sequences.BroadcastSequenceAs (x, BS.Sequences.Last "
       "(RecurrentLSTMLayer {3} (y))))"},
      {"Reconcile",
       "l = BS.Sequences.Last (DenseLayer {4} (x)); m = BS.Sequences.First (DenseLayer {4} (x)); "
       "d = (l - ReconcileDynamicAxis (m, l)) .* par (4); criterion = SumElements (d .* d)"},
      {"FoldL",
       "l = BS.Sequences.FoldL ((a, b) => Tanh (a + b), 0, DenseLayer {4} (x)) .* par (4); criterion = SumElements (l "
       ".* l)"},
      {"FoldR",
       "l = BS.Sequences.FoldR ((a, b) => Tanh (a + b), 0.3, DenseLayer {4} (x)) .* par (4); criterion = SumElements "
       "(l .* l)"},
      {"PastValueWindow",
       "w = BS.Sequences.PastValueWindow (3, DenseLayer {4} (x)); l = w.value .* w.valid .* par (4:3); criterion = "
       "SumElements (l .* l)"},
      {"LoopFunctions",
       "z = DenseLayer {2} (x .* BS.Loop.IsFirst (x) + x .* BS.Loop.IsLastN (2, x) .* BS.Loop.Iteration (x)) + "
       "BS.Loop.PreviousOrDefault (DenseLayer {2} (x), defaultValue=0.7)"},
      {"Toggled", "z = DenseLayer {2} (x) .* BS.Boolean.Toggle (Greater (Slice (0, 1, x), 0))"},
      {"Delays", "z = DenseLayer {2} (DelayLayer {T=-2} (DenseLayer {3} (x)) + Shift (DenseLayer {3} (x), -1, 0.5))"},
      {"PenaltyBesideLoop",
       "R = par (4:4); h = Tanh (DenseLayer {4} (x) + R * PastValue (0, h)); z = DenseLayer {2} (h); "
       "criterion = CrossEntropyWithSoftmax (labels, z) + 0.1 .* MatrixL2Reg (R)"},
  };
}

const std::vector<std::vector<std::size_t>> ragged = {
    {3, 1, 7, 3, 4}, {3, 1, 7, 3, 4}, {3, 1, 7, 3, 4}, {2, 2, 1, 3, 1}};

const std::vector<std::vector<std::size_t>> even(4, std::vector<std::size_t>(3, 8));

// Lambdas of two arguments do not exist in the language: the fold's operation is a function.
std::string with_functions(std::string text) {
  const std::string lambda = "(a, b) => Tanh (a + b)";
  const auto at = text.find(lambda);
  if (at == std::string::npos) return text;
  text.replace(at, lambda.size(), "both");
  return "both (a, b) = Tanh (a + b); " + text;
}

std::unique_ptr<Network> network_of(const Case& c, std::int64_t plan = 100, const NetworkOptions& options = {}) {
  return network_of(whole({c.name, with_functions(c.network)}), streams, plan, options);
}

class Recurrence : public testing::TestWithParam<Case> {};

TEST_P(Recurrence, GradientsAgreeWithDifferences) {
  const auto network = network_of(GetParam());
  SequenceData data(streams);
  GradientCheckOptions check;
  check.entries = 12;
  for (const auto& m : check_gradients(*network, data.batch(data.random(ragged)), check))
    ADD_FAILURE() << m.parameter << "[" << m.index << "]: " << m.analytic << " by back-propagation, " << m.numeric
                  << " by differences";
}

void add(Sums& to, const Sums& s) {
  to.criterion += s.criterion;
  to.gradients.resize(s.gradients.size());
  for (std::size_t i = 0; i < s.gradients.size(); ++i) to.gradients[i] += s.gradients[i];
}
void expect_near(const Sums& a, const Sums& b) {
  EXPECT_NEAR(a.criterion, b.criterion, 1e-5 * (1 + std::abs(b.criterion)));
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  float scale = 1;
  for (const float g : b.gradients) scale = std::max(scale, std::abs(g));
  for (std::size_t i = 0; i < a.gradients.size(); ++i)
    ASSERT_NEAR(a.gradients[i], b.gradients[i], 2e-5 * scale) << "entry " << i;
}

TEST_P(Recurrence, PackingDoesNotMatter) {
  const bool additive = GetParam().name != "PenaltyBesideLoop";
  const auto network = network_of(GetParam());
  SequenceData data(streams);
  auto sequences = data.random(ragged);
  const Sums all = sums(*network, data.batch(sequences));
  std::reverse(sequences.begin(), sequences.end());
  expect_near(sums(*network, data.batch(sequences)), all);
  std::swap(sequences[1], sequences[3]);
  expect_near(sums(*network, data.batch(sequences)), all);
  if (!additive) return;
  // Split over steps or ranks; one share is empty.
  Sums total{};
  for (const auto& s : sequences) add(total, sums(*network, data.batch({s})));
  add(total, sums(*network, data.batch({})));
  expect_near(total, all);
  // Worked off in parts.
  const auto small = network_of(GetParam(), 7);
  expect_near(sums(*small, data.batch(sequences)), all);
}

// A resumed run has not seen it.
TEST(RecurrentParts, LongSequenceDoesNotChangeThePartsOfThoseBehindIt) {
  const std::string text = whole({"",
                                  "R = par (4:4); h = Tanh (DenseLayer {4} (x) + R * PastValue (0, h)); "
                                  "z = DenseLayer {2} (h)"});
  SequenceData data(streams);
  const auto seen = network_of(text, streams, 5), fresh = network_of(text, streams, 5);
  sums(*seen, data.batch(data.random({{20}})));
  const Batch& batch = data.batch(data.random({{2, 3, 1, 3, 2, 4, 3}}));
  EXPECT_EQ(sums(*seen, batch).gradients, sums(*fresh, batch).gradients);
}

TEST_P(Recurrence, MemoryReuseDoesNotMatter) {
  NetworkOptions options;
  options.reuse_memory = false;
  Network apart(parsed(whole({"", with_functions(GetParam().network)})), options);
  apart.bind(streams);
  apart.initialize_parameters();
  apart.plan_training(100);
  SequenceData data(streams);
  const auto network = network_of(GetParam());
  const auto sequences = data.random(ragged);
  const Sums a = sums(apart, data.batch(sequences)), b = sums(*network, data.batch(sequences));
  EXPECT_EQ(a.criterion, b.criterion);
  EXPECT_EQ(a.gradients, b.gradients);
}

// What is added to it belongs to the loop; what it normalises does not, and is there for all steps at once.
TEST(Normalization, InFrontOfALoop) {
  const auto with = [](const std::string& sum) {
    const std::string normalized = "n = BatchNormalizationLayer {} (DenseLayer {4} (x)); R = par (4:4); ";
    return network_of({"", normalized + "h = ReLU (" + sum + "); z = DenseLayer {2} (h)"});
  };
  // A difference is nothing that normalisation takes in.
  const auto network = with("n + R * PastValue (0, h)"), apart = with("0 - (0 - n) + R * PastValue (0, h)");
  SequenceData data(streams);
  const auto sequences = data.random(ragged);
  const Sums a = sums(*network, data.batch(sequences)), b = sums(*apart, data.batch(sequences));
  EXPECT_EQ(a.criterion, b.criterion);
  EXPECT_EQ(a.gradients, b.gradients);
}

// Layers are computed as a whole there, step by step or by the library: which way is chosen at the first minibatch.
class RecurrentLayers : public testing::TestWithParam<Case> {};

TEST_P(RecurrentLayers, OnADevice) {
  if (skipped_without_gpu()) return;
  NetworkOptions device;
  device.device = "cuda:0";
  const auto expected = network_of(GetParam());
  SequenceData data(streams);
  for (const std::int64_t plan : {100, 7}) {
    const auto network = network_of(GetParam(), plan, device);
    for (const auto& lengths : {ragged, even}) {
      const auto sequences = data.random(lengths);
      const Sums sum = sums(*expected, data.batch(sequences));
      for (int i = 0; i < 3; ++i) expect_near(sums(*network, data.batch(sequences)), sum);  // recorded, repeated
    }
    expect_near(sums(*network, data.batch({})), sums(*expected, data.batch({})));
  }
}

// Ranks may have devices of different kinds, and a checkpoint may go on on another kind.
TEST(FusedInputs, ParametersOnADevice) {
  if (skipped_without_gpu()) return;
  const Case c{"Large",
               "l = RecurrentLSTMLayer {150, trainInitialState=true} (DenseLayer {1000} (x)); "
               "z = DenseLayer {2} (" +
                   gru(true, true, false, true, 150) + " (l))"};
  NetworkOptions device;
  device.device = "cuda:0";
  const auto host = network_of(c), there = network_of(c, 100, device);
  const Parameters &a = host->parameters(), &b = there->parameters();
  ASSERT_EQ(a.slices.size(), b.slices.size());
  for (std::size_t k = 0; k < a.slices.size(); ++k) EXPECT_EQ(a.slices[k].name, b.slices[k].name);
  ASSERT_GT(a.chunks.size(), a.slices.size());
  ASSERT_EQ(a.chunks.size(), b.chunks.size());
  for (std::size_t i = 0; i < a.chunks.size(); ++i) EXPECT_EQ(a.offset(a.chunks[i]), b.offset(b.chunks[i]));
}

std::vector<Case> cases_with_layers() {
  std::vector<Case> all = cases();
  std::erase_if(all, [](const Case& c) {
    return c.network.find("RecurrentLSTMLayer") == std::string::npos &&
           c.network.find("_Keras.Gru") == std::string::npos;
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Networks, Recurrence, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Networks, RecurrentLayers, testing::ValuesIn(cases_with_layers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tutti::recurrence_test

// SPDX-License-Identifier: Apache-2.0
// Steps that a device repeats from a captured graph: the bits of those that it is told call by call, with fewer calls.
#include <gtest/gtest.h>

#include <cmath>

#include "../brainscript/networks.h"
#include "../support/on_gpu.h"
#include "sequence_data.h"
#include "updates.h"

namespace tutti::repeated_steps_test {
namespace {

using test::SequenceData;

using Lengths = std::vector<std::size_t>;  // of the sequences of a minibatch
const Lengths whole(8, 1), rest(5, 1), ragged = {7, 3, 5, 3}, others = {3, 5, 7, 3}, longer = {9, 4};
const std::vector<Lengths> in_buckets = {ragged, longer, ragged, others, longer, ragged, longer, {4}, others};
const std::vector<Lengths> cut = {{4, 4, 4}, {4, 4, 4}, {4, 2, 4}, {4, 4, 4},
                                  {4, 4, 4}, {4, 2, 4}, {4, 4, 4}, {4, 4, 4}};

const std::vector<Lengths> level = {{5, 5, 5}, {5, 5, 5}, {8, 8}, {5, 5, 5}, {8, 8}, {8, 8}, {5, 5, 5}};
const std::string lstms = "z = LinearLayer {4} (RecurrentLSTMLayer {5} (RecurrentLSTMLayer {5, goBackwards=true} (x)))";

std::string gru(const char* backwards) {
  return fmt::format("_Keras.Gru {{5, (Repeat (15, 0)), Tanh, Sigmoid, 'uniform', 1, 'uniform', 1, {}, true, true}}",
                     backwards);
}
const std::string grus = "z = LinearLayer {4} (" + gru("false") + " (" + gru("true") + " (x)))";

constexpr std::uint64_t as_measured = ~std::uint64_t{0};
struct Case {
  std::string name, network;     // defines z and the labels that it is to have
  std::uint64_t single, graphs;  // calls of a step that has been recorded, at most
  std::size_t inputs = 3;
  std::vector<Lengths> minibatches = {whole, whole, whole, rest, whole, whole, rest, rest, whole};
  bool truncated = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string residual_blocks(int count) {
  std::string text = R"(
    C (x, n) = BatchNormalizationLayer {spatialRank=2, normalizationTimeConstant=30} (
      ConvolutionalLayer {n, (3:3), pad=true, bias=false} (x))
    Block (x) = ReLU (C (ReLU (C (x, 4)), 4) + x)
    b0 = ReLU (C (Reshape (x, (4:4:1)), 4)))";
  for (int i = 0; i < count; ++i) text += fmt::format("\n    b{} = Block (b{})", i + 1, i);
  return text + fmt::format("\n    z = LinearLayer {{4}} (AveragePoolingLayer {{(4:4)}} (b{}))", count);
}

// Calls of their own are two inputs and, with sequences, their order; what is told; the mark behind the criterion and
// its gradient; momentum of all weights, with their penalty. With dropout, the numbers of the samples.
std::vector<Case> cases() {
  return {
      {"BatchNormalization", residual_blocks(3), 6, 2, 16},
      {"Dropout", "z = LinearLayer {4} (Dropout (ReLU (LinearLayer {9} (Dropout (Sigmoid (LinearLayer {9} (x)))))))", 7,
       2},
      // Columns as ever, but another number of them is gathered in each step.
      {"Gathered",
       "g = BS.Sequences.Gather (Greater (Slice (0, 1, x), 0), RowStack (x : labels)); wanted = Slice (3, 7, g); "
       "z = LinearLayer {4} (Sigmoid (LinearLayer {5} (Tanh (LinearLayer {5} (Slice (0, 3, g))))))",
       47, 0},
      {"Loop",
       "R = ParameterTensor {4:4}; h = Tanh (LinearLayer {4} (x) + R * PastValue (0, h)); z = LinearLayer {4} (h)", 9,
       2, 3, in_buckets},
      {"BothDirections",
       "f = PastValue (0, LinearLayer {4} (x), timeStep=2); b = FutureValue (0, Sigmoid (f)); "
       "z = LinearLayer {4} (f + b)",
       9, 2, 3, in_buckets},
      // The library's way through a layer that goes backwards is told the order of its columns.
      {"LSTM", lstms, 10, 2, 3, level},
      {"GRU", grus, 10, 2, 3, level},
      // And where sequences are not equally long it is told anew.
      {"RaggedLSTM", lstms, as_measured, as_measured, 3, in_buckets},
      {"TruncatedLoop",
       "R = ParameterTensor {4:4}; "
       "h = Tanh (LinearLayer {4} (x) + R * PastValue (0, h) + PastValue (0, h, timeStep=3)); z = LinearLayer {4} (h)",
       11, 2, 3, cut, true},
      {"TruncatedLSTM", "z = LinearLayer {4} (RecurrentLSTMLayer {5} (RecurrentLSTMLayer {5} (x)))", 11, 2, 3, cut,
       true},
      {"TruncatedGRU", "z = LinearLayer {4} (" + gru("false") + " (x))", 10, 2, 3, cut, true},
      // Which gradients reach the state is known on the host alone.
      {"TruncatedTrainedState", "z = LinearLayer {4} (RecurrentLSTMLayer {5, trainInitialState=true} (x))", 79, 0, 3,
       cut, true}};
}

// Lanes begin and end their sequences at different times.
std::vector<Fragment> fragments_of(const Case& c, std::size_t minibatch) {
  std::vector<Fragment> fragments;
  for (std::size_t lane = 0; c.truncated && lane < c.minibatches[minibatch].size(); ++lane)
    fragments.push_back({static_cast<std::int32_t>(lane), (minibatch + lane) % 4 == 0, (minibatch + lane) % 4 == 3});
  return fragments;
}

struct Step {
  std::vector<float> gradients;
  CudaDoubleCalls calls;
};
struct Training {
  std::vector<Step> steps;
  std::vector<float> kept;  // weights and running statistics in the end
};

Training train(const Case& c, bool repeat, const std::string& device = "cuda:0", double penalty = 0.01,
               bool late = false) {
  const auto built = brainscript::build(
      fmt::format("{{ x = Input {{{}}}; labels = Input {{4}}; {}; "
                  "ce = CrossEntropyWithSoftmax ({}, z); criterionNodes = (ce) }}",
                  c.inputs, c.network, c.network.find("wanted") == std::string::npos ? "labels" : "wanted"));
  EXPECT_EQ(built.errors, "");
  NetworkOptions options;
  options.device = device, options.repeat_steps = repeat;
  Network network(built.graph, options);
  SequenceData data({{"x", c.inputs, false}, {"labels", 4, false}});
  network.bind(data.infos);
  network.initialize_parameters();
  network.plan_training(64);
  NetworkMode mode;
  mode.dropout_rate = 0.3;
  Training training;
  Updates updates(network, penalty);
  EXPECT_EQ(network.defer_metrics(late), late);
  for (std::size_t i = 0; i < c.minibatches.size(); ++i) {
    Batch batch = data.batch(data.random({c.minibatches[i]}, static_cast<unsigned>(i)), fragments_of(c, i));
    batch.position = static_cast<std::int64_t>(100 * i);
    mode.dropout_seed = i / 4;
    network.set_mode(mode);
    updates.begin(batch);
    const CudaDoubleCalls before = counted_calls().value_or(CudaDoubleCalls{});
    network.forward_backward(batch, updates);
    const CudaDoubleCalls after = counted_calls().value_or(CudaDoubleCalls{});
    training.steps.push_back(
        {{}, {after.single - before.single, after.graphs - before.graphs, 0, after.waits - before.waits}});
    if (late) continue;  // to look at gradients is to wait
    Parameters& p = network.parameters();
    training.steps.back().gradients.assign(p.gradients.span().begin(), p.gradients.span().end());
  }
  while (network.next_deferred_metrics()) {
  }
  const auto w = network.parameters().weights.span();
  training.kept.assign(w.begin(), w.end());
  for (const auto& state : network.state())
    training.kept.insert(training.kept.end(), state.values.begin(), state.values.end());
  return training;
}

class RepeatedSteps : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { skipped_without_gpu(); }
};

TEST_P(RepeatedSteps, HaveTheBitsOfThoseThatAreTold) {
  const Training told = train(GetParam(), false), repeated = train(GetParam(), true);
  for (std::size_t i = 0; i < told.steps.size(); ++i)
    EXPECT_EQ(told.steps[i].gradients, repeated.steps[i].gradients) << "step " << i;
  EXPECT_EQ(told.kept, repeated.kept);
}

// The host is some steps ahead, and has written what they differ in.
TEST_P(RepeatedSteps, HaveTheBitsAlsoWhereNobodyWaits) {
  const Training late = train(GetParam(), true, "cuda:0", 0.01, true);
  EXPECT_EQ(late.kept, train(GetParam(), false).kept);
  // Only for the step that lies furthest behind; the host must know how much was gathered.
  if (GetParam().name == "Gathered") return;
  for (const Step& s : late.steps) EXPECT_LE(s.calls.waits, 1u);
}

TEST_P(RepeatedSteps, AreNearThoseOfTheCpu) {
  // Without a penalty, which only the host adds to the gradients where they lie.
  const Training there = train(GetParam(), true, "cuda:0", 0), here = train(GetParam(), false, "cpu", 0);
  for (std::size_t i = 0; i < here.steps.size(); ++i)
    for (std::size_t k = 0; k < here.steps[i].gradients.size(); ++k) {
      const float a = here.steps[i].gradients[k], b = there.steps[i].gradients[k];
      ASSERT_NEAR(a, b, 1e-3 * (1 + std::fabs(a))) << "step " << i << ", element " << k;
    }
}

TEST_P(RepeatedSteps, AreFewCalls) {
  if (!counted_calls()) GTEST_SKIP() << "a GPU does not count its calls";
  if (GetParam().graphs == as_measured) GTEST_SKIP() << "they are of the way that was the fastest";
  const CudaDoubleCalls told = train(GetParam(), false).steps.back().calls;
  const CudaDoubleCalls repeated = train(GetParam(), true).steps.back().calls;
  EXPECT_EQ(told.graphs, 0u);
  EXPECT_LE(repeated.single, GetParam().single) << "and " << told.single << " when everything is told";
  EXPECT_EQ(repeated.graphs, GetParam().graphs);
}

INSTANTIATE_TEST_SUITE_P(All, RepeatedSteps, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// More sizes than are known at a time, beside one that comes all the while and is repeated. None wants more memory than
// it, so that captured graphs last as long as what they were made with.
TEST(RecordedSteps, OfManySizes) {
  if (skipped_without_gpu()) return;
  const Lengths large(30, 1);
  Case c{"ManySizes",
         "z = LinearLayer {4} (Tanh (ConvolutionalLayer {3, (3:3), pad=true} (Reshape (Sigmoid (x), (4:4:1)))))",
         0,
         0,
         16,
         {large, large}};
  for (std::size_t other = 29; other > 11; --other)
    c.minibatches.push_back(Lengths(other, 1)), c.minibatches.push_back(large);
  const Training told = train(c, false);
  testing::internal::CaptureStderr();
  const Training repeated = train(c, true);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  for (std::size_t i = 0; i < told.steps.size(); ++i)
    EXPECT_EQ(told.steps[i].gradients, repeated.steps[i].gradients) << "step " << i;
  EXPECT_EQ(told.kept, repeated.kept);
}

}  // namespace
}  // namespace tutti::repeated_steps_test

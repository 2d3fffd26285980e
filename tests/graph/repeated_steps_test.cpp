// SPDX-License-Identifier: Apache-2.0
// Steps that a device repeats from a recording: the bits of those that it is told call by call, with fewer calls.
#include <gtest/gtest.h>

#include "../brainscript/networks.h"
#include "../support/cuda_double/calls.h"
#include "base/cuda_library.h"
#include "sequence_data.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using test::SequenceData;

using Lengths = std::vector<std::size_t>;  // of the sequences of a minibatch
const Lengths whole(8, 1), rest(5, 1);

struct Case {
  std::string name, network;     // defines z and the labels that it is to have
  std::uint64_t single, graphs;  // calls of a step that has been recorded, at most
  std::size_t inputs = 3;
  std::vector<Lengths> minibatches = {whole, whole, whole, rest, whole, whole, rest, rest, whole};
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

// Two inputs, what is told and the mark behind the criterion are calls of their own, and the gradient of the criterion.
std::vector<Case> cases() {
  return {{"BatchNormalization", residual_blocks(3), 5, 2, 16},
          {"Dropout",
           "z = LinearLayer {4} (Dropout (ReLU (LinearLayer {9} (Dropout (Sigmoid (LinearLayer {9} (x)))))))", 5, 2},
          // Columns as ever, but another number of them is gathered in each step.
          {"Gathered",
           "g = BS.Sequences.Gather (Greater (Slice (0, 1, x), 0), RowStack (x : labels)); wanted = Slice (3, 7, g); "
           "z = LinearLayer {4} (Sigmoid (LinearLayer {5} (Tanh (LinearLayer {5} (Slice (0, 3, g))))))",
           41, 0}};
}

struct Step {
  std::vector<float> gradients;
  CudaDoubleCalls calls;
};
struct Training {
  std::vector<Step> steps;
  std::vector<float> kept;  // weights and running statistics in the end
};

// Pieces may be handed on while the device computes.
class OnDevice final : public PieceSink {
 public:
  bool follows_device() const override { return true; }
  void piece_ready(std::size_t) override {}
};

// The stand-in counts what it is told, a GPU does not.
std::optional<CudaDoubleCalls> counted() {
  try {
    return cuda_function<decltype(cuda_double_calls)>("cuda_double_calls")();
  } catch (const Error&) {
    return {};
  }
}

Training train(const Case& c, bool repeat) {
  const auto built = brainscript::build(
      fmt::format("{{ x = Input {{{}}}; labels = Input {{4}}; {}; "
                  "ce = CrossEntropyWithSoftmax ({}, z); criterionNodes = (ce) }}",
                  c.inputs, c.network, c.network.find("wanted") == std::string::npos ? "labels" : "wanted"));
  EXPECT_EQ(built.errors, "");
  NetworkOptions options;
  options.device = "cuda:0", options.repeat_steps = repeat;
  Network network(built.graph, options);
  SequenceData data({{"x", c.inputs, false}, {"labels", 4, false}});
  network.bind(data.infos);
  network.initialize_parameters();
  network.plan_training(64);
  NetworkMode mode;
  mode.dropout_rate = 0.3;
  Training training;
  OnDevice sink;
  for (std::size_t i = 0; i < c.minibatches.size(); ++i) {
    Batch batch = data.batch(data.random({c.minibatches[i]}, static_cast<unsigned>(i)));
    batch.position = static_cast<std::int64_t>(100 * i);
    mode.dropout_seed = i / 4;
    network.set_mode(mode);
    const CudaDoubleCalls before = counted().value_or(CudaDoubleCalls{});
    network.forward_backward(batch, sink);
    const CudaDoubleCalls after = counted().value_or(CudaDoubleCalls{});
    Parameters& p = network.parameters();
    training.steps.push_back({{p.gradients.span().begin(), p.gradients.span().end()},
                              {after.single - before.single, after.graphs - before.graphs}});
    for (std::size_t k = 0; k < p.weights.size(); ++k) p.weights.data()[k] -= 0.05f * p.gradients.data()[k];
  }
  const auto w = network.parameters().weights.span();
  training.kept.assign(w.begin(), w.end());
  for (const auto& state : network.state())
    training.kept.insert(training.kept.end(), state.values.begin(), state.values.end());
  return training;
}

class RepeatedSteps : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const CudaDevices devices = cuda_devices(); devices.count == 0) GTEST_SKIP() << "no GPU: " << devices.problem;
  }
};

TEST_P(RepeatedSteps, HaveTheBitsOfThoseThatAreTold) {
  const Training told = train(GetParam(), false), repeated = train(GetParam(), true);
  for (std::size_t i = 0; i < told.steps.size(); ++i)
    EXPECT_EQ(told.steps[i].gradients, repeated.steps[i].gradients) << "step " << i;
  EXPECT_EQ(told.kept, repeated.kept);
}

TEST_P(RepeatedSteps, AreFewCalls) {
  if (!counted()) GTEST_SKIP() << "a GPU does not count its calls";
  const CudaDoubleCalls told = train(GetParam(), false).steps.back().calls;
  const CudaDoubleCalls repeated = train(GetParam(), true).steps.back().calls;
  EXPECT_EQ(told.graphs, 0u);
  EXPECT_LE(repeated.single, GetParam().single) << "and " << told.single << " when everything is told";
  EXPECT_EQ(repeated.graphs, GetParam().graphs);
}

INSTANTIATE_TEST_SUITE_P(All, RepeatedSteps, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tutti

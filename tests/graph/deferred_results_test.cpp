// SPDX-License-Identifier: Apache-2.0
// Criteria that a device tells some steps later: the numbers of those that the host waits for.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "../brainscript/networks.h"
#include "../support/on_gpu.h"
#include "graph/deferred_results.h"
#include "sequence_data.h"
#include "updates.h"

namespace tutti::deferred_results_test {
namespace {

constexpr std::size_t behind = graph::DeferredResults::steps;

// Of minibatches that fit the plan, come in parts, or are empty.
const std::vector<std::size_t> samples = {8, 8, 20, 8, 0, 8, 5, 8, 17, 0, 8, 8};

struct Trained {
  std::vector<StepMetrics> metrics;         // of each step
  std::vector<std::vector<float>> weights;  // behind each step; of late ones, in the end
  std::vector<std::vector<float>> seen;     // behind each step, by a host that does not wait
};

class DeferredResults : public testing::Test {
 protected:
  void SetUp() override { skipped = skipped_without_gpu(); }

  std::unique_ptr<Network> make(const std::string& device = "cuda:0") const {
    const auto built = brainscript::build(
        "{ x = Input {3}; labels = Input {4}; h = Sigmoid (LinearLayer {5} (x)); z = LinearLayer {4} (RowStack (h : "
        "Exp (x))); "
        "ce = CrossEntropyWithSoftmax (labels, z); errs = ClassificationError (labels, z); "
        "criterionNodes = (ce); evaluationNodes = (errs) }");
    EXPECT_EQ(built.errors, "");
    NetworkOptions options;
    options.device = device;
    auto network = std::make_unique<Network>(built.graph, options);
    network->bind(data.infos);
    network->initialize_parameters();
    network->plan_training(8);
    return network;
  }
  Batch minibatch(std::size_t i) {
    std::vector<test::Sequence> all = data.random({std::vector<std::size_t>(samples[i], 1)}, static_cast<unsigned>(i));
    if (i == spoilt) std::fill(all[1][0].begin(), all[1][0].end(), 200.0f);
    Batch batch = data.batch(all);
    batch.position = static_cast<std::int64_t>(100 * i), batch.minibatch = static_cast<std::int64_t>(i);
    return batch;
  }
  // Network::parameters() waits for the device; what it returns can be looked at later.
  static std::vector<float> as_they_are(const Parameters& p) {
    const auto w = p.weights.span();
    return {w.begin(), w.end()};
  }
  static std::vector<float> weights_of(Network& network) { return as_they_are(network.parameters()); }

  Trained train(bool late) {
    const auto network = make();
    EXPECT_EQ(network->defer_metrics(late), late);
    Updates updates(*network);
    const Parameters& parameters = network->parameters();
    Trained t;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const Batch batch = minibatch(i);
      updates.begin(batch);
      const StepMetrics metrics = network->forward_backward(batch, updates);
      EXPECT_EQ(metrics.samples, batch.samples);
      if (!late || i >= behind) t.metrics.push_back(metrics);
      if (late && i >= behind) {
        EXPECT_EQ(network->measured_minibatch(), static_cast<std::int64_t>(i - behind));
      }
      t.seen.push_back(as_they_are(parameters));
      if (!late) t.weights.push_back(weights_of(*network));
    }
    while (const auto metrics = network->next_deferred_metrics()) t.metrics.push_back(*metrics);
    t.weights.push_back(weights_of(*network));
    return t;
  }

  bool skipped = false;
  std::size_t spoilt = samples.size();  // the minibatch whose exponential overflows
  test::SequenceData data{{{"x", 3, false}, {"labels", 4, false}}};
};

TEST_F(DeferredResults, AreThoseOfEachStep) {
  if (skipped) return;
  const Trained at_once = train(false), late = train(true);
  EXPECT_EQ(at_once.weights.back(), late.weights.back());
  ASSERT_EQ(at_once.metrics.size(), late.metrics.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const StepMetrics &a = at_once.metrics[i], &b = late.metrics[i];
    EXPECT_EQ(a.criterion, b.criterion) << "step " << i;
    EXPECT_EQ(a.criterion_count, b.criterion_count) << "step " << i;
    EXPECT_EQ(a.evaluations[0].sum, b.evaluations[0].sum) << "step " << i;
    EXPECT_EQ(a.evaluations[0].count, static_cast<double>(samples[i]));
    EXPECT_EQ(b.evaluations[0].count, static_cast<double>(samples[i]));
  }
}

// the emulator does what it is told as late as it may.
TEST_F(DeferredResults, LetTheHostGoOn) {
  if (skipped || !counted_calls()) return;
  const Trained at_once = train(false), late = train(true);
  for (std::size_t i = behind + 1; i < samples.size(); ++i) {
    const std::size_t told =
        samples[i - behind] > 0 ? i - behind : i - behind - 1;  // nothing is awaited for no samples
    EXPECT_EQ(late.seen[i], at_once.weights[told - 1]) << "step " << i;
  }
}

TEST_F(DeferredResults, KeepTheWeightsOfBeforeTheStepThatWasNoNumber) {
  if (skipped) return;
  const Trained whole = train(false);
  spoilt = 3;
  const auto network = make();
  ASSERT_TRUE(network->defer_metrics(true));
  Updates updates(*network);
  const auto step = [&](std::size_t i) {
    const Batch batch = minibatch(i);
    updates.begin(batch);
    network->forward_backward(batch, updates);
  };
  for (std::size_t i = 0; i < spoilt + behind; ++i) step(i);
  try {
    step(spoilt + behind);
    FAIL() << "nothing was thrown";
  } catch (const DeferredNumericError& e) {
    EXPECT_EQ(e.minibatch, 3);
    EXPECT_EQ(e.position, 300);
  }
  EXPECT_EQ(weights_of(*network), whole.weights[spoilt - 1]);
  network->explain_nan(minibatch(spoilt - 1));
  try {
    network->explain_nan(minibatch(spoilt));
    FAIL() << "nothing was thrown";
  } catch (const NumericError& e) {
    const auto here = make("cpu");
    try {
      class Nobody final : public GradientSink {
        void chunk_ready(std::size_t) override {}
      } nobody;
      here->forward_backward(minibatch(spoilt), nobody);
      FAIL() << "the CPU threw nothing";
    } catch (const NumericError& of_cpu) {
      EXPECT_EQ(e.node, of_cpu.node);
      EXPECT_STREQ(e.what(), of_cpu.what());
    }
  }
}

TEST_F(DeferredResults, LetWeightsChangeAgain) {
  if (skipped) return;
  spoilt = 0;
  const auto network = make();
  Updates updates(*network);
  const auto initial = weights_of(*network);
  ASSERT_TRUE(network->defer_metrics(true));
  const Batch broken = minibatch(0);
  updates.begin(broken);
  network->forward_backward(broken, updates);
  EXPECT_THROW(network->next_deferred_metrics(), DeferredNumericError);
  ASSERT_TRUE(network->defer_metrics(true));
  EXPECT_EQ(weights_of(*network), initial);
  Updates fresh(*network);  // momentum has taken in what is no number
  const Batch batch = minibatch(1);
  fresh.begin(batch);
  network->forward_backward(batch, fresh);
  EXPECT_FALSE(std::isnan(network->next_deferred_metrics()->criterion));
  EXPECT_NE(weights_of(*network), initial);
}

TEST_F(DeferredResults, OfSparseInputsAreNotAwaitedEither) {
  if (skipped || !counted_calls()) return;
  const auto built = brainscript::build(
      "{ x = SparseInput {12}; labels = SparseInput {4}; E = ParameterTensor {5:12}; "
      "z = LinearLayer {4} (Tanh (E * x)); ce = CrossEntropyWithSoftmax (labels, z); criterionNodes = (ce) }");
  ASSERT_EQ(built.errors, "");
  NetworkOptions options;
  options.device = "cuda:0";
  Network network(built.graph, options);
  test::SequenceData words({{"x", 12, true}, {"labels", 4, true}});
  network.bind(words.infos);
  network.initialize_parameters();
  network.plan_training(8);
  ASSERT_TRUE(network.defer_metrics(true));
  Updates updates(network);
  for (unsigned i = 0; i < 3 * behind; ++i) {
    const Batch& batch = words.batch(words.random({std::vector<std::size_t>(8, 1)}, i));
    const std::uint64_t before = counted_calls()->waits;
    updates.begin(batch);
    network.forward_backward(batch, updates);
    EXPECT_LE(counted_calls()->waits - before, i < behind ? 0u : 1u) << "step " << i;
  }
}

TEST_F(DeferredResults, AreForDevicesAlone) {
  const auto network = make("cpu");
  EXPECT_FALSE(network->defer_metrics(true));
  EXPECT_FALSE(network->next_deferred_metrics());
}

}  // namespace
}  // namespace tutti::deferred_results_test

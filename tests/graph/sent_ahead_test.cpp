// SPDX-License-Identifier: Apache-2.0
// Inputs that travel to a device while it looks at the gradients of the step before.
#include <gtest/gtest.h>

#include <algorithm>

#include "../brainscript/networks.h"
#include "../support/on_gpu.h"
#include "sequence_data.h"

namespace tutti::sent_ahead_test {
namespace {

class Nobody final : public GradientSink {
 public:
  bool follows_device() const override { return true; }
  void chunk_ready(std::size_t) override {}
};

class SentAhead : public testing::Test {
 protected:
  void SetUp() override {
    if (skipped_without_gpu()) return;
    const auto built = brainscript::build(
        "{ x = Input {3}; labels = Input {4}; z = LinearLayer {4} (Sigmoid (LinearLayer {5} (x))); "
        "ce = CrossEntropyWithSoftmax (labels, z); criterionNodes = (ce) }");
    ASSERT_EQ(built.errors, "");
    NetworkOptions options;
    options.device = "cuda:0";
    network = std::make_unique<Network>(built.graph, options);
    network->bind(infos);
    network->initialize_parameters();
    network->plan_training(8);
    for (unsigned i = 0; i < 4; ++i) {
      data.push_back(std::make_unique<test::SequenceData>(infos));
      batches.push_back(&data[i]->batch(data[i]->random({std::vector<std::size_t>(i == 3 ? 20 : 8, 1)}, i)));
      alone.push_back(gradients(*batches[i]));
    }
  }
  std::vector<float> gradients(const Batch& batch) {
    Nobody nobody;
    network->forward_backward(batch, nobody);
    EXPECT_TRUE(network->unscale_gradients(nullptr));
    const auto g = network->parameters().gradients.span();
    return {g.begin(), g.end()};
  }
  // Whoever uploads it later uploads zeros.
  static void wipe(const Batch& batch) {
    for (const StreamData& s : batch.streams) std::fill_n(const_cast<float*>(s.dense.data()), s.dense.size(), 0.0f);
  }

  const std::vector<StreamInfo> infos = {{"x", 3, false}, {"labels", 4, false}};
  std::unique_ptr<Network> network;
  std::vector<std::unique_ptr<test::SequenceData>> data;
  std::vector<const Batch*> batches;  // the last one is larger than the plan
  std::vector<std::vector<float>> alone;
};

TEST_F(SentAhead, IsThereWhenItsStepComes) {
  if (!network) return;
  network->unscale_gradients(batches[1]);
  wipe(*batches[1]);
  EXPECT_EQ(gradients(*batches[1]), alone[1]);
  EXPECT_NE(gradients(*batches[1]), alone[1]);  // sent once, it counts once
}

TEST_F(SentAhead, IsForgottenWhenAnotherOneComes) {
  if (!network) return;
  network->unscale_gradients(batches[1]);
  EXPECT_EQ(gradients(*batches[2]), alone[2]);
  EXPECT_EQ(gradients(*batches[1]), alone[1]);
  network->unscale_gradients(batches[1]);
  network->bind(infos);  // another reader may use the same memory
  wipe(*batches[1]);
  EXPECT_NE(gradients(*batches[1]), alone[1]);
}

// A step may be left out, and readers fill the memory of its minibatch again.
TEST_F(SentAhead, IsForgottenWhereItsMinibatchNeverComes) {
  if (!network) return;
  Batch later = *batches[1];
  network->unscale_gradients(&later);
  later.streams = batches[2]->streams;
  later.position = 8;
  EXPECT_EQ(gradients(later), alone[2]);
}

TEST_F(SentAhead, IsThereWhenItIsToBeEvaluated) {
  if (!network) return;
  network->plan_evaluation(8, {});
  std::vector<double> criteria;
  for (const Batch* batch : batches) criteria.push_back(network->evaluate(*batch).criterion);
  EXPECT_EQ(network->evaluate(*batches[3], batches[0]).criterion, criteria[3]);  // in parts
  wipe(*batches[0]);
  EXPECT_EQ(network->evaluate(*batches[0], batches[3]).criterion, criteria[0]);
  EXPECT_EQ(network->evaluate(*batches[3], batches[1]).criterion, criteria[3]);
  EXPECT_EQ(network->evaluate(*batches[2]).criterion, criteria[2]);
  EXPECT_EQ(network->evaluate(*batches[1], batches[2]).criterion, criteria[1]);
  network->bind(infos);
  wipe(*batches[2]);
  EXPECT_NE(network->evaluate(*batches[2]).criterion, criteria[2]);
}

TEST_F(SentAhead, ChangesNothingForWhatComesInParts) {
  if (!network) return;
  network->unscale_gradients(batches[3]);
  EXPECT_EQ(gradients(*batches[3]), alone[3]);
}

}  // namespace
}  // namespace tutti::sent_ahead_test

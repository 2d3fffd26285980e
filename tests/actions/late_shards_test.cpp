// SPDX-License-Identifier: Apache-2.0
// useBufferedAsyncGradientAggregation beside sharded layers: gradients of replicated layers come one minibatch late,
// those of sharded layers do not.
#include "text_run.h"

namespace tutti::actions::late_shards_test {
namespace {

class LateShards : public TextRun {
 protected:
  void train(const std::string& model, const char* placement, bool late) {
    run(2, config(kind_, model, 8, 3) +
               fmt::format("\nTrain=[SGD=[momentumPerMB=0.8;{}ParallelTrain=[parallelizationMethod=DataParallelSGD;"
                           "DataParallelSGD=[gradientBits=32;useBufferedAsyncGradientAggregation={}]]]]",
                           placement, late));
  }
  Kind kind_ = kDense;
};

// One layer, whose outputs are divided: no parameter is on both ranks.
TEST_F(LateShards, GradientsOfShardsAreInTime) {
  kind_.hidden = "Tanh";
  write_data(kind_, 33);
  train("in-time", "ModelParallel=[dense=shard];", false);
  train("late", "ModelParallel=[dense=shard];", true);
  EXPECT_GT(distance("in-time", "in-time.0"), 1e-2);
  EXPECT_LE(distance("in-time", "late"), 1e-6);
}

// The first layer is not trained, so only the other layers show whether their gradients are late.
TEST_F(LateShards, OtherGradientsAreLate) {
  kind_.hidden =
      "Sequential ((v => ParameterTensor {(30:3), learningRateMultiplier = 0} * v) : Tanh : DenseLayer {11, activation "
      "= ReLU})";
  write_data(kind_, 33);
  train("in-time", "", false);
  train("late", "", true);
  EXPECT_GT(distance("in-time", "late"), 1e-3);
  for (const char* placement : {"replicate", "shard"}) {
    train(placement, (std::string("ModelParallel=[dense=replicate;layers=[1=") + placement + "]];").c_str(), true);
    EXPECT_LE(distance("late", placement), 1e-5) << placement;
  }
}

}  // namespace
}  // namespace tutti::actions::late_shards_test

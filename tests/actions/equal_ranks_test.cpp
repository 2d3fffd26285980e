// SPDX-License-Identifier: Apache-2.0
// What is drawn at random, normalised or counted for the optimizer follows from the whole minibatch, not from the ranks
// that share it: P ranks end with the weights of one rank, but for the rounding of sums.
#include "text_run.h"

namespace tutti::actions::equal_ranks_test {
namespace {

class EqualRanks : public TextRun {
 protected:
  // 33 samples in minibatches of 8: the last one leaves some ranks without samples.
  void expect_equal(const Kind& kind, const std::string& settings, double bound) {
    write_data(kind, 33);
    const std::string all = "\nTrain=[makeMode=false;SGD=[" + settings +
                            ";ParallelTrain=[parallelizationMethod=DataParallelSGD;"
                            "DataParallelSGD=[gradientBits=32]]]]";
    run(1, config(kind, "one", 8, 3) + all);
    EXPECT_GT(distance("one", "one.0"), 100 * bound) << "nothing was learned";
    for (const int ranks : {2, 3, 5, 9}) {
      run(ranks, config(kind, "more", 8, 3) + all);
      EXPECT_LE(distance("one", "more"), bound) << ranks;
    }
  }
};

TEST_F(EqualRanks, WithDropout) {
  expect_equal({"dropout", false, false, 3, "Sequential (DenseLayer {30, activation = ReLU} : Dropout)"},
               "dropoutRate=0.4", 1e-5);
}

// Momentum, clipping and the statistics of the rule count columns, gaps of packed sequences included.
TEST_F(EqualRanks, WithSequences) {
  const std::string rule =
      "dropoutRate=0.3;gradUpdateType=fsAdaGrad;momentumAsTimeConstant=30;clippingThresholdPerSample=0.05";
  const char* const layers =
      "Sequential (RecurrentLSTMLayer {4} : Dropout : DenseLayer {6, activation = ReLU} : Dropout)";
  for (const bool sparse : {false, true}) {
    SCOPED_TRACE(sparse);
    expect_equal({"sequences", sparse, true, sparse ? 40 : 3, layers}, rule, 1e-4);
  }
  // Without a recurrent layer columns are not brought into packed order.
  expect_equal({"sequences", false, true, 3, "Sequential (DenseLayer {30, activation = ReLU} : Dropout)"}, rule, 1e-4);
}

TEST_F(EqualRanks, WithSynchronizedNormalization) {
  for (const char* layers :
       {"Sequential (DenseLayer {12} : BatchNormalizationLayer {synchronized = true} : ReLU : Dropout)",
        "Sequential (DenseLayer {(4:3:20)} : BatchNormalizationLayer {spatialRank = 2, "
        "normalizationTimeConstant = 20, blendTimeConstant = 5, synchronized = true} : ReLU)"}) {
    SCOPED_TRACE(layers);
    expect_equal({"normalized", false, false, 3, layers}, "dropoutRate=0.2", 1e-5);
  }
}

TEST_F(EqualRanks, NotWithStatisticsOfEachShare) {
  const Kind kind{"local", false, false, 3, "Sequential (DenseLayer {12} : BatchNormalizationLayer {} : ReLU)"};
  write_data(kind, 33);
  const std::string parallel = "\nTrain=[SGD=[ParallelTrain=[parallelizationMethod=DataParallelSGD]]]";
  run(1, config(kind, "one", 8, 3) + parallel);
  run(3, config(kind, "more", 8, 3) + parallel);
  EXPECT_GT(distance("one", "more"), 1e-3);
}

TEST_F(EqualRanks, SynchronizedStatisticsNeedRanksThatWait) {
  const Kind kind{"served", false, false, 3, "BatchNormalizationLayer {synchronized = true}"};
  write_data(kind, 33);
  const auto with = [&](const std::string& settings) {
    return config(kind, "served", 8, 1) + "\nTrain=[SGD=[ParallelTrain=[" + settings + "]]]";
  };
  try {
    run(2, with("parallelizationMethod=DataParallelASGD"));
    FAIL() << "not refused";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("synchronized = true needs all ranks in every step"), std::string::npos);
  }
  run(2, with("parallelizationMethod=ModelAveragingSGD"));
}

}  // namespace
}  // namespace tutti::actions::equal_ranks_test

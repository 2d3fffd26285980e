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

  // The same network with penalties as nodes, of the criterion and as an evaluation.
  static std::string with_penalty(std::string text) {
    const auto replace = [&](const std::string& from, const std::string& to) {
      text.replace(text.find(from), from.size(), to);
    };
    replace("ce = CrossEntropyWithSoftmax (y, z)",
            "P = ParameterTensor {(2:3)} ; penalty = MatrixL2Reg (P)\n"
            "ce = CrossEntropyWithSoftmax (y, z + P * x) + penalty + 0.5 * SumElements (P .* P)");
    replace("evaluationNodes = (mark)", "evaluationNodes = (penalty)");
    return text;
  }
  std::string validation() const {
    return fmt::format(R"(
Train=[cvReader=[readerType=CNTKTextFormatReader;file="{}"
  input=[x=[dim=3;format=dense];y=[dim=2;format=dense];m=[dim=1;format=dense]]]])",
                       path("data"));
  }
  // What the log shows of ce and penalty for whole epochs, validations and tests, by place. Every rank has the lines.
  static std::map<std::string, double> values(const std::string& text) {
    std::map<std::string, double> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (line.find("Finished Epoch") != std::string::npos || line.find("Final Results") != std::string::npos)
        for (const std::string name : {" ce = ", " penalty = "})
          if (const auto at = line.find(name); at != std::string::npos)
            found[line.substr(0, line.find("] ") + 1) + name] = std::stod(line.substr(at + name.size()));
    return found;
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

// A term of parameters alone counts once per minibatch: in the weights, and in the results of the training, of the
// validation and of a test.
TEST_F(EqualRanks, WithWeightPenalty) {
  const Kind kind{"penalty", false, false, 3, "DenseLayer {6, activation = ReLU}"};
  write_data(kind, 33);
  const auto settings = [&](const std::string& model, const std::string& method) {
    return with_penalty(config(kind, model, 8, 3)) + "\nTrain=[makeMode=false]" + method;
  };
  const auto results = [&](int ranks, const std::string& text) {
    log::open({path("run.log"), false, 0, false});
    run(ranks, text + validation());
    run(ranks, text + "\nTrain=[action=test;minibatchSize=8]");
    log::close();
    return values(bytes("run.log"));
  };
  const auto one = results(1, settings("one", ""));
  ASSERT_EQ(one.size(), 2u * (3 + 3 + 1)) << "two results of three epochs, three validations and a test";
  for (const char* method : {"parallelizationMethod=DataParallelSGD", "parallelizationMethod=ASA",
                             "parallelizationMethod=DataParallelSGD;groups=size:2",
                             "parallelizationMethod=DataParallelASGD;DataParallelASGD=[policy=sync;push=gradients]"})
    for (const int ranks : {2, 5}) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", method, ranks));
      const auto more = results(ranks, settings("more", fmt::format("\nTrain=[SGD=[ParallelTrain=[{}]]]", method)));
      EXPECT_LE(distance("one", "more"), 1e-5);
      ASSERT_EQ(more.size(), one.size());
      for (const auto& [place, value] : more) EXPECT_NEAR(value, one.at(place), 1e-5 * (1 + value)) << place;
    }
}

// With every sample twice, each of two ranks that update alone does what one rank does with every sample once.
TEST_F(EqualRanks, WithWholePenaltyWhereRanksUpdateAlone) {
  const Kind kind{"alone", false, false, 3, "DenseLayer {6, activation = ReLU}"};
  write_data(kind, 32);
  const std::string common = "\nTrain=[makeMode=false;reader=[randomize=false];SGD=[momentumPerMB=0]]";
  run(1, with_penalty(config(kind, "one", 4, 3)) + common);
  std::istringstream once(bytes("data"));
  std::ofstream twice(path("data"));
  for (std::string line; std::getline(once, line);) twice << line << '\n' << line << '\n';
  twice.close();
  run(2, with_penalty(config(kind, "more", 8, 3)) + common +
             "\nTrain=[SGD=[learningRatesPerMB=0.2;ParallelTrain=[parallelizationMethod=ModelAveragingSGD]]]");
  EXPECT_GT(distance("one", "one.0"), 1e-2) << "nothing was learned";
  EXPECT_LE(distance("one", "more"), 1e-5);
}

// All ranks skip the minibatches in which the criterion of one of them is not a number, and restore their statistics.
TEST_F(EqualRanks, WithSkippedUpdates) {
  constexpr Kind normalized{"normalized", false, false, 3,
                            "Sequential (DenseLayer {12} : BatchNormalizationLayer {synchronized = true} : ReLU)"};
  for (const Kind& kind : {normalized, kSparse}) {
    SCOPED_TRACE(kind.name);
    write_data(kind, 33, 31);
    const auto settings = [&](const std::string& model, const std::string& parallel) {
      return config(kind, model, 8, 3) + "\nTrain=[makeMode=false;SGD=[onNaN=skip;momentumPerMB=0.9;ParallelTrain=[" +
             parallel + "]]]";
    };
    run(1, settings("one", ""));
    EXPECT_GT(distance("one", "one.0"), 1e-3) << "nothing was learned";
    const std::string method = "parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=32]";
    for (const std::string& parallel : {method, method + ";groups=size:2;insideGroups=[" + method + "]"})
      for (const int ranks : {4, 5}) {
        run(ranks, settings("more", parallel));
        EXPECT_LE(distance("one", "more"), 1e-5) << parallel << ' ' << ranks;
      }
  }
}

// A criterion that is a number has a gradient that is not: 0 times 4e19 times 1e25, differentiated.
TEST_F(EqualRanks, SkippedUpdatesChangeNothing) {
  const Kind kind{"unchanged", false, false, 3,
                  "Sequential (DenseLayer {12} : BatchNormalizationLayer {synchronized = true} : ReLU)"};
  write_data(kind, 33, 0);
  const std::string all =
      "\nTrain=[makeMode=false;SGD=[onNaN=skip;ParallelTrain=[parallelizationMethod="
      "DataParallelSGD;DataParallelSGD=[useBufferedAsyncGradientAggregation=";
  for (const char* late : {"false", "true"})
    for (const int ranks : {1, 3}) {
      std::string text = config(kind, "unchanged", 8, 2) + all + late + "]]]]";
      const std::string term = "Exp (m - Constant (500)) * Constant (0)";
      text.replace(text.find(term), term.size(),
                   "Constant (1e25) .* (ParameterTensor {2, initValue = 0} .* Exp (m - Constant (955)))");
      run(ranks, text);
      EXPECT_EQ(distance("unchanged", "unchanged.0"), 0) << late << ' ' << ranks;
    }
}

TEST_F(EqualRanks, NotWithRootsOfSums) {
  const Kind kind{"root", false, false, 3, "DenseLayer {6, activation = ReLU}"};
  write_data(kind, 33);
  std::string text =
      config(kind, "root", 8, 1) + "\nTrain=[makeMode=false;SGD=[ParallelTrain=[parallelizationMethod=ASA]]]";
  const std::string criterion = "CrossEntropyWithSoftmax (y, z)";
  text.replace(text.find(criterion), criterion.size(), "Sqrt (CrossEntropyWithSoftmax (y, z))");
  for (const int ranks : {1, 2}) {
    log::open({path("run.log"), false, 0, false});
    run(ranks, text);
    log::close();
    EXPECT_EQ(bytes("run.log").find("'ce' (Sqrt) is not a sum over samples") != std::string::npos, ranks > 1);
  }
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

// In the network, ranks without samples wait for others, which wait for sums that these ranks owe them.
TEST_F(EqualRanks, WithSynchronizedNormalizationLate) {
  const Kind kind{"late", false, false, 3,
                  "Sequential (DenseLayer {12} : BatchNormalizationLayer {synchronized = true} : ReLU)"};
  write_data(kind, 33);
  const std::string late =
      "\nTrain=[makeMode=false;SGD=[ParallelTrain=[parallelizationMethod=DataParallelSGD;DataParallelSGD=["
      "gradientBits=32;useBufferedAsyncGradientAggregation=true]]]]";
  for (const int minibatch : {1, 3}) {
    run(1, config(kind, "one", minibatch, 3) + late);
    for (const int ranks : {2, 5}) {
      run(ranks, config(kind, "more", minibatch, 3) + late);
      EXPECT_LE(distance("one", "more"), 1e-5) << minibatch << ' ' << ranks;
    }
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

// SPDX-License-Identifier: Apache-2.0
// gradientAccumulationSteps = k: the sums of k minibatches make one update, which is that of one minibatch k times as
// large at the same rates per sample. Epochs end with fewer minibatches, and with fewer samples than ranks.
#include "method_table.h"
#include "text_run.h"

namespace tutti::actions::accumulation_runs_test {
namespace {

class Accumulation : public TextRun {
 protected:
  static std::string sgd(int minibatch, int steps, const std::string& more) {
    return fmt::format(
        "\nTrain=[makeMode=false;SGD=[minibatchSize={};gradientAccumulationSteps={};{}\n"
        "learningRatesPerSample=0.02;momentumAsTimeConstant=40]]",
        minibatch, steps, more);
  }
  std::string text(const Kind& kind, const std::string& model, const std::string& more) const {
    std::string all = config(kind, model, 4, 3);
    const std::string per_minibatch = "; learningRatesPerMB = 0.1";
    return all.erase(all.find(per_minibatch), per_minibatch.size()) + more;
  }
  bool same(const std::string& a, const std::string& b) const { return bytes(a) == bytes(b); }
};

// 37 samples: updates of 12 (3 x 4), and one of a single sample; or of 24 (2 x 12), and one of 13.
TEST_F(Accumulation, EqualsALargerMinibatch) {
  for (const Kind& kind : {kDense, kSparse, kSequences})
    for (const auto& [minibatch, steps] : {std::pair(4, 3), std::pair(12, 2)})
      for (const int ranks : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{}, {} x {}, {} ranks", kind.name, steps, minibatch, ranks));
        write_data(kind, 37);
        const std::string method = "\n" + in_parallel_block("parallelizationMethod=DataParallelSGD");
        run(ranks, text(kind, "large", sgd(minibatch * steps, 1, "") + method));
        run(ranks, text(kind, "accumulated", sgd(minibatch, steps, "") + method));
        EXPECT_LE(distance("large", "accumulated"), 1e-6);
        EXPECT_GT(distance("large", "large.0"), 1e-2) << "nothing was learned";
        run(ranks, text(kind, "small", sgd(minibatch, 1, "") + method));
        EXPECT_GT(distance("large", "small"), 1e-4) << "it is not the minibatches one by one";
      }
}

// Where both are computed in the same parts, to the last bit, under every method that repeats its bits.
TEST_F(Accumulation, EqualsALargerMinibatchInPartsUnderEveryMethod) {
  write_data(kDense, 37);
  for (const Method& m : methods()) {
    if (!m.repeats) continue;
    const std::string method = "\n" + in_parallel_block(m);
    run(2, text(kDense, "large", sgd(12, 1, "numSubminibatches=3;") + method));
    run(2, text(kDense, "accumulated", sgd(4, 3, "") + method));
    EXPECT_TRUE(same("large", "accumulated")) << m.name;
    EXPECT_FALSE(same("large", "large.0")) << m.name;
  }
}

TEST_F(Accumulation, ResumesWithinAnEpoch) {
  for (const int ranks : {1, 3}) {
    const std::string more = "\nTrain=[SGD=[minibatchSize=4;gradientAccumulationSteps=2;epochSize=35;"
                             "checkpointEverySamples=8];reader=[randomize=false]]\n" +
                             in_parallel_block("parallelizationMethod=DataParallelSGD");
    const auto with = [&](const std::string& model) { return config(kDense, model, 4, 3) + more; };
    const std::string model = fmt::format("m{}", ranks), stopped = model + "-stopped";
    write_data(kDense, 70);
    run(ranks, with(model));
    write_data(kDense, 70, 60);
    EXPECT_THROW(run(ranks, with(stopped)), Error);
    EXPECT_TRUE(fs::exists(path(stopped + ".2.mid")));
    write_data(kDense, 70);
    run(ranks, with(stopped));
    EXPECT_TRUE(same(model, stopped));
  }
}

TEST_F(Accumulation, BadNumbersAreRefused) {
  write_data(kDense, 37);
  const auto says = [&](const std::string& settings, const char* what) {
    try {
      run(2, config(kDense, "refused", 8, 1) + "\nTrain=[SGD=[" + settings + "]]");
      ADD_FAILURE() << settings;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  says("gradientAccumulationSteps=0", "gradientAccumulationSteps must be at least 1");
  says("gradientAccumulationSteps=1000000000", "is more than 2147483647 samples");
  says("gradientAccumulationSteps=5;epochSize=32", "epochSize 32 is smaller than an update of 5 minibatches of 8");
}

}  // namespace
}  // namespace tutti::actions::accumulation_runs_test

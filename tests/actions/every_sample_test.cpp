// SPDX-License-Identifier: Apache-2.0
// Every method of exchange x 1 to 4 ranks x epochs that do not divide well x kinds of data: all end, and each sample is
// used exactly once an epoch. Every sample has a number of its own; what an epoch line says about them is their sum.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <regex>

#include "method_table.h"
#include "text_run.h"

namespace tutti::actions::every_sample_test {
namespace {

class EverySample : public TextRun {
 protected:
  // Trains; each rank's line of every epoch must speak of all samples once, and of criteria that are numbers.
  void expect_all_once(int ranks, const std::string& model, const std::string& settings, const Kind& kind, int samples,
                       int minibatch, int epochs) {
    SCOPED_TRACE(model);
    log::open({path(model + ".log"), false, 0, false});
    run(ranks, config(kind, model, minibatch, epochs) + settings);
    log::close();
    const std::string text = bytes(model + ".log");
    const std::regex line(R"(Finished Epoch\[[^\n]*\[Training\] ce = (\S+) \* (\d+); mark = (\S+) \* (\d+);)");
    int lines = 0;
    for (std::sregex_iterator i(text.begin(), text.end(), line), end; i != end; ++i, ++lines) {
      EXPECT_TRUE(std::isfinite(std::stod((*i)[1]))) << (*i)[0];
      EXPECT_EQ(std::stoi((*i)[2]), samples) << (*i)[0];
      EXPECT_EQ(std::stoi((*i)[4]), samples) << (*i)[0];
      EXPECT_EQ(std::llround(std::stod((*i)[3]) * samples), marks_) << (*i)[0];
    }
    EXPECT_EQ(lines, ranks * epochs) << text;
  }

  // Fewer samples than ranks, an epoch of one minibatch, uneven ends, a minibatch larger than the data.
  void every_method(const Kind& kind) {
    struct Size {
      int samples, minibatch;
    };
    for (const Size size : {Size{2, 40}, Size{40, 40}, Size{7, 2}, Size{70, 30}, Size{70, 1000}}) {
      write_data(kind, size.samples);
      for (const Method& m : methods())
        for (const int ranks : {1, 2, 3, 4})
          expect_all_once(ranks, fmt::format("{}-{}-{}-{}", m.name, ranks, size.samples, size.minibatch),
                          in_parallel_block(m), kind, size.samples, size.minibatch, 1);
    }
  }
};

// Runs that go on with another number of ranks. Epochs of 35 samples in file order, minibatches of 10. Either all that
// came after the first epoch is taken away, or the network comes to no number in the third minibatch of epoch 2, and
// then the file is mended.
class OtherRanks : public EverySample {
 protected:
  static constexpr int kSamples = 70, kEpoch = 35, kMinibatch = 10;

  void change(const Method& m, int before, int after, bool within) {
    const std::string model = fmt::format("{}-{}-{}", m.name, before, after);
    SCOPED_TRACE(model);
    const std::string settings =
        in_parallel_block(m) +
        fmt::format("\nTrain=[traceLevel=1;SGD=[epochSize={};numMBsToShowResult=1{}];reader=[randomize=false]]", kEpoch,
                    within ? ";checkpointEverySamples=10" : ";keepCheckPointFiles=true");
    if (within) {
      write_data(kDense, kSamples, 60);
      EXPECT_THROW(run(before, config(kDense, model, kMinibatch, 3) + settings), Error);
      EXPECT_TRUE(fs::exists(path(model + ".2.mid")));
      write_data(kDense, kSamples);
    } else {
      write_data(kDense, kSamples);
      run(before, config(kDense, model, kMinibatch, 3) + settings);
      for (const char* end : {"", ".ckp", ".2", ".2.ckp"}) fs::remove(path(model + end));
    }
    log::open({path(model + ".log"), false, 0, false});
    run(after, config(kDense, model, kMinibatch, 3) + settings);
    log::close();
    const std::string text = bytes(model + ".log");
    expect_epochs(after, text);
    const bool tells_late = m.name == "late";  // lines speak of the minibatch before
    if (m.repeats && !tells_late) expect_order(after, text, within);
    EXPECT_NE(text.find(fmt::format("The checkpoint was written on {} rank", before)), std::string::npos) << text;
    if (m.repeats) {
      EXPECT_EQ(text.find("lost with rank") != std::string::npos, before > after && loses(m, within)) << text;
    }
    EXPECT_EQ(text.find("the exchange starts without"), std::string::npos) << text;
  }

  long long marks(int begin, int end) const {
    return std::accumulate(mark_of_.begin() + begin, mark_of_.begin() + end, 0LL);
  }

  // Every rank tells of all samples of epochs 2 and 3, in which the file is read to its end and from its beginning.
  void expect_epochs(int ranks, const std::string& text) const {
    const std::regex line(R"(Finished Epoch\[ (\d) [^\n]*\[Training\] ce = (\S+) \* (\d+); mark = (\S+) \* (\d+);)");
    int lines = 0;
    for (std::sregex_iterator i(text.begin(), text.end(), line), end; i != end; ++i, ++lines) {
      const int begin = std::stoi((*i)[1]) == 2 ? kEpoch : 0;
      EXPECT_TRUE(std::isfinite(std::stod((*i)[2]))) << (*i)[0];
      EXPECT_EQ(std::stoi((*i)[3]), kEpoch) << (*i)[0];
      EXPECT_EQ(std::llround(std::stod((*i)[4]) * kEpoch), marks(begin, begin + kEpoch)) << (*i)[0];
    }
    EXPECT_EQ(lines, 2 * ranks) << text;
  }

  // The minibatches have the samples that they always have: each rank tells of all of them, or all together do.
  void expect_order(int ranks, const std::string& text, bool within) const {
    struct Told {
      int lines = 0, samples = 0;
      long long sum = 0;
    };
    std::map<std::pair<int, int>, Told> told;  // by epoch and minibatch
    const std::regex line(R"(Epoch\[ (\d) of 3\]-Minibatch\[ *(\d+)- *\d+[^\n]*; mark = (\S+) \* (\d+);)");
    for (std::sregex_iterator i(text.begin(), text.end(), line), end; i != end; ++i) {
      Told& t = told[{std::stoi((*i)[1]), std::stoi((*i)[2])}];
      const int samples = std::stoi((*i)[4]);
      ++t.lines, t.samples += samples;
      if (samples > 0) t.sum += std::llround(std::stod((*i)[3]) * samples);
    }
    // A rank that fails ends the others, perhaps while they write the newer of two checkpoints.
    EXPECT_TRUE(within ? told.size() == 6 || told.size() == 7 : told.size() == 8) << text;
    for (const auto& [at, t] : told) {
      const int epoch = at.first == 2 ? kEpoch : 0, begin = epoch + (at.second - 1) * kMinibatch;
      const int end = std::min(begin + kMinibatch, epoch + kEpoch);
      const int times = t.samples > end - begin ? ranks : 1;
      EXPECT_EQ(t.samples, times * (end - begin)) << at.first << ' ' << at.second << text;
      EXPECT_EQ(t.sum, times * marks(begin, end)) << at.first << ' ' << at.second << text;
    }
  }

  // Ranks that are in the middle of a block or have weights beside the center; whatever is not delivered is inherited.
  static bool loses(const Method& m, bool within) {
    if (m.name == "elastic") return true;
    const bool in_blocks = m.settings.find("BlockMomentumSGD") != std::string::npos ||
                           m.settings.find("ModelAveragingSGD=[") != std::string::npos;
    return within && in_blocks;
  }

  void every_change(bool within) {
    for (const Method& m : methods())
      for (int before = 1; before <= 4; ++before)
        for (int after = 1; after <= 4; ++after)
          if (before != after) change(m, before, after, within);
  }
};

TEST_F(OtherRanks, GoOnAfterAnEpoch) { every_change(false); }
TEST_F(OtherRanks, GoOnWithinAnEpoch) { every_change(true); }

TEST_F(EverySample, DenseOnce) { every_method(kDense); }
TEST_F(EverySample, SparseOnce) { every_method(kSparse); }
TEST_F(EverySample, OfSequencesOnce) { every_method(kSequences); }

TEST_F(EverySample, OnceInAnyNumberOfBits) {
  write_data(kDense, 70);
  for (const Method& m : methods())
    for (const char* bits : {"32", "16", "bf16", "8", "4", "2", "1"}) {
      if (m.bits.empty()) continue;
      for (const int ranks : {1, 3})
        expect_all_once(ranks, fmt::format("{}-{}-{}", m.name, ranks, bits), in_parallel_block(m, bits), kDense, 70, 30,
                        2);
    }
}

// Alone before a place within the epoch, together behind it.
TEST_F(EverySample, OnceWhereRanksStartLate) {
  write_data(kDense, 70);
  for (const Method& m : methods())
    for (const int start : {1, 30, 69, 70})
      expect_all_once(3, fmt::format("{}-{}", m.name, start),
                      in_parallel_block(m.settings + fmt::format(";parallelizationStartSample={}", start)), kDense, 70,
                      20, 2);
}

}  // namespace
}  // namespace tutti::actions::every_sample_test

// SPDX-License-Identifier: Apache-2.0
// Every method of exchange x 1 to 4 ranks x epochs that do not divide well x kinds of data: all end, and each sample is
// used exactly once an epoch. Every sample has a number of its own; what an epoch line says about them is their sum.
#include <cmath>
#include <regex>

#include "method_table.h"
#include "text_run.h"

namespace tutti::actions {
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
}  // namespace tutti::actions

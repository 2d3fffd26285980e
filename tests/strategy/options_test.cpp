// SPDX-License-Identifier: Apache-2.0
// The ParallelTrain block: what is read, what is refused and with which advice.
#include "strategy/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "strategy/make_strategy.h"

namespace tutti {
namespace {

using testing::HasSubstr;

struct Result {
  ParallelTrainOptions options;
  std::string errors;
  std::vector<std::string> notices;
};

Result read(const std::string& text, bool double_precision = false) {
  Result r;
  r.options.data_parallel.double_precision = double_precision;
  Problems problems;
  config::Notices notices;
  config::read_fields(
      config::record_from_text(text), "ParallelTrain", [&](config::Fields& f) { r.options.describe(f); }, problems,
      notices);
  r.notices = notices.lines;
  try {
    problems.throw_if_any();
  } catch (const ConfigError& e) {
    r.errors = e.what();
  }
  return r;
}

TEST(ParallelTrainOptions, NothingIsNone) {
  const Result r = read("");
  EXPECT_EQ(r.errors, "");
  EXPECT_EQ(r.options.method, ParallelMethod::none);
  EXPECT_FALSE(r.options.parallel_at(0));
  EXPECT_FALSE(r.options.distributed_reading_given);
  EXPECT_EQ(read("DataParallelSGD=[gradientBits=1]").options.method, ParallelMethod::none);
}

TEST(ParallelTrainOptions, EverythingIsRead) {
  const Result r = read(
      "parallelizationMethod=dataparallelsgd\nparallelizationStartEpoch=2\ndistributedMBReading=true\nsyncPerfStats=5\n"
      "DataParallelSGD=[\ngradientBits=1*2:4:32\nuseZeroThresholdFor1BitQuantization=false\n"
      "useBufferedAsyncGradientAggregation=true\nresetResidualsEachEpoch=true\n]\n");
  EXPECT_EQ(r.errors, "");
  EXPECT_EQ(r.options.method, ParallelMethod::data_parallel);
  EXPECT_FALSE(r.options.parallel_at(0));
  EXPECT_TRUE(r.options.parallel_at(1));
  EXPECT_TRUE(r.options.distributed_reading_given);
  EXPECT_EQ(r.options.sync_perf_stats, 5);
  EXPECT_EQ(r.options.data_parallel.gradient_bits.values, (std::vector<std::int64_t>{1, 1, 4, 32}));
  EXPECT_FALSE(r.options.data_parallel.zero_threshold);
  EXPECT_TRUE(r.options.data_parallel.buffered_async);
  EXPECT_TRUE(r.options.data_parallel.reset_residuals);
}

TEST(ParallelTrainOptions, BitsThatNoCodecHasAreErrors) {
  EXPECT_THAT(read("DataParallelSGD=[\ngradientBits=1:3\n]").errors, HasSubstr("gradients cannot travel in 3 bits"));
  EXPECT_THAT(read("DataParallelSGD=[\ngradientBits=0\n]").errors, HasSubstr("write 1, 2, 4, 8, 16 or 32"));
  EXPECT_THAT(read("DataParallelSGD=[\ngradientBits=64\n]").errors, HasSubstr("precision = \"double\""));
  EXPECT_EQ(read("DataParallelSGD=[\ngradientBits=64\n]", true).errors, "");
}

TEST(ParallelTrainOptions, MethodsThatDoNotRunAreErrorsTheirBlocksAreNot) {
  EXPECT_THAT(read("parallelizationMethod=BlockMomentumSGD").errors, HasSubstr("does not run BlockMomentumSGD"));
  const Result r = read("parallelizationMethod=DataParallelSGD\nBlockMomentumSGD=[\nblockSize=1000\n]");
  EXPECT_EQ(r.errors, "");
  ASSERT_EQ(r.notices.size(), 1u);
  EXPECT_THAT(r.notices[0], HasSubstr("BlockMomentumSGD"));
}

TEST(ParallelTrainOptions, WrongNumbersAndKeysAreErrors) {
  EXPECT_THAT(read("parallelizationStartEpoch=0").errors, HasSubstr("epochs count from 1"));
  EXPECT_THAT(read("syncPerfStats=-1").errors, HasSubstr("negative"));
  EXPECT_THAT(read("DataParallelSGD=[\ngradientBit=1\n]").errors, HasSubstr("gradientBits"));
  EXPECT_THAT(read("parallelizationMethod=allreduce").errors, HasSubstr("DataParallelSGD"));
}

TEST(ParallelTrainOptions, EveryMethodHasItsLine) {
  for (const MethodEntry& entry : methods()) EXPECT_EQ(&method_entry(entry.method), &entry);
  EXPECT_EQ(runnable_methods(), "none, DataParallelSGD");
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// The top-level table and its rules.
#include "config/top_level.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"

namespace tutti::config::top_level_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Result {
  TopLevel options;
  std::string errors;
  std::vector<std::string> notices;
};

Result read_from(const std::string& text, int ranks = 1) {
  Result r;
  Problems problems;
  Notices notices;
  r.options = read_top_level(record_from_text(text, "a.cntk"), ranks, problems, notices);
  try {
    problems.throw_if_any();
  } catch (const ConfigError& e) {
    r.errors = e.what();
  }
  r.notices = notices.lines;
  return r;
}

TEST(TopLevel, Defaults) {
  const Result r = read_from("");
  EXPECT_EQ(r.errors, "");
  EXPECT_THAT(r.notices, IsEmpty());
  EXPECT_THAT(r.options.command, ElementsAre("train"));
  EXPECT_EQ(r.options.device(), TopLevel::Device::automatic);
  EXPECT_TRUE(r.options.make_mode);
  EXPECT_FALSE(r.options.parallel_train);
  EXPECT_TRUE(read_from("", 4).options.parallel_train);
  EXPECT_FALSE(read_from("parallelTrain=false", 4).options.parallel_train);
}

TEST(TopLevel, LimitsOfTheWatchdog) {
  EXPECT_EQ(read_from("").options.stall_timeout, 300);
  const Result r = read_from("stallTimeout=20\nstallWarning=4.5");
  EXPECT_EQ(r.errors, "");
  EXPECT_EQ(r.options.stall_timeout, 20);
  EXPECT_EQ(r.options.stall_warning, 4.5);
  EXPECT_THAT(read_from("stallTimeout=1").errors, HasSubstr("a stallTimeout below 2 ends healthy runs"));
  EXPECT_THAT(read_from("stallWarning=0").errors, HasSubstr("stallWarning must be a number of seconds above 0"));
}

TEST(TopLevel, ReadsItsKeysAndLeavesVariablesAlone) {
  const Result r = read_from(
      "command=Train:Test\nprecision=float\ndeviceId=-1\nstderr=log/"
      "x\ntimestamping=true\nnumCPUThreads=2\nRunDir=.\nTrain=[SGD=[maxEpochs=1]]\nmodelDir=x");
  EXPECT_EQ(r.errors, "");
  EXPECT_THAT(r.notices, IsEmpty());
  EXPECT_THAT(r.options.command, ElementsAre("Train", "Test"));
  EXPECT_EQ(r.options.device(), TopLevel::Device::cpu);
  EXPECT_EQ(r.options.cpu_threads, 2);
}

TEST(TopLevel, Devices) {
  EXPECT_EQ(read_from("deviceId=CPU").options.device(), TopLevel::Device::cpu);
  EXPECT_EQ(read_from("deviceId=Auto").options.device(), TopLevel::Device::automatic);
  EXPECT_EQ(read_from("deviceId=3").options.device(), TopLevel::Device::gpu);
  EXPECT_EQ(read_from("deviceId=3").options.gpu_index(), 3);
  for (const char* bad : {"gpu", "-2", "1x", "\"\""})
    EXPECT_THAT(read_from(std::string("deviceId=") + bad).errors, HasSubstr("a.cntk:1:10: error: 'deviceId' cannot be"))
        << bad;
}

TEST(TopLevel, PrecisionAndItsOldName) {
  EXPECT_THAT(read_from("precision=double").notices, ElementsAre(HasSubstr("computes in float32")));
  EXPECT_THAT(read_from("type=double").errors, HasSubstr("'type' is the old name of 'precision'"));
  EXPECT_THAT(read_from("precision=half").errors, HasSubstr("choices: float, double"));
}

TEST(TopLevel, NamesWhatHasNoEffectAndNearMisses) {
  EXPECT_THAT(read_from("lockGPU=true\nprofilerEnabled=1").notices.size(), 2u);
  EXPECT_THAT(read_from("tracelevl=1").notices, ElementsAre(HasSubstr("did you mean 'traceLevel'?")));
}

TEST(TopLevel, TruncatedMustBeSaidTwiceOrOutside) {
  const auto found = [](const std::string& text) {
    Problems problems;
    Notices notices;
    check_truncated(record_from_text(text).block("T"), problems, notices);
    return fmt::format("{} errors, {} notices", problems.count(), notices.lines.size());
  };
  EXPECT_EQ(found("T=[SGD=[a=1];reader=[truncated=true]]"), "1 errors, 0 notices");
  EXPECT_EQ(found("T=[SGD=[truncated=false];reader=[truncated=true]]"), "1 errors, 0 notices");
  EXPECT_EQ(found("T=[SGD=[truncated=true];reader=[truncated=true]]"), "0 errors, 0 notices");
  EXPECT_EQ(found("truncated=true\nT=[SGD=[a=1];reader=[truncated=true]]"), "0 errors, 0 notices");
  EXPECT_EQ(found("T=[SGD=[a=1];reader=[truncated=false]]"), "0 errors, 0 notices");
  EXPECT_EQ(found("T=[reader=[truncated=true]]"), "0 errors, 0 notices");
  EXPECT_EQ(found("T=[SGD=[truncated=true];reader=[a=1]]"), "0 errors, 1 notices");
}

TEST(TopLevel, LogFilesPerRank) {
  TopLevel t;
  EXPECT_EQ(log_path(t, 3), "");
  t.log_file = "log/x";
  EXPECT_EQ(log_path(t, 0), "log/x");
  EXPECT_EQ(log_path(t, 2), "log/x.rank2");
  t.timestamping = true;
  t.command = {"Train", "Test"};
  EXPECT_EQ(log_path(t, 0), "log/x_Train_Test.log");
  t.parallel_train = true;
  EXPECT_EQ(log_path(t, 0), "log/x_Train_Test.logrank0");
}

TEST(TopLevel, Threads) {
  EXPECT_EQ(threads_to_use(0, 8), 0);
  EXPECT_EQ(threads_to_use(3, 8), 3);
  EXPECT_EQ(threads_to_use(99, 8), 8);
  EXPECT_EQ(threads_to_use(-3, 8), 5);
  EXPECT_EQ(threads_to_use(-9, 8), 1);
  EXPECT_EQ(threads_to_use(std::numeric_limits<std::int64_t>::min(), 8), 1);
}

}  // namespace
}  // namespace tutti::config::top_level_test

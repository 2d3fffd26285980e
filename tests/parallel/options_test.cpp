// SPDX-License-Identifier: Apache-2.0
// The ParallelTrain block: what is read, what is refused and with which advice.
#include "parallel/options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "config/load.h"
#include "parallel/options.h"

namespace tutti::options_test {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Result {
  ParallelTrainOptions options;
  std::string errors;
  std::vector<std::string> notices;
};

Result read(const std::string& text, bool double_precision = false) {
  Result r;
  r.options.double_precision = double_precision;
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
  EXPECT_TRUE(std::holds_alternative<NoExchange>(r.options.method));
  EXPECT_FALSE(r.options.exchanges());
  EXPECT_FALSE(r.options.distributed_reading_given);
  EXPECT_TRUE(std::holds_alternative<NoExchange>(read("DataParallelSGD=[gradientBits=1]").options.method));
}

TEST(ParallelTrainOptions, QuantizerChoosesLevelsWhereThereAreSome) {
  const auto gradients = [](const char* keys) {
    return read(fmt::format("parallelizationMethod=DataParallelSGD;DataParallelSGD=[{}]", keys));
  };
  EXPECT_EQ(std::get<DataParallelOptions>(gradients("gradientBits=2").options.method).quantizer, Quantizer::adaptive);
  EXPECT_EQ(std::get<DataParallelOptions>(gradients("gradientBits=1:2;quantizer=original").options.method).quantizer,
            Quantizer::original);
  EXPECT_EQ(std::get<DataParallelOptions>(gradients("exchangeBits=4;quantizer=original").options.method).quantizer,
            Quantizer::original);
  EXPECT_EQ(std::get<EasgdOptions>(read("parallelizationMethod=EASGD;EASGD=[exchangeBits=2]").options.method)
                .bits.codec()
                .quantizer,
            Quantizer::adaptive);
  EXPECT_EQ(std::get<EasgdOptions>(
                read("parallelizationMethod=EASGD;EASGD=[exchangeBits=2;quantizer=original]").options.method)
                .bits.codec()
                .quantizer,
            Quantizer::original);
  for (const char* keys : {"gradientBits=1;quantizer=original", "exchangeBits=16;quantizer=adaptive",
                           "quantizer=original", "gradientBits=32;quantizer=original"})
    EXPECT_THAT(gradients(keys).errors, HasSubstr("quantizer has no effect")) << keys;
  EXPECT_THAT(read("EASGD=[exchangeBits=1;quantizer=original]").errors, HasSubstr("exchange 2, 4 or 8 bits"));
  EXPECT_THAT(gradients("gradientBits=2;quantizer=cntk").errors, HasSubstr("adaptive"));
}

TEST(ParallelTrainOptions, LongSumsOfGradientsNeedMoreThanOneBit) {
  const auto servers = [](const char* keys) { return read(fmt::format("ASGD=[{}]", keys)).errors; };
  EXPECT_THAT(servers("push=gradients;syncPeriod=64;exchangeBits=1"),
              testing::AllOf(HasSubstr("their residuals arrive too late"), HasSubstr("exchangeBits = 2, or push = deltas")));
  for (const char* keys :
       {"push=gradients;syncPeriod=64;exchangeBits=2", "push=gradients;exchangeBits=1", "syncPeriod=64;exchangeBits=1"})
    EXPECT_EQ(servers(keys), "") << keys;
}

TEST(ParallelTrainOptions, EveryLevelHasItsTransport) {
  EXPECT_EQ(read("parallelizationMethod=EASGD").options.transport, Transport::automatic);
  EXPECT_EQ(read("parallelizationMethod=EASGD;transport=messages").options.transport, Transport::messages);
  const Result levels =
      read("parallelizationMethod=ASGD;groups=n:2;insideGroups=[parallelizationMethod=ASA;transport=sharedMemory]");
  EXPECT_EQ(levels.errors, "");
  EXPECT_EQ(levels.options.transport, Transport::automatic);
  EXPECT_EQ(levels.options.inside().transport, Transport::shared_memory);
  EXPECT_THAT(read("parallelizationMethod=ASA;transport=transport").errors, HasSubstr("sharedMemory"));
}

TEST(ParallelTrainOptions, NcclSums32Bits) {
  EXPECT_EQ(read("parallelizationMethod=ASA;transport=nccl").options.transport, Transport::nccl);
  for (const char* bits : {"32", "32:1", "1:32"})
    EXPECT_EQ(read(fmt::format("parallelizationMethod=DataParallelSGD;transport=nccl;DataParallelSGD=[gradientBits={}]",
                               bits))
                  .errors,
              "");
  for (const char* method : {"DataParallelSGD;DataParallelSGD=[gradientBits=1]", "ASA;ASA=[exchangeBits=16]",
                             "EASGD;EASGD=[exchangeBits=8]", "ModelAveragingSGD;ModelAveragingSGD=[exchangeBits=1]",
                             "BlockMomentumSGD;BlockMomentumSGD=[blockSize=1;exchangeBits=bf16]"})
    EXPECT_THAT(read(fmt::format("transport=nccl;parallelizationMethod={}", method)).errors,
                HasSubstr("NCCL sums in 32 bits"));
  for (const char* without : {"ASGD", "EASGD;EASGD=[policy=async]", "ASA;ASA=[allReduce=library]"})
    for (const char* transport : {"messages", "sharedMemory"})
      EXPECT_THAT(read(fmt::format("transport={};parallelizationMethod={}", transport, without)).errors,
                  HasSubstr("transport has no effect"));
  EXPECT_EQ(read("transport=auto;parallelizationMethod=ASGD").errors, "");
  EXPECT_EQ(read("transport=sharedMemory").errors, "") << "a method may be switched off from the command line";
}

TEST(ParallelTrainOptions, GradientsTakeTheBitsOfAnyExchange) {
  const Result brain = read("parallelizationMethod=DataParallelSGD;DataParallelSGD=[exchangeBits=bf16]");
  EXPECT_EQ(brain.errors, "");
  EXPECT_EQ(std::get<DataParallelOptions>(brain.options.method).gradient_bits.values, std::vector<std::int64_t>{16});
  EXPECT_EQ(std::get<DataParallelOptions>(brain.options.method).sixteen_bits, NumberFormat::brain);
  EXPECT_EQ(std::get<DataParallelOptions>(
                read("parallelizationMethod=DataParallelSGD;DataParallelSGD=[gradientBits=16]").options.method)
                .sixteen_bits,
            NumberFormat::levels);
  EXPECT_EQ(std::get<DataParallelOptions>(
                read("parallelizationMethod=DataParallelSGD;DataParallelSGD=[exchangeBits=1]").options.method)
                .gradient_bits.at(7),
            1);
  EXPECT_THAT(read("DataParallelSGD=[exchangeBits=1;gradientBits=1]").errors,
              HasSubstr("both gradientBits and exchangeBits are given"));
}

TEST(ParallelTrainOptions, BlocksOfOtherMethodsAreTold) {
  const Result r = read("parallelizationMethod=EASGD;EASGD=[period=2];ASA=[];modelaveragingsgd=[blockSize=9]");
  EXPECT_EQ(r.errors, "");
  EXPECT_THAT(r.options.unused_blocks, testing::UnorderedElementsAre("ASA", "ModelAveragingSGD"));
  EXPECT_THAT(read("DataParallelSGD=[gradientBits=1]").options.unused_blocks, testing::ElementsAre("DataParallelSGD"));
  EXPECT_TRUE(read("parallelizationMethod=ASA").options.unused_blocks.empty());
}

TEST(ParallelTrainOptions, EverythingIsRead) {
  const Result r = read(
      "parallelizationMethod=dataparallelsgd\nparallelizationStartEpoch=2\ndistributedMBReading=true\nsyncPerfStats=5\n"
      "DataParallelSGD=[\ngradientBits=1*2:4:32\nuseZeroThresholdFor1BitQuantization=false\n"
      "useBufferedAsyncGradientAggregation=true\nresetResidualsEachEpoch=true\n]\n");
  EXPECT_EQ(r.errors, "");
  EXPECT_TRUE(std::holds_alternative<DataParallelOptions>(r.options.method));
  EXPECT_EQ(r.options.start_epoch, 2);
  EXPECT_TRUE(r.options.distributed_reading_given);
  EXPECT_EQ(r.options.sync_perf_stats, 5);
  EXPECT_EQ(std::get<DataParallelOptions>(r.options.method).gradient_bits.values,
            (std::vector<std::int64_t>{1, 1, 4, 32}));
  EXPECT_FALSE(std::get<DataParallelOptions>(r.options.method).zero_threshold);
  EXPECT_TRUE(std::get<DataParallelOptions>(r.options.method).buffered_async);
  EXPECT_TRUE(std::get<DataParallelOptions>(r.options.method).reset_residuals);
}

TEST(ParallelTrainOptions, BitsThatNoCodecHasAreErrors) {
  EXPECT_THAT(read("DataParallelSGD=[\ngradientBits=1:3\n]").errors, HasSubstr("gradients cannot travel in 3 bits"));
  EXPECT_THAT(read("DataParallelSGD=[\ngradientBits=0\n]").errors, HasSubstr("write 1, 2, 4, 8, 16 or 32"));
  EXPECT_THAT(read("DataParallelSGD=[\ngradientBits=64\n]").errors, HasSubstr("precision = \"double\""));
  EXPECT_EQ(read("DataParallelSGD=[\ngradientBits=64\n]", true).errors, "");
}

Result servers(const std::string& settings) {
  return read("parallelizationMethod=asgd\nDataParallelASGD=[\n" + settings + "\n]");
}

TEST(ParallelTrainOptions, ParameterServers) {
  const Result plain = servers("");
  EXPECT_EQ(plain.errors, "");
  EXPECT_TRUE(std::holds_alternative<ServerOptions>(plain.options.method));
  EXPECT_EQ(std::get<ServerOptions>(plain.options.method).sync_period.at(0), 256);
  EXPECT_FALSE(std::get<ServerOptions>(plain.options.method).young);
  // Names of the documents, of the block too.
  const Result old = read(
      "parallelizationMethod=dataParallelASGD\nASGD=[\nsyncPeriodPerWorkers=100:200\nusePipeline=true\n"
      "AdjustLearningRateAtBeginning=[\nadjustCoefficient=0.2\nadjustNBMiniBatch=1024\n]\n]");
  EXPECT_EQ(old.errors, "");
  EXPECT_EQ(std::get<ServerOptions>(old.options.method).sync_period.at(7), 200);
  EXPECT_TRUE(std::get<ServerOptions>(old.options.method).pipeline);
  ASSERT_TRUE(std::get<ServerOptions>(old.options.method).young);
  EXPECT_EQ(std::get<ServerOptions>(old.options.method).young->per_minibatches, 1024);
  EXPECT_TRUE(std::get<ServerOptions>(servers("push=gradients").options.method).every_minibatch);
  EXPECT_FALSE(
      std::get<ServerOptions>(servers("push=gradients\nsyncPeriodPerWorker=64").options.method).every_minibatch);
  EXPECT_EQ(std::get<ServerOptions>(servers("SimModelAverage=true\nusePipeline=true").options.method).policy,
            ServerOptions::Policy::sync);
  for (const auto& [settings, words] : std::vector<std::pair<std::string, std::string>>{
           {"syncPeriod=0", "at least 1 sample"},
           {"syncPeriod=8:1000000000001", "at most 1000000000000 samples"},
           {"maxStaleness=2\npolicy=sync", "policy = async"},
           {"maxStaleness=-3", "is a number of pushes"},
           {"policy=sync\nusePipeline=true", "usePipeline needs"},
           {"maxStaleness=4\nusePipeline=true", "keep one of the two"},
           {"backupWorkers=1", "push = gradients"},
           {"softSync=2", "policy = mixed"},
           {"servers=-1", "negative"},
           {"fetchPeriod=64\npolicy=sync", "with every push"},
           {"fetchPeriod=64\nmaxStaleness=4", "remove one of the two"},
           {"SimModelAverage=true\npush=gradients", "averages weights"},
           {"SimModelAverage=true\npolicy=async", "waits for all workers"},
           {"AdjustLearningRateAtBeginning=[\nadjustCoefficient=0\n]", "(0, 1]"},
           {"synPeriod=3", "syncPeriod"}})
    EXPECT_THAT(servers(settings).errors, HasSubstr(words)) << settings;
}

TEST(ParallelTrainOptions, BackupWorkersThatCannotBeAreToldOfOnce) {
  for (const char* settings : {"backupWorkers=1", "backupWorkers=1\npolicy=sync", "backupWorkers=1\nsyncPeriod=64"}) {
    const std::string errors = servers(settings).errors;
    EXPECT_THAT(errors, HasSubstr("push = gradients")) << settings;
    EXPECT_THAT(errors, Not(HasSubstr("leave syncPeriod out"))) << settings;
  }
  EXPECT_THAT(servers("backupWorkers=1\npolicy=sync\npush=gradients\nsyncPeriod=64").errors,
              HasSubstr("leave syncPeriod out"));
}

TEST(ParallelTrainOptions, PushesComeToCountFully) {
  YoungRate rate;
  rate.coefficient = 0.25, rate.per_minibatches = 4;
  for (const auto& [pushes, factor] :
       std::vector<std::pair<int, double>>{{1, 0.25}, {3, 0.25}, {4, 0.5}, {11, 0.75}, {12, 1}, {99, 1}})
    EXPECT_EQ(rate.factor(pushes), factor) << pushes;
  rate.shape = YoungRate::Shape::linearly;
  EXPECT_EQ(rate.factor(2), 0.625);
  EXPECT_EQ(rate.factor(5), 1);
  rate.shape = YoungRate::Shape::none;
  EXPECT_EQ(rate.factor(1), 1);
}

Result averaging(const std::string& settings) {
  return read("parallelizationMethod=modelaveragingsgd\nModelAveragingSGD=[\n" + settings + "\n]");
}

Result momentum(const std::string& settings) {
  return read("parallelizationMethod=BlockMomentumSGD\nBlockMomentumSGD=[\n" + settings + "\n]");
}

TEST(ParallelTrainOptions, BlockSizesHaveTwoUnitsAndOldNames) {
  EXPECT_EQ(std::get<ModelAveragingOptions>(averaging("").options.method).block.all(4), 160000);
  EXPECT_EQ(std::get<ModelAveragingOptions>(averaging("blockSizePerWorker=250").options.method).block.all(4), 1000);
  EXPECT_EQ(std::get<ModelAveragingOptions>(averaging("blockSize=1000").options.method).block.all(4), 1000);
  EXPECT_EQ(std::get<ModelAveragingOptions>(averaging("blockSize=1000").options.method).block.each(3), 333);
  EXPECT_THAT(averaging("blockSize=1000\nblockSizePerWorker=250").errors, HasSubstr("both blockSize and"));
  EXPECT_THAT(averaging("blockSize=0").errors, HasSubstr("at least 1"));
  for (const char* key : {"blockSize", "blockSizePerWorker"})
    EXPECT_THAT(averaging(std::string(key) + "=9223372036854775807").errors, HasSubstr("at most 1000000000000 samples"));
  for (const char* old : {"syncPeriod", "syncFrequencyInFrames"}) {
    const Result r = averaging(std::string(old) + "=300");
    EXPECT_EQ(r.errors, "");
    EXPECT_EQ(std::get<ModelAveragingOptions>(r.options.method).block.per_worker, 300);
    ASSERT_EQ(r.notices.size(), 1u);
    EXPECT_THAT(r.notices[0], HasSubstr("blockSizePerWorker"));
  }
  const Result r = momentum("syncPeriod=300");
  EXPECT_EQ(std::get<BlockMomentumOptions>(r.options.method).block.per_worker, 300);
  EXPECT_EQ(r.notices.size(), 1u);
  EXPECT_EQ(std::get<BlockMomentumOptions>(momentum("").options.method).block.per_worker, 120000);
}

TEST(ParallelTrainOptions, BlockMomentumComesFromRanksTimeConstantOrAsItIs) {
  const auto defaults = std::get<BlockMomentumOptions>(momentum("blockSizePerWorker=1000").options.method);
  EXPECT_EQ(defaults.momentum(1), 0);
  EXPECT_EQ(defaults.momentum(4), 0.75);
  EXPECT_NEAR(defaults.time_constant_per_worker(2), 1442.695, 1e-3);
  EXPECT_TRUE(defaults.reset_sgd_momentum);
  EXPECT_TRUE(defaults.nesterov);
  EXPECT_EQ(defaults.learning_rate, 1);
  const auto constant =
      std::get<BlockMomentumOptions>(momentum("blockSize=4000\nblockMomentumAsTimeConstant=8000").options.method);
  EXPECT_DOUBLE_EQ(constant.momentum(4), std::exp(-0.5));
  EXPECT_DOUBLE_EQ(constant.time_constant_per_worker(4), 2000);
  const auto few =
      std::get<BlockMomentumOptions>(momentum("blockSize=2\nblockMomentumAsTimeConstant=50").options.method);
  EXPECT_DOUBLE_EQ(few.momentum(3), std::exp(-2.0 / 50)) << "fewer samples than ranks";
  const auto given = std::get<BlockMomentumOptions>(momentum("blockSize=2\nblockMomentumPerSync=0.5").options.method);
  EXPECT_DOUBLE_EQ(given.time_constant_per_worker(4), 0.5 / std::log(2.0));
  EXPECT_EQ(std::get<BlockMomentumOptions>(momentum("blockMomentumAsTimeConstant=0").options.method).momentum(4), 0);
  EXPECT_EQ(std::get<BlockMomentumOptions>(momentum("blockMomentumPerSync=0.25").options.method).momentum(4), 0.25);
  EXPECT_THAT(momentum("blockMomentumPerSync=1").errors, HasSubstr("[0, 1)"));
  EXPECT_EQ(std::get<BlockMomentumOptions>(momentum("blockMomentumPerSync=-1").options.method).momentum(4), 0.75);
  EXPECT_EQ(momentum("blockMomentumAsTimeConstant=-1").errors, "") << "the default";
  EXPECT_THAT(momentum("blockMomentumPerSync=0.5\nblockMomentumAsTimeConstant=9").errors, HasSubstr("keep one"));
  EXPECT_THAT(momentum("blockMomentumAsTimeConstant=-5").errors, HasSubstr("number of samples"));
  EXPECT_THAT(momentum("blockLearningRate=-1").errors, HasSubstr("must not be negative"));
  EXPECT_THAT(read("parallelizationMethod=BlockMomentumSGD").errors, HasSubstr("needs its block"));
}

TEST(ParallelTrainOptions, BitsOfAnyExchange) {
  const auto codec = [](const char* bits) {
    const Result r = averaging(std::string("exchangeBits=") + bits);
    EXPECT_EQ(r.errors, "");
    return make_codec(std::get<ModelAveragingOptions>(r.options.method).bits.codec())->name();
  };
  EXPECT_EQ(codec("32"), "32 bits");
  EXPECT_EQ(codec("16"), "float16");
  EXPECT_EQ(codec("bf16"), "bfloat16");
  EXPECT_EQ(codec("8"), "8 bits");
  EXPECT_EQ(codec("1"), "1 bit, zero threshold");
  EXPECT_THAT(averaging("exchangeBits=3").errors, HasSubstr("bf16"));
  EXPECT_EQ(std::get<BlockMomentumOptions>(momentum("exchangeBits=2").options.method).bits.codec().bits, 2);
}

TEST(ParallelTrainOptions, AKeyOfSeveralBlocksNamesThemAll) {
  EXPECT_THAT(read("parallelizationMethod=EASGD\nexchangeBits=1").errors,
              HasSubstr("it belongs in one of the blocks DataParallelSGD, ModelAveragingSGD, BlockMomentumSGD, ASA, "
                        "EASGD, DataParallelASGD: DataParallelSGD = [ exchangeBits = ... ]"));
}

TEST(ParallelTrainOptions, AsaAndEasgd) {
  const Result a = read("parallelizationMethod=asa\nASA=[\nexchange=weights\nexchangeBits=bf16\n]");
  EXPECT_EQ(a.errors, "");
  EXPECT_EQ(std::get<AsaOptions>(a.options.method).what, AsaOptions::What::weights);
  EXPECT_THAT(read("ASA=[\nallReduce=library\nexchangeBits=16\n]").errors, HasSubstr("32 bits only"));
  const Result e = read("parallelizationMethod=EASGD\nEASGD=[\nmovingRate=0.25\nperiod=4\n]");
  EXPECT_EQ(e.errors, "");
  EXPECT_EQ(std::get<EasgdOptions>(e.options.method).rate(4), 0.25);
  EXPECT_EQ(std::get<EasgdOptions>(e.options.method).period, 4);
  EXPECT_DOUBLE_EQ(EasgdOptions{}.rate(3), 0.3);
  EXPECT_EQ(read("EASGD=[ movingRate=-1 ]").errors, "") << "the default, as help and settings show it";
  EXPECT_THAT(read("EASGD=[\nmovingRate=2\n]").errors, HasSubstr("[0, 1]"));
  EXPECT_THAT(read("EASGD=[\nperiod=0\n]").errors, HasSubstr("at least 1"));
  EXPECT_EQ(read("parallelizationStartSample=700").options.start_sample, 700);
  EXPECT_THAT(read("parallelizationStartSample=-7").errors, HasSubstr("negative"));
}

TEST(ParallelTrainOptions, OuterOptimizersTakeTheirOwnKeysOnly) {
  const auto o = std::get<BlockMomentumOptions>(
                     momentum("outerOptimizer=adam\nouterLearningRate=0.1\nouterBeta1=0.8").options.method)
                     .outer;
  EXPECT_EQ(o.kind, OuterOptimizer::adam);
  EXPECT_EQ(o.rate, 0.1);
  EXPECT_EQ(o.beta1, 0.8);
  EXPECT_THAT(momentum("outerOptimizer=adam\nouterMomentum=0.9").errors, HasSubstr("needs outerOptimizer = nesterov"));
  EXPECT_THAT(momentum("outerOptimizer=sgd\nblockLearningRate=1").errors, HasSubstr("outerOptimizer = blockMomentum"));
  EXPECT_THAT(momentum("outerLearningRate=1").errors, HasSubstr("needs outerOptimizer"));
  EXPECT_THAT(momentum("outerOptimizer=sgd\nouterLearningRate=0").errors, HasSubstr("positive"));
  EXPECT_THAT(momentum("outerOptimizer=lion").errors, HasSubstr("nesterov"));
}

TEST(ParallelTrainOptions, WrongNumbersAndKeysAreErrors) {
  EXPECT_THAT(read("parallelizationStartEpoch=0").errors, HasSubstr("epochs count from 1"));
  EXPECT_THAT(read("syncPerfStats=-1").errors, HasSubstr("negative"));
  EXPECT_THAT(read("DataParallelSGD=[\ngradientBit=1\n]").errors, HasSubstr("gradientBits"));
  EXPECT_THAT(read("parallelizationMethod=allreduce").errors, HasSubstr("DataParallelSGD"));
}

TEST(ParallelTrainOptions, EveryMethodHasItsRow) {
  std::string names;
  std::size_t row = 0;
  for_each_method([&]<class Options>() {
    EXPECT_EQ(default_method(row).index(), row);
    EXPECT_STREQ(name_of(default_method(row++)), Options::name);
    EXPECT_GT(std::string(Options::help).size(), 10u) << Options::name;
    names += (names.empty() ? "" : ", ") + std::string(Options::name);
  });
  EXPECT_EQ(names, "none, DataParallelSGD, ModelAveragingSGD, BlockMomentumSGD, ASA, EASGD, DataParallelASGD");
}

TEST(ParallelTrainOptions, EasgdThatWaitsForNobody) {
  const std::string method = "parallelizationMethod=EASGD\n";
  const Result r = read(method + "EASGD=[policy=async;servers=2;division=static;exchangeBits=1]");
  EXPECT_EQ(r.errors, "");
  EXPECT_EQ(std::get<EasgdOptions>(r.options.method).policy, EasgdOptions::Policy::async);
  EXPECT_EQ(std::get<EasgdOptions>(r.options.method).servers, 2);
  EXPECT_EQ(std::get<EasgdOptions>(r.options.method).division, EasgdOptions::Division::shares);
  EXPECT_THAT(read(method + "EASGD=[servers=1]").errors, HasSubstr("servers needs policy = async"));
  EXPECT_THAT(read(method + "EASGD=[division=static]").errors, HasSubstr("division needs policy = async"));
  EXPECT_THAT(read(method + "EASGD=[policy=async;servers=-1]").errors, HasSubstr("cannot be negative"));
}

TEST(ParallelTrainOptions, FaultHook) {
  const Result r = read("faultHook=[rank=2;sleep=0.5;every=3;firstStep=4;steps=5]");
  EXPECT_EQ(r.errors, "");
  ASSERT_TRUE(r.options.fault_hook);
  EXPECT_EQ(r.options.fault_hook->text(), "rank 2 sleeps 0.5 s in one step of 3, from step 5 on, 5 times");
  EXPECT_THAT(read("faultHook=[sleep=-1]").errors, HasSubstr("0 or more"));
  EXPECT_EQ(read("faultHook=[rank=-1;sleep=1]").errors, "");
  EXPECT_THAT(read("faultHook=[rank=-2]").errors, HasSubstr("ranks count from 0"));
  EXPECT_THAT(read("faultHook=[every=0]").errors, HasSubstr("at least 1 step"));
  EXPECT_FALSE(read("").options.fault_hook);
}

}  // namespace
}  // namespace tutti::options_test

// SPDX-License-Identifier: Apache-2.0
// One describe(), four uses: reading, unknown keys, help and dump.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "config/table.h"
#include "tutti/config.h"

namespace tutti::config::fields_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

enum class Method { none, data_parallel, averaging };

struct Exchange {
  std::int64_t bits = 32;
  bool zero_threshold = true;
  void describe(Fields& f) {
    f("gradientBits", bits, "bits per value");
    f("useZeroThreshold", zero_threshold, "the sign decides");
    if (bits < 1) f.problem("gradientBits", "gradientBits must be positive", "write 1 or more");
  }
  bool operator==(const Exchange&) const = default;
};

struct Parallel {
  Method method = Method::none;
  std::int64_t start = 1;
  Exchange exchange;
  void describe(Fields& f) {
    f.choice(
        "parallelizationMethod", method,
        {{"none", Method::none}, {"DataParallelSGD", Method::data_parallel}, {"ModelAveragingSGD", Method::averaging}},
        "what is exchanged");
    f("parallelizationStartEpoch", start, "first epoch");
    f.block("DataParallelSGD", exchange, "exchange of gradients");
  }
  bool operator==(const Parallel&) const = default;
};

struct Stream {
  std::int64_t dim = 0;
  std::string alias;
  void describe(Fields& f) {
    f("dim", dim, "elements");
    f.required("dim");
    f("alias", alias, "name in the file");
  }
  bool operator==(const Stream&) const = default;
};

struct Options {
  std::int64_t max_epochs = 0;
  Schedule<std::int64_t> minibatch{256};
  Schedule<double> rates;
  double clip = std::numeric_limits<double>::infinity();
  bool nesterov = false;
  std::string model = "m";
  std::vector<std::string> nodes;
  std::optional<Parallel> parallel;
  std::vector<std::pair<std::string, Stream>> input;
  bool rates_given = false;
  void describe(Fields& f) {
    f("maxEpochs", max_epochs, "epochs in all");
    f.required("maxEpochs");
    f("minibatchSize", minibatch, "samples per step");
    f("learningRatesPerMB", rates, "rates");
    f("clip", clip, "threshold");
    f("useNAG", nesterov, "look ahead");
    f("modelPath", model, "where the model goes");
    f("nodes", nodes, "names");
    f.block("ParallelTrain", parallel, "on many ranks");
    f.blocks("input", input, "streams");
    f.alias("batch", "minibatchSize", "the old name counts all ranks");
    f.alias("oldMax", "maxEpochs");
    f.no_effect("unroll", "loops are planned ahead");
    rates_given = f.given("learningRatesPerMB");
    if (max_epochs > 100) f.problem("maxEpochs", "too many epochs", "write 100 or less");
  }
};

struct Result {
  Options options;
  std::string errors;
  std::vector<std::string> notices;
};

Result read_from(const std::string& text, const std::string& block = "SGD", const std::vector<std::string>& also = {}) {
  Result r;
  Problems problems;
  Notices notices;
  r.options = read<Options>(record_from_text(text, "a.cntk").block(block), "SGD", problems, notices, also);
  try {
    problems.throw_if_any();
  } catch (const ConfigError& e) {
    r.errors = e.what();
  }
  r.notices = notices.lines;
  return r;
}

TEST(Fields, ReadEveryType) {
  const Result r = read_from(
      "SGD=[maxEpochs=3;minibatchSize=16*2:32;learningRatesPerMB=0.5:0.2*20:0.1;clip=2.5;useNAG=T;modelPath=\"a "
      "b\";nodes=x:y\n"
      "ParallelTrain=[parallelizationMethod=dataparallelsgd;DataParallelSGD=[gradientBits=1;useZeroThreshold=false]]\n"
      "input=[features=[dim=2;alias=F];labels=[dim=3]]]");
  ASSERT_EQ(r.errors, "");
  const Options& o = r.options;
  EXPECT_EQ(o.max_epochs, 3);
  EXPECT_THAT(o.minibatch.values, ElementsAre(16, 16, 32));
  EXPECT_EQ(o.rates.size(), 22u);
  EXPECT_EQ(o.rates.at(0), 0.5);
  EXPECT_EQ(o.rates.at(20), 0.2);
  EXPECT_EQ(o.rates.at(1000), 0.1);
  EXPECT_EQ(o.clip, 2.5);
  EXPECT_TRUE(o.nesterov);
  EXPECT_TRUE(o.rates_given);
  EXPECT_EQ(o.model, "a b");
  EXPECT_THAT(o.nodes, ElementsAre("x", "y"));
  ASSERT_TRUE(o.parallel);
  EXPECT_EQ(o.parallel->method, Method::data_parallel);
  EXPECT_EQ(o.parallel->exchange, (Exchange{1, false}));
  ASSERT_EQ(o.input.size(), 2u);
  EXPECT_EQ(o.input[0], (std::pair<std::string, Stream>("features", {2, "F"})));
  EXPECT_EQ(o.input[1].second, (Stream{3, ""}));
  EXPECT_THAT(r.notices, IsEmpty());
}

TEST(Fields, InheritValuesButTakeNoOuterBoolForABlockNorTheOtherWayRound) {
  const Result r = read_from("parallelTrain=true\nuseNAG=[a=1]\nmodelPath=outer\nclip=1#INF\nSGD=[maxEpochs=1]");
  ASSERT_EQ(r.errors, "");
  EXPECT_FALSE(r.options.parallel);
  EXPECT_FALSE(r.options.nesterov);
  EXPECT_EQ(r.options.model, "outer");
  const Result inherited = read_from(
      "parallelTrain=true\nT=[ParallelTrain=[parallelizationStartEpoch=4];SGD=[maxEpochs=1]]\nSGD=[maxEpochs=1]");
  EXPECT_FALSE(inherited.options.parallel);
}

TEST(Fields, BlocksAreInheritedToo) {
  const Record top =
      record_from_text("parallelTrain=true\nT=[ParallelTrain=[parallelizationStartEpoch=4];SGD=[maxEpochs=1]]");
  Problems problems;
  Notices notices;
  const auto o = read<Options>(top.block("T").block("SGD"), "SGD", problems, notices);
  EXPECT_TRUE(problems.empty());
  ASSERT_TRUE(o.parallel);
  EXPECT_EQ(o.parallel->start, 4);
}

TEST(Fields, DefaultAndAbsentKeepTheDefault) {
  const Result r = read_from("minibatchSize=77\nSGD=[maxEpochs=1;minibatchSize=default;ParallelTrain=default]");
  ASSERT_EQ(r.errors, "");
  EXPECT_THAT(r.options.minibatch.values, ElementsAre(256));
  EXPECT_FALSE(r.options.parallel);
  EXPECT_FALSE(r.options.rates_given);
}

TEST(Fields, UnknownKeysAreErrorsWithASuggestion) {
  const Result r = read_from("SGD=[maxEpochs=1;minibatchSizes=3\nParallelTrain=[paralelizationMethod=none]]");
  EXPECT_THAT(r.errors,
              HasSubstr("a.cntk:1:18: error: SGD has no 'minibatchSizes'\n    1 | SGD=[maxEpochs=1;minibatchSizes=3\n"
                        "      |                  ^~~~~~~~~~~~~~\nfix: did you mean 'minibatchSize'? (keys: maxEpochs, "
                        "minibatchSize, "));
  EXPECT_THAT(r.errors, HasSubstr("ParallelTrain has no 'paralelizationMethod'"));
  EXPECT_THAT(read_from("SGD=[maxEpochs=1;zebra=1]").errors, HasSubstr("fix: keys: maxEpochs, minibatchSize"));
  EXPECT_EQ(read_from("SGD=[maxEpochs=1;zebra=1]", "SGD", {"zebra"}).errors, "");
}

TEST(Fields, AKeyOfAnInnerBlockIsSentThere) {
  EXPECT_THAT(read_from("SGD=[maxEpochs=1;ParallelTrain=[gradientBits=1]]").errors,
              HasSubstr("it belongs in the block DataParallelSGD: DataParallelSGD = [ gradientBits = ... ]"));
}

TEST(Fields, VariablesUsedInTheBlockAreNoUnknownKeys) {
  EXPECT_EQ(read_from("SGD=[maxEpochs=$n$;n=3]").errors, "");
  EXPECT_EQ(read_from("SGD=[maxEpochs=$n$;n=3]").options.max_epochs, 3);
  EXPECT_EQ(
      read_from("SGD=[base=4;maxEpochs=1;ParallelTrain=[parallelizationStartEpoch=$base$]]").options.parallel->start,
      4);
  EXPECT_THAT(read_from("x=$unused$\nSGD=[maxEpochs=1;unused=3]").errors, HasSubstr("SGD has no 'unused'"));
}

TEST(Fields, EveryBadValueNamesItsPlace) {
  const Result r = read_from(
      "SGD=[minibatchSize=10k;useNAG=yes;learningRatesPerMB=0.1:x;modelPath=[a=1];ParallelTrain=true\n"
      "input=[features=[dim=two];labels=[alias=x];z=3]]");
  EXPECT_THAT(r.errors, AllOf(HasSubstr("SGD needs 'maxEpochs'"),
                              HasSubstr("a.cntk:1:20: error: 'minibatchSize' takes a whole number, not '10k'"),
                              HasSubstr("a.cntk:1:31: error: 'useNAG' is true or false"),
                              HasSubstr("a.cntk:1:58: error: 'learningRatesPerMB' takes a number, not 'x'"),
                              HasSubstr("'modelPath' in SGD takes a value, not a block"),
                              HasSubstr("'ParallelTrain' in SGD must be a block"),
                              HasSubstr("a.cntk:2:22: error: 'dim' takes a whole number, not 'two'")));
  EXPECT_THAT(r.errors, AllOf(HasSubstr("input.labels needs 'dim'"), HasSubstr("'z' in input must be a block")));
}

TEST(Fields, RulesSpeakAtTheValueAndNotAboutDefaults) {
  EXPECT_THAT(read_from("SGD=[maxEpochs=101]").errors, StartsWith("a.cntk:1:16: error: too many epochs"));
  EXPECT_THAT(read_from("SGD=[maxEpochs=1;ParallelTrain=[DataParallelSGD=[gradientBits=0]]]").errors,
              HasSubstr("gradientBits must be positive"));
  EXPECT_THAT(read_from("SGD=[maxEpochs=x101]").errors, Not(HasSubstr("too many")));
}

TEST(Fields, ChoicesNameTheirWords) {
  EXPECT_THAT(read_from("SGD=[maxEpochs=1;ParallelTrain=[parallelizationMethod=DataParalelSGD]]").errors,
              HasSubstr("'parallelizationMethod' cannot be 'DataParalelSGD'"));
  EXPECT_THAT(read_from("SGD=[maxEpochs=1;ParallelTrain=[parallelizationMethod=DataParalelSGD]]").errors,
              HasSubstr("did you mean 'DataParallelSGD'? (choices: none, DataParallelSGD, ModelAveragingSGD)"));
}

TEST(Fields, AliasesAreReadAndTheLaterWritingWins) {
  const Result r = read_from("SGD=[oldMax=7;batch=3]");
  ASSERT_EQ(r.errors, "");
  EXPECT_EQ(r.options.max_epochs, 7);
  EXPECT_THAT(r.options.minibatch.values, ElementsAre(3));
  EXPECT_THAT(r.notices, ElementsAre("'batch' in SGD is read as 'minibatchSize': the old name counts all ranks"));
  EXPECT_EQ(read_from("SGD=[oldMax=7;maxEpochs=8]").options.max_epochs, 8);
  EXPECT_EQ(read_from("SGD=[maxEpochs=8;oldMax=7]").options.max_epochs, 7);
  EXPECT_EQ(read_from("SGD=[maxEpochs=8;oldMax=7]\nSGD=[maxEpochs=9]").options.max_epochs, 9);
}

TEST(Fields, KeysWithoutEffectAreNamedOnce) {
  const Result r = read_from("SGD=[maxEpochs=1;unroll=true]\nSGD=[unroll=false]");
  EXPECT_EQ(r.errors, "");
  EXPECT_THAT(r.notices, ElementsAre("'unroll' in SGD has no effect here because loops are planned ahead"));
}

TEST(Fields, OpenLevelsOnlyNoteNearMisses) {
  Problems problems;
  Notices notices;
  Options o;
  const Record top = record_from_text(
      "maxEpochs=1\nminibatchSiz=3\nRunDir=x\nmodels=y\nuseNAGs=$minibatchSiz$\nTrain=[a=1]", "a.cntk");
  read_open_fields(top, "top", [&](Fields& f) { o.describe(f); }, problems, notices, {"SGD"});
  EXPECT_TRUE(problems.empty());
  ASSERT_EQ(notices.lines.size(), 1u);
  EXPECT_THAT(notices.lines[0], AllOf(StartsWith("a.cntk:5:1: note: unknown setting 'useNAGs' ignored"),
                                      HasSubstr("did you mean 'useNAG'?")));
}

TEST(Fields, DumpReadsBackAsTheSame) {
  const std::string text =
      "SGD=[maxEpochs=3;minibatchSize=16*2:32;learningRatesPerMB=0.1:0.30000000000000004;clip=inf;modelPath=\"a "
      "b;[c\";nodes=(x:\"p q\":\"r:s\")\n"
      "ParallelTrain=[parallelizationMethod=ModelAveragingSGD]\ninput=[f=[dim=2];l=[dim=3;alias=L]]]";
  Options first = read_from(text).options;
  const std::string dumped = dump_fields("SGD", [&](Fields& f) { first.describe(f); });
  EXPECT_THAT(dumped, HasSubstr("  minibatchSize = 16*2:32\n"));
  const Result again = read_from(dumped);
  ASSERT_EQ(again.errors, "") << dumped;
  EXPECT_EQ(again.options.rates.values, first.rates.values);
  EXPECT_EQ(again.options.minibatch.values, first.minibatch.values);
  EXPECT_EQ(again.options.model, first.model);
  EXPECT_EQ(again.options.nodes, first.nodes) << dumped;
  EXPECT_EQ(again.options.clip, first.clip);
  EXPECT_EQ(again.options.parallel, first.parallel);
  EXPECT_EQ(again.options.input, first.input);
  Options second = again.options;
  EXPECT_EQ(dump_fields("SGD", [&](Fields& f) { second.describe(f); }), dumped);
}

TEST(Fields, HelpHasALinePerKey) {
  Options o;
  const std::string help = help_fields("SGD", [&](Fields& f) { o.describe(f); });
  EXPECT_THAT(help, AllOf(StartsWith("SGD:\n"),
                          HasSubstr("maxEpochs           integer, required  epochs in all (also: oldMax)\n"),
                          HasSubstr("minibatchSize       integers = 256     samples per step (also: batch)\n"),
                          HasSubstr("    gradientBits"), HasSubstr("accepted without effect: unroll\n"),
                          HasSubstr("under any name")));
  EXPECT_THAT(help, HasSubstr("none|DataParallelSGD|ModelAveragingSGD = none"));
}

}  // namespace
}  // namespace tutti::config::fields_test

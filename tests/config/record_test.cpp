// SPDX-License-Identifier: Apache-2.0
// Look-ups, merging, inheritance, variables and places of values.
#include "tutti/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"

namespace tutti::config::record_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Record from(std::string text) { return record_from_text(std::move(text), "a.cntk"); }

std::string error_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

// The place shows exactly what was written.
std::string written(const Value& v) { return v.where.source->text.substr(v.where.offset, v.where.length); }

TEST(Record, ReadsSettingsInAllWritings) {
  const Record r = from(
      "a=1\n  b = two words  # comment\nc=3;d=4,e=\"x;y, z\"\nflag\r\nF=[g=1]\nH[i=2]\nJ{k=3}\nL = {\n m = 4 }\nM "
      "=\n[\n n=5\n]\n"
      "# whole = line\nurl=1#INF\nmsvc=-1.#INF\nempty=\"\"\n");
  EXPECT_EQ(r.integer("a", 0), 1);
  EXPECT_EQ(r.string("b", ""), "two words");
  EXPECT_EQ(r.integer("C", 0), 3);
  EXPECT_EQ(r.integer("d", 0), 4);
  EXPECT_EQ(r.string("e", ""), "x;y, z");
  EXPECT_TRUE(r.boolean("flag", false));
  EXPECT_EQ(r.block("f").integer("g", 0), 1);
  EXPECT_EQ(r.block("h").integer("i", 0), 2);
  EXPECT_EQ(r.block("j").integer("k", 0), 3);
  EXPECT_EQ(r.block("l").integer("m", 0), 4);
  EXPECT_EQ(r.block("m").integer("n", 0), 5);
  EXPECT_FALSE(r.has("whole"));
  EXPECT_EQ(r.number("url", 0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(r.number("msvc", 0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(r.string("empty", "x"), "");
  EXPECT_TRUE(r.has_own("empty"));
  EXPECT_THAT(r.keys(), ElementsAre("a", "b", "c", "d", "e", "flag", "F", "H", "J", "L", "M", "url", "msvc", "empty"));
}

TEST(Record, OnlyTheFirstHashBehindABlankStartsAComment) {
  const Record r = from("a=x#y # not a comment\nb=1 # yes # no\n\t# c=1\n");
  EXPECT_EQ(r.string("a", ""), "x#y # not a comment");
  EXPECT_EQ(r.string("b", ""), "1");
  EXPECT_FALSE(r.has("c"));
}

TEST(Record, LinesOfTwoSlashesAreNoSettings) {
  const Record r = from("// c=1 [ unclosed\n  //d=2\na=http://x // not a comment\nB=[\n//e=3\nf=4\n]\n//");
  EXPECT_FALSE(r.has("c"));
  EXPECT_FALSE(r.has("d"));
  EXPECT_EQ(r.string("a", ""), "http://x // not a comment");
  EXPECT_EQ(r.block("B").keys(), (std::vector<std::string>{"f"}));
}

TEST(Record, LaterWins) {
  EXPECT_EQ(from("a=1\nA=2").integer("a", 0), 2);
  EXPECT_EQ(from("a=[x=1]\na=2").integer("a", 0), 2);
  EXPECT_EQ(from("a=2\na=[x=1]").block("a").integer("x", 0), 1);
}

TEST(Record, BlocksWrittenTwiceMergeWhateverTheirBrackets) {
  for (const char* text :
       {"A=[x=1;B=[y=2]]\nA=[B=[z=3]]", "A={x=1;B={y=2}}\nA={B={z=3}}", "A=[x=1;B={y=2}]\nA={B=[z=3]}",
        "A=[x=1;B=[y=2]][B=[z=3]]", "A=[x=1]\nA=[B=[y=2]]\nA=[B=[z=3]]"}) {
    const Record a = from(text).block("A");
    EXPECT_EQ(a.integer("x", 0), 1) << text;
    EXPECT_EQ(a.block("B").integer("y", 0), 2) << text;
    EXPECT_EQ(a.block("B").integer("z", 0), 3) << text;
  }
}

TEST(Record, NetworkBodiesReplace) {
  const Record r = from("T=[BrainScriptNetworkBuilder={ a = 1 }]\nT=[BrainScriptNetworkBuilder={ b = 2 }]");
  EXPECT_EQ(r.block("T").value("BrainScriptNetworkBuilder").text, "{ b = 2 }");
}

TEST(Record, BareBlocksBelongToTheTop) {
  const Record r = from("[a=1;b=2]\nc=3");
  EXPECT_EQ(r.integer("a", 0), 1);
  EXPECT_EQ(r.integer("b", 0), 2);
  EXPECT_EQ(r.integer("c", 0), 3);
}

TEST(Record, LookupsGoOutward) {
  const Record r = from("precision=double\ntrace=1\nT=[trace=2;S=[x=1]]");
  const Record s = r.block("T").block("S");
  EXPECT_EQ(s.string("precision", ""), "double");
  EXPECT_EQ(s.integer("trace", 0), 2);
  EXPECT_TRUE(s.has("trace"));
  EXPECT_FALSE(s.has_own("trace"));
  EXPECT_EQ(s.path(), "T.S");
  EXPECT_FALSE(s.find("absent"));
  EXPECT_THROW(s.value("absent"), ConfigError);
}

TEST(Record, HasLooksAtNoVariables) {
  const Record r = record_from_text("A = [ inner = 2 ; b = [ x = $inner$ ] ] ; default_one = default");
  EXPECT_TRUE(r.has("A"));
  EXPECT_TRUE(r.block("A").block("b").has_own("x"));
  EXPECT_EQ(r.block("A").block("b").integer("x", 0), 2);
  EXPECT_FALSE(r.has("default_one"));
}

TEST(Record, DefaultMeansTheDefault) {
  const Record r = from("a=5\nT=[a=default]");
  EXPECT_EQ(r.block("T").integer("a", 7), 7);
  EXPECT_FALSE(r.block("T").has("a"));
}

TEST(Record, AnOuterBoolHidesNoBlockAndAnOuterBlockNoBool) {
  const Record r = from("parallelTrain=true\nParallel=[x=1]\nT=[ParallelTrain=[m=1];SGD=[q=1]]");
  const Record sgd = r.block("T").block("SGD");
  EXPECT_EQ(sgd.block("ParallelTrain").integer("m", 0), 1);
  EXPECT_TRUE(sgd.boolean("parallelTrain", false));
  EXPECT_FALSE(from("parallelTrain=true\nSGD=[a=1]").block("SGD").is_block("ParallelTrain"));
  EXPECT_THROW(from("T=[S=3]").block("T").block("S"), ConfigError);
  EXPECT_THROW(from("S=[a=1]").integer("S", 0), ConfigError);
}

TEST(Variables, AreSubstitutedWhenFetchedFromTheLevelThatHoldsTheBlock) {
  EXPECT_EQ(from("d=$r$/data\nr=$s$/x\ns=/tmp").string("d", ""), "/tmp/x/data");
  EXPECT_EQ(from("r=1\nT=[r=2;x=$r$]").block("T").string("x", ""), "1") << "the outer level comes first";
  EXPECT_EQ(from("T=[r=2;x=$r$]").block("T").string("x", ""), "2");
  EXPECT_EQ(from("N=b\nab=5\nx=$a$N$").find("N")->text, "b");
  EXPECT_EQ(from("dir=\"a b\"\nf=\"$DIR$/c\"").string("f", ""), "a b/c");
  EXPECT_EQ(from("v=1\nv=2\nx=$v$").string("x", ""), "2");
  EXPECT_EQ(from("x=a$\ny=$5\nz=$ b$ c\nw=.*$").string("x", ""), "a$");
  EXPECT_EQ(from("y=$5\nq=5$").string("y", ""), "$5");
}

TEST(Variables, MayHoldBlocksAndSettings) {
  const Record r = from("common=[a=1;b=$c$]\nc=9\nS=$common$\nU=[$common$;a=2]\nV=$common$\nV=[a=3]");
  EXPECT_EQ(r.block("S").integer("b", 0), 9);
  EXPECT_EQ(r.block("U").integer("a", 0), 2);
  EXPECT_EQ(r.block("U").integer("b", 0), 9);
  EXPECT_EQ(r.block("V").integer("a", 0), 3);
  EXPECT_EQ(r.block("V").integer("b", 0), 9);
}

TEST(Variables, ThatAreWrittenMoreThanOnceHoldAllTheirBlocks) {
  const Record r = from("common=[a=1;b=2]\ncommon=[a=3;c=4]\nS=$common$\nT=[$common$]\nU=[b=5]\nU=$common$\nU=[c=6]");
  for (const auto& [name, b, c] : {std::tuple("S", 2, 4), std::tuple("T", 2, 4), std::tuple("U", 2, 6)}) {
    EXPECT_EQ(r.block(name).integer("a", 0), 3) << name;
    EXPECT_EQ(r.block(name).integer("b", 0), b) << name;
    EXPECT_EQ(r.block(name).integer("c", 0), c) << name;
  }
}

TEST(Variables, UnknownOnesAndCirclesAreErrors) {
  EXPECT_THAT(error_of([] { from("RunDir=x\nx=$RunDri$/y").string("x", ""); }),
              testing::AllOf(HasSubstr("a.cntk:2:3: error: No variable found with the name 'RunDri'"),
                             HasSubstr("did you mean $RunDir$")));
  EXPECT_THAT(error_of([] { from("x=$$").string("x", ""); }), HasSubstr("$$ is not a variable"));
  EXPECT_THAT(error_of([] { from("x=$y$\ny=$x$").string("x", ""); }), HasSubstr("refers to itself"));
  EXPECT_THAT(error_of([] { from("x=[a=$y$\nb=2]\ny=\"[\"").block("x").string("a", ""); }),
              HasSubstr("no closing ']'"));
  EXPECT_NO_THROW(from("x=$nobody$\ny=1").integer("y", 0)) << "a value that nobody fetches needs no variables";
}

TEST(Places, ShowWhatWasWritten) {
  const Record r = from("# c\na = \"x y\" # z\nT=[\n  b=2 # two\n]\n");
  EXPECT_EQ(written(r.value("a")), "\"x y\"");
  EXPECT_EQ(r.value("a").text, "x y");
  EXPECT_EQ(written(r.block("T").value("b")), "2");
  EXPECT_EQ(written(r.value("T")), "[\n  b=2 # two\n]");
  EXPECT_EQ(r.value("T").text.size(), r.value("T").where.length);
}

TEST(Places, InsideBodiesStayRightWithVariables) {
  const Record r =
      from("H=300\nB = {\n  # first\n  h = $H$ ; w = oops // x\n  z = 1\n}\nBrainScriptNetworkBuilder = $B$");
  for (const char* key : {"B", "BrainScriptNetworkBuilder"}) {
    const Value body = r.value(key);
    const std::size_t at = body.text.find("oops");
    const std::string shown = render({{body.where.source, body.where.offset + at, 4}, "bad", ""});
    EXPECT_THAT(shown, HasSubstr("h = 300 ; w = oops // x")) << shown;
    EXPECT_EQ(body.where.source->text.substr(body.where.offset + at, 4), "oops");
  }
  EXPECT_THAT(render({r.value("B").where, "bad", ""}), HasSubstr("a.cntk:2:5"));
}

TEST(Places, SubstitutedValuesShowBothWritings) {
  const Record r = from("rate = abc\nlr = $rate$\n");
  EXPECT_EQ(error_of([&] { r.number("lr", 0); }),
            "a.cntk:2:6: error: 'lr' takes a number, not 'abc'\n    2 | lr = abc\n      |      ^~~\n"
            "a.cntk:2:6: the text above was substituted here\n    2 | lr = $rate$\n      |      ^~~~~~\n"
            "fix: write a number such as 0.5, 1e-3 or inf\n");
}

TEST(Arrays, SplitRepeatAndNest) {
  EXPECT_THAT(from("c=a:b:c").strings("c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(from("c=(a : \"b:c\" : d)").strings("c"), ElementsAre("a", "b:c", "d"));
  EXPECT_THAT(from("c=a*3:b").strings("c"), ElementsAre("a", "a", "a", "b"));
  EXPECT_THAT(from("c=\"a:b\"").strings("c"), ElementsAre("a", "b"));
  EXPECT_THAT(from("c=(,a,b)\nd=(|x|y)").strings("d"), ElementsAre("x", "y"));
  EXPECT_THAT(from("c=[2:50*2:2]").strings("c"), ElementsAre("2", "50", "50", "2"));
  EXPECT_THAT(from("c=*.txt").strings("c"), ElementsAre("*.txt"));
  EXPECT_THAT(from("c=a*3.txt:b*9223372036854775807x").strings("c"), ElementsAre("a*3.txt", "b*9223372036854775807x"));
  EXPECT_THAT(from("c=\"\"").strings("c"), IsEmpty());
  EXPECT_THAT(from("c=a:b:").strings("c"), ElementsAre("a", "b")) << "a ':' at the end";
  EXPECT_THAT(from("x=1").strings("c"), IsEmpty());
  EXPECT_THAT(from("c=(-1:0)").strings("c"), ElementsAre("-1", "0"));
}

TEST(Arrays, OfBlocks) {
  const Record r = from("v=7\nT=[d=([a=1;n=x]:[a=$v$]:\n [a=3])]");
  const auto blocks = r.block("T").blocks("d");
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0].string("n", ""), "x");
  EXPECT_EQ(blocks[1].integer("a", 0), 7);
  EXPECT_EQ(blocks[2].integer("a", 0), 3);
  EXPECT_EQ(blocks[2].integer("v", 0), 7);
  EXPECT_THROW(from("d=a:b").blocks("d"), ConfigError);
  EXPECT_EQ(from("d=[a=1]").blocks("d").size(), 1u);
}

TEST(Arrays, CustomSeparatorsInBlocks) {
  const Record r = from("A=[|a=1,2;3|b=2|c=[d=1;e=2]]\nB=[$a=x$b=y]");
  EXPECT_EQ(r.block("A").string("a", ""), "1,2;3");
  EXPECT_EQ(r.block("A").integer("b", 0), 2);
  EXPECT_EQ(r.block("A").block("c").integer("e", 0), 2);
}

TEST(Values, Bools) {
  for (const char* yes : {"t", "true", "T", "True", "TRUE", "1"})
    EXPECT_TRUE(from(std::string("x=") + yes).boolean("x", false)) << yes;
  for (const char* no : {"f", "false", "F", "False", "FALSE", "0", "\"\""})
    EXPECT_FALSE(from(std::string("x=") + no).boolean("x", true)) << no;
  EXPECT_THROW(from("x=yes").boolean("x", true), ConfigError);
}

TEST(Values, Integers) {
  EXPECT_EQ(from("x=-12").integer("x", 0), -12);
  EXPECT_EQ(from("x=+12").integer("x", 0), 12);
  EXPECT_EQ(from("x=9223372036854775807").integer("x", 0), 9223372036854775807);
  EXPECT_THAT(error_of([] { from("x=10k").integer("x", 0); }), HasSubstr("write 10000\n"));
  EXPECT_THAT(error_of([] { from("x=1e6").integer("x", 0); }), HasSubstr("write 1000000\n"));
  EXPECT_THAT(error_of([] { from("x=5.0").integer("x", 0); }), HasSubstr("write 5\n"));
  for (const char* bad : {"9223372036854775808", "1x", "x", "--1", "0x10", "\"\"", "1.5", "\" 1\""})
    EXPECT_THROW(from(std::string("x=") + bad).integer("x", 0), ConfigError) << bad;
}

TEST(Values, Numbers) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::pair<const char*, double> good[] = {{"1", 1},       {"-.5", -.5},     {"+2.5e-3", 2.5e-3}, {"1#INF", inf},
                                                 {"1#inf", inf}, {"-1#INF", -inf}, {"inf", inf},        {"-INF", -inf},
                                                 {"1e-400", 0},  {"5.", 5}};
  for (const auto& [text, v] : good) EXPECT_EQ(from(std::string("x=") + text).number("x", 77), v) << text;
  for (const char* bad : {"1e400", "1e", "abc", "nan", "0x1p3", "1 2", "\"\"", "infinite", "1.2.3"})
    EXPECT_THROW(from(std::string("x=") + bad).number("x", 0), ConfigError) << bad;
}

TEST(Record, AnEmptyOneAnswersToo) {
  const Record r;
  EXPECT_FALSE(r.has("x"));
  EXPECT_EQ(r.integer("x", 3), 3);
  EXPECT_THAT(r.keys(), IsEmpty());
  EXPECT_FALSE(r.is_block("x"));
}

TEST(Record, OutlivesItsParents) {
  std::optional<Record> s;
  { s = from("a=1\nT=[S=[b=2]]").block("T").block("S"); }
  EXPECT_EQ(s->integer("a", 0), 1);
}

}  // namespace
}  // namespace tutti::config::record_test

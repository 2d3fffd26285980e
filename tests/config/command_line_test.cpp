// SPDX-License-Identifier: Apache-2.0
// Words and files in order, overrides inside blocks, flags, the dump and the log's lines.
#include "config/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "base/write_root.h"
#include "config/load.h"

namespace tutti::config::command_line_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Each test runs in an empty directory of its own.
class CommandLineTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tutti-config-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    before_ = fs::current_path();
    fs::current_path(directory_);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(directory_);
  }
  static void write(const fs::path& path, const std::string& text) {
    if (path.has_parent_path()) fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  static CommandLine parse(const std::vector<std::string>& words) {
    std::vector<const char*> argv = {"trainer"};
    for (const auto& w : words) argv.push_back(w.c_str());
    return parse_command_line(static_cast<int>(argv.size()), argv.data());
  }
  static std::string error_of(const std::vector<std::string>& words) {
    try {
      parse(words);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  }
  fs::path directory_, before_;
};

TEST_F(CommandLineTest, LaterWordsAndFilesWin) {
  write("a.cntk", "x=a\ny=a\nz=a\n");
  write("b.cntk", "y=b\n");
  const CommandLine c = parse({"x=w", "z=w", "configFile=a.cntk+b.cntk", "z=v"});
  EXPECT_EQ(c.config.string("x", ""), "a");
  EXPECT_EQ(c.config.string("y", ""), "b");
  EXPECT_EQ(c.config.string("z", ""), "v");
  EXPECT_THAT(c.config_files, ElementsAre("a.cntk", "b.cntk"));
  EXPECT_THAT(include_paths(c.config), ElementsAre("."));
}

TEST_F(CommandLineTest, OverridesReachIntoBlocksOfAnyBrackets) {
  write("a.cntk",
        "v=1\nTrain={action=train\nSGD={maxEpochs=9;ParallelTrain={DataParallelSGD={gradientBits=32;x=$v$}}}}\nT=[S=[a="
        "1;b=2]]\n");
  const CommandLine c = parse({"CONFIGFILE=a.cntk", "Train=[SGD=[ParallelTrain=[DataParallelSGD=[gradientBits=1]]]]",
                               "T={S={b=3}}", "[q=1;r=2]", "v=7", "m=1;n=2", "p=1\no=2", "Train=[SGD=[maxEpochs=2]]"});
  const Record sgd = c.config.block("Train").block("SGD");
  EXPECT_EQ(sgd.integer("maxEpochs", 0), 2);
  const Record dp = sgd.block("ParallelTrain").block("DataParallelSGD");
  EXPECT_EQ(dp.integer("gradientBits", 0), 1);
  EXPECT_EQ(dp.integer("x", 0), 7) << "an overridden variable takes effect";
  EXPECT_EQ(c.config.block("Train").string("action", ""), "train");
  EXPECT_EQ(c.config.block("T").block("S").integer("a", 0), 1);
  EXPECT_EQ(c.config.block("T").block("S").integer("b", 0), 3);
  for (const char* key : {"q", "r", "m", "n", "p", "o"}) EXPECT_TRUE(c.config.has(key)) << key;
}

TEST_F(CommandLineTest, FlagsStandAnywhere) {
  write("a.cntk", "x=1\n");
  const CommandLine c = parse({"--check", "configFile=a.cntk", "x=-5", "--dump-config", "y=--z"});
  EXPECT_TRUE(c.check);
  EXPECT_TRUE(c.dump_config);
  EXPECT_FALSE(c.help);
  EXPECT_FALSE(c.version);
  EXPECT_EQ(c.config.integer("x", 0), -5);
  EXPECT_EQ(c.config.string("y", ""), "--z");
  EXPECT_TRUE(parse({"--help"}).help);
  EXPECT_TRUE(parse({"-h"}).help);
  EXPECT_TRUE(parse({"--version", "configFile=none.cntk"}).version);
  EXPECT_EQ(parse({"help=SGD"}).help_topic, "SGD");
  EXPECT_THAT(error_of({"--check"}), HasSubstr("no configuration is given"));
  EXPECT_TRUE(parse({}).empty);
  EXPECT_FALSE(c.empty);
  EXPECT_THAT(usage(), AllOf(HasSubstr("--dump-config"), HasSubstr("--help"), HasSubstr("configFile=")));
}

TEST_F(CommandLineTest, CurrentDirectoryActsAtOnce) {
  write("sub/a.cntk", "x=$currentDirectory$\n");
  const CommandLine c = parse({"currentDirectory=sub", "configFile=a.cntk"});
  EXPECT_EQ(c.config.string("x", ""), "sub");
  EXPECT_EQ(fs::current_path().filename(), "sub");
  EXPECT_THAT(c.notices.lines, ElementsAre("Changed current directory to sub"));
  EXPECT_THAT(error_of({"currentDirectory=nowhere"}),
              AllOf(HasSubstr("<command line>:1:18"), HasSubstr("cannot change to the directory 'nowhere'")));
}

TEST_F(CommandLineTest, WriteUnderBeginsWhereTheTrainerStarts) {
  fs::create_directories("in");
  parse({"currentDirectory=in", "--write-under", "in", "a=1"});
  EXPECT_EQ(outside_write_root("new/m"), "");
  EXPECT_NE(outside_write_root("../m"), "");
  set_write_root("/");
  EXPECT_THAT(error_of({"--write-under=in", "a=1"}), HasSubstr("there is no directory 'in'\n"));
}

TEST_F(CommandLineTest, IncludesNestAndAreReadOnce) {
  write("a.cntk", "include=p/one.cntk+p/two.cntk\nT=[\ninclude=p/inner.cntk\n]\ninclude=p/one.cntk\n");
  write("p/one.cntk", "one=1\nx=1\ninclude=deep.cntk\n");
  write("p/two.cntk", "two=2\nx=2\n");
  write("p/deep.cntk", "deep=3\n");
  write("p/inner.cntk", "SGD=[m=1]\n");
  const CommandLine c = parse({"configFile=a.cntk", "T=[SGD=[n=2]]"});
  EXPECT_EQ(c.config.integer("one", 0), 1);
  EXPECT_EQ(c.config.integer("deep", 0), 3);
  EXPECT_EQ(c.config.integer("x", 0), 2) << "the repeated include is not read again";
  EXPECT_EQ(c.config.block("T").block("SGD").integer("m", 0), 1);
  EXPECT_EQ(c.config.block("T").block("SGD").integer("n", 0), 2);
  ASSERT_EQ(c.notices.lines.size(), 1u);
  EXPECT_THAT(c.notices.lines[0], HasSubstr("included more than once"));
  EXPECT_THAT(include_paths(c.config), ElementsAre(".", "p"));
}

TEST_F(CommandLineTest, FilesThatAreNone) {
  fs::create_directory("d");
  write("bin.cntk", std::string("x=1\n\0\x01\x02", 7));
  write("wide.cntk", std::string("\xFF\xFEx\0=\0", 6));
  write("loop.cntk", "include=loop2.cntk\n");
  write("loop2.cntk", "x=1\ninclude=loop.cntk\n");
  write("empty.cntk", "");
  write("var.cntk", "include=$d$/x\n include=y\n");
  EXPECT_THAT(error_of({"configFile=no.cntk"}),
              AllOf(HasSubstr("<command line>:1:12: error: config file 'no.cntk' does not exist"), HasSubstr("fix:")));
  EXPECT_THAT(error_of({"configFile=d"}), HasSubstr("'d' is a directory, not a config file"));
  EXPECT_THAT(error_of({"configFile=bin.cntk"}), HasSubstr("bin.cntk:2:1: error: 'bin.cntk' is not a text file"));
  EXPECT_THAT(error_of({"configFile=wide.cntk"}), HasSubstr("not a text file in UTF-8 but UTF-16"));
  EXPECT_THAT(error_of({"configFile=loop.cntk"}),
              AllOf(HasSubstr("loop2.cntk:2:9: error:"), HasSubstr("includes itself")));
  EXPECT_THAT(error_of({"configFile=var.cntk"}), AllOf(HasSubstr("variables are not substituted in include"),
                                                       HasSubstr("include= must begin in the first column")));
  EXPECT_THAT(error_of({"configFile=/dev/zero"}), HasSubstr("larger than"));
  EXPECT_THAT(parse({"configFile=empty.cntk", "x=1"}).config.keys(), ElementsAre("x"));
  EXPECT_THAT(error_of({"configFile=no.cntk+nor.cntk", "T=["}),
              AllOf(HasSubstr("'no.cntk' does not"), HasSubstr("'nor.cntk' does not"), HasSubstr("no closing ']'")));
}

TEST_F(CommandLineTest, MisspeltWords) {
  write("a.cntk", "x=1\n");
  EXPECT_THAT(error_of({"configfil=a.cntk"}), AllOf(HasSubstr("<command line>:1:1: error: no config file is named"),
                                                    HasSubstr("did you mean configFile=")));
  EXPECT_THAT(parse({"configFile=a.cntk", "configFlie=a.cntk"}).notices.lines,
              ElementsAre(HasSubstr("did you mean configFile=a.cntk?")));
  EXPECT_THAT(parse({"configFile=a.cntk", "configDir=."}).notices.lines, IsEmpty());
  EXPECT_THAT(error_of({"a.cntk"}), HasSubstr("did you mean configFile=a.cntk?"));
  EXPECT_THAT(
      error_of({"-np", "4", "configFile=a.cntk"}),
      AllOf(HasSubstr("'-np' is a flag of mpiexec"), HasSubstr("    1 | -np\n"), testing::Not(HasSubstr("'4'"))));
  EXPECT_THAT(
      error_of({"configFile=a.cntk", "--chekc"}),
      AllOf(HasSubstr("<command line>:2:1: error: unknown flag '--chekc'"), HasSubstr("did you mean '--check'?")));
  EXPECT_THAT(error_of({"configFile=a.cntk", "--quite"}), HasSubstr("unknown flag '--quite'"));
  EXPECT_THAT(error_of({"configFile=a.cntk+./a.cntk"}),
              HasSubstr("Cannot specify same config file multiple times at the command line."));
  EXPECT_THAT(error_of({"configFile="}), HasSubstr("names no file"));
  EXPECT_THAT(error_of({"configFile=a.cntk", "Train=[SGD=[maxEpochs=3]"}),
              AllOf(HasSubstr("<command line>:2:7"), HasSubstr("    2 | Train=[SGD=[maxEpochs=3]\n      |       ^\n")));
  EXPECT_THAT(error_of({"configFile=a.cntk", "x="}), HasSubstr("no value given for 'x'"));
  EXPECT_THAT(error_of({"configFile=a.cntk", "--check=maybe"}), HasSubstr("<command line>"));
}

TEST_F(CommandLineTest, AValueFromTheCommandLineShowsItsWord) {
  const CommandLine c = parse({"a=1", "Train=[SGD=[maxEpochs=x]]"});
  try {
    c.config.block("Train").block("SGD").integer("maxEpochs", 0);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("<command line>:2:23: error: 'maxEpochs' takes a whole number, not 'x'\n    2 | "
                                    "Train=[SGD=[maxEpochs=x]]\n"));
  }
}

TEST_F(CommandLineTest, LinesOfTheLog) {
  write("a.cntk", "command=Train\nb=$dir$/x\ndir=\"a b\"\nTrain=[\n x=1\n]\n");
  EXPECT_THAT(configuration_lines(parse({"configFile=a.cntk", "Train=[y=2]"})),
              ElementsAre("configparameters: a.cntk:b=a b/x", "configparameters: a.cntk:command=Train",
                          "configparameters: a.cntk:dir=a b", "configparameters: a.cntk:Train=[\n x=1\n] [y=2]"));
}

// Comments inside a network are not printed again.
std::string squeezed(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' || (!out.empty() && out.back() != ' ' && out.back() != '\n'))
      c == '\n' && !out.empty() && out.back() == ' ' ? void(out.back() = c) : out.push_back(c);
  return out;
}

// Everything a record says, flattened; what cannot be asked for counts as its error.
void flatten(const Record& r, const std::string& path, std::map<std::string, std::string>& out) {
  for (const auto& key : r.keys()) {
    std::string lower = path;
    for (const char c : key) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    try {
      const auto v = r.find_own(key);
      out[lower] = v && !r.is_block(key) ? v->text : "";
      if (lower.ends_with("networkbuilder")) out[lower] = squeezed(v->text);
      if (v && r.is_block(key)) flatten(r.block(key), lower + ".", out);
    } catch (const ConfigError&) {
      out[lower] = "error";
    }
  }
}

TEST_F(CommandLineTest, TheDumpReadsBackAsTheSame) {
  write("a.cntk",
        "RunDir=/tmp/\"x\nq\"\ncommand=Train:Test\nData=\"a "
        "b\"\nT={f=\"$Data$/c;d\";r=0.1*3:5;BrainScriptNetworkBuilder={\n  d = $dim$ # hidden\n  z = [ q = 1 ]\n}\n"
        "list=([a=1;n=$Data$]:[a=2])\nempty=\"\";flag;bad=$nobody$;sep=[|x=1,2|y=3];arr=[1:2:3]}\nT=[f=default;S=[k=(1:"
        "2)]]\ndim=300\nw=two words\n");
  const CommandLine c = parse({"configFile=a.cntk", "T=[S={l=1}]"});
  const std::string dumped = dump_config(c.config);
  std::map<std::string, std::string> first, second;
  flatten(c.config, "", first);
  flatten(record_from_text(dumped), "", second);
  EXPECT_EQ(first, second) << dumped;
  EXPECT_THAT(dumped, AllOf(HasSubstr("d = 300"), HasSubstr("    l = 1\n"), HasSubstr("command = Train:Test\n")));
  EXPECT_EQ(dump_config(record_from_text(dumped)), dumped);
}

}  // namespace
}  // namespace tutti::config::command_line_test

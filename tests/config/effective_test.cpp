// SPDX-License-Identifier: Apache-2.0
// The settings in effect as a tree and as config text: read again, the text gives the same settings and the same text.
#include "config/effective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"

namespace tutti::config {
namespace effective_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Inner {
  std::int64_t size = 3;
  std::string word;
  void describe(Fields& f) { f("size", size, "a number"), f("word", word, "a text"); }
};
struct Outer {
  std::string name;
  bool on = true;
  Schedule<double> rates{0.5};
  Inner inner;
  std::optional<Inner> extra;
  std::vector<std::pair<std::string, Inner>> parts;
  std::vector<Fields::Pair> layers;
  void describe(Fields& f) {
    f("name", name, "a text"), f("on", on, "a switch"), f("rates", rates, "per epoch");
    f.alias("oldRates", "rates");
    f.no_effect("nothing", "it is a test");
    f.block("inner", inner, "always there"), f.block("extra", extra, "may be left out");
    f.blocks("parts", parts, "under any name"), f.pairs("layers", layers, "a word each");
  }
};

std::vector<Setting> settings_of(const Record& block) {
  Problems problems;
  Notices notices;
  Outer now = read<Outer>(block, "Outer", problems, notices, {"more"});
  problems.throw_if_any();
  return effective_settings(block, [&](Fields& f) { now.describe(f); });
}

std::string again(const std::string& text) {
  return to_text(settings_of(record_from_text("Outer=[\n" + text + "]").block("Outer")));
}

TEST(Effective, OnlyWhatWasGivenAndAsItWasWritten) {
  const Record top = record_from_text(
      "on=false\nsize=7\nDir=\"a b\"\nunrelated=1\n"
      "Outer=[oldRates=0.10*2:0.5;nothing=1;own=5;name=\"$Dir$/$own$\";parts=[x=[word=w];y=[size=8]];more=(a:b)\n"
      "layers=[fc6=shard]]");
  EXPECT_EQ(to_text(settings_of(top.block("Outer"))),
            "name = \"a b/5\"\non = false\nrates = 0.10*2:0.5\nparts = [\n  x = [\n    size = 7\n    word = w\n  ]\n"
            "  y = [\n    size = 8\n  ]\n]\nlayers = [\n  fc6 = shard\n]\nmore = (a:b)\n");
}

TEST(Effective, TextReadsBackAsTheSame) {
  for (const char* text : {"", "on", "name=\"\"", "name=\"x;[y\"; rates=1:2*3", "inner=[size=4];extra=[]",
                           "extra=[word=a]", "parts=[a=[];b=[size=1]]", "layers=[a=b;c=d];on=F"}) {
    const std::string once = again(text);
    EXPECT_EQ(again(once), once) << text;
  }
}

TEST(Effective, DefaultsAreComments) {
  const Record top = record_from_text("Outer=[inner=[size=4]]", "a.cntk");
  const auto all = settings_of(top.block("Outer"));
  const std::string text = to_text(all, true);
  EXPECT_THAT(text, HasSubstr("# on = true\n"));
  EXPECT_THAT(text, HasSubstr("inner = [\n  size = 4\n  # word = \"\"\n]\n"));
  EXPECT_THAT(text, Not(HasSubstr("extra")));
  EXPECT_EQ(again(text), to_text(all));
  const Setting* const inner = find_setting(all, "INNER");
  ASSERT_TRUE(inner && inner->given);
  EXPECT_EQ(inner->members[0].where.source->name, "a.cntk");
  EXPECT_FALSE(find_setting(all, "on")->given);
}

TEST(Effective, DumpKeepsEverything) {
  const Record top = record_from_text("a=1\nb=[c=$a$]\nNetwork=x");
  std::vector<std::string> keys;
  for (const Setting& s : written_settings(top)) keys.push_back(s.key);
  EXPECT_THAT(keys, ElementsAre("a", "b", "Network"));
  EXPECT_EQ(to_text(written_settings(top)), "a = 1\nb = [\n  c = 1\n]\nNetwork = x\n");
}

}  // namespace
}  // namespace effective_test
}  // namespace tutti::config

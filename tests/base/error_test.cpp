// SPDX-License-Identifier: Apache-2.0
#include "tutti/error.h"
#include "tutti/log.h"

#include <gtest/gtest.h>

namespace tutti::error_test {
namespace {

std::shared_ptr<const Source> source(std::string text) {
  return std::make_shared<Source>(Source{"a.cntk", std::move(text), nullptr});
}

TEST(Error, NamesLineColumnAndFix) {
  const auto s = source("one = 1\n\tblok = 2\nthree = 3\n");
  const ConfigError e({s, 9, 4}, "unknown key 'blok'", "did you mean 'block'?");
  EXPECT_STREQ(
      e.what(),
      "a.cntk:2:2: error: unknown key 'blok'\n    2 | \tblok = 2\n      | \t^~~~\nfix: did you mean 'block'?\n");
}

TEST(Error, EndOfTextAndEmptyTextAreNoProblem) {
  EXPECT_EQ(render({{source("abc"), 3, 0}, "ends", ""}), "a.cntk:1:4: error: ends\n    1 | abc\n      |    ^\n");
  EXPECT_EQ(render({{source(""), 7, 3}, "empty", ""}), "a.cntk:1:1: error: empty\n    1 | \n      | ^\n");
}

TEST(Error, OneMistakeIsShownOnce) {
  const auto s = source("x = 1\n");
  const ConfigError e({{{s, 0, 1}, "first", ""}, {{s, 4, 1}, "second", ""}, {{s, 0, 1}, "first", ""}});
  ASSERT_EQ(e.diagnostics().size(), 2u);
  EXPECT_EQ(e.diagnostics()[0].message, "first");
  EXPECT_EQ(std::string(e.what()), render(e.diagnostics()[0]) + "\n" + render(e.diagnostics()[1]));
}

TEST(Error, SubstitutedTextShowsWhereItWasPut) {
  auto origin = std::make_shared<SourcePos>(SourcePos{source("x = $lr$\n"), 4, 4});
  auto text = std::make_shared<Source>(Source{"$lr$", "abc", origin});
  const std::string shown = render({{text, 0, 3}, "not a number", ""});
  EXPECT_NE(shown.find("a.cntk:1:5: the text above was substituted here"), std::string::npos) << shown;
}

TEST(Error, LongLinesAreCutAroundThePlace) {
  const auto s = source(std::string(5000, 'a') + "HERE" + std::string(5000, 'b'));
  const std::string shown = render({{s, 5000, 4}, "m", ""});
  EXPECT_NE(shown.find("HERE"), std::string::npos);
  EXPECT_LT(shown.size(), 600u);
}

TEST(Nearest, FindsSlipsAndKeepsQuietOtherwise) {
  const std::vector<std::string> keys = {"minibatchSize", "maxEpochs", "momentumPerMB"};
  EXPECT_EQ(nearest("minibatchsize", keys), "minibatchSize");
  EXPECT_EQ(nearest("maxEpoch", keys), "maxEpochs");
  EXPECT_EQ(nearest("mxaEpochs", keys), "maxEpochs");
  EXPECT_EQ(nearest("momentum", keys), "momentumPerMB");
  EXPECT_EQ(nearest("zebra", keys), "");
  EXPECT_EQ(nearest("feature", {"features", "featureTransformation"}), "features");
  EXPECT_EQ(nearest("feature", {"featureTransformation", "features"}), "features");
}

TEST(Titled, DiagnosticsWithAPlaceNeedNoTitle) {
  EXPECT_EQ(log::titled("Note", "2 ranks share a core"), "Note: 2 ranks share a core");
  EXPECT_EQ(log::titled("Note", "a.cntk:5:1: note: unknown setting"), "a.cntk:5:1: note: unknown setting");
  EXPECT_EQ(log::titled("Warning", "a.cntk:5:1: warning: far\n  1 | x"), "a.cntk:5:1: warning: far\n  1 | x");
  EXPECT_EQ(log::titled("Note", "take note: this\na.cntk:5:1: note: x"), "Note: take note: this\na.cntk:5:1: note: x");
}

}  // namespace
}  // namespace tutti::error_test

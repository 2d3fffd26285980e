// SPDX-License-Identifier: Apache-2.0
#include "brainscript/function_help.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tutti::brainscript::function_help_test {
namespace {

const FunctionHelp* find(const std::vector<FunctionHelp>& all, const std::string& name) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const FunctionHelp& f) { return f.name == name; });
  return at == all.end() ? nullptr : &*at;
}

TEST(FunctionHelp, ComesFromTheLibraryItself) {
  const auto all = library_functions();
  ASSERT_TRUE(find(all, "DenseLayer"));
  EXPECT_EQ(find(all, "Plus")->signature, "Plus (x, y, tag='')");
  EXPECT_EQ(find(all, "Plus")->section, "products and sums");
  EXPECT_EQ(find(all, "ReLU")->same_as, "RectifiedLinear");
  EXPECT_EQ(find(all, "BS.Boolean.Not")->signature, "BS.Boolean.Not (x)");
  EXPECT_TRUE(find(all, "CNTK2.Times"));
  EXPECT_TRUE(find(all, "Length"));
  EXPECT_FALSE(find(all, "_Compose"));
  for (const auto& f : all) EXPECT_EQ(f.signature.find('\n'), std::string::npos) << f.name;
}

TEST(FunctionHelp, NdlFunctionsShowTheirDefaults) {
  const auto all = ndl_functions();
  ASSERT_TRUE(find(all, "Times"));
  EXPECT_EQ(find(all, "Times")->signature, "Times(x, y, outputRank=1, inferInputRankToMap=-1)");
  EXPECT_EQ(find(all, "ErrorPrediction")->sentence, find(all, "ClassificationError")->sentence);
}

TEST(FunctionHelp, SentencesAreAboutFunctionsThatThereAre) {
  std::set<std::string> names;
  for (const auto& f : library_functions()) names.insert(f.name);
  for (const auto& f : ndl_functions()) names.insert(f.name);
  for (const auto name : functions_with_sentences()) {
    EXPECT_TRUE(names.contains(std::string(name))) << name;
    EXPECT_FALSE(sentence_of(name).empty()) << name;
  }
  EXPECT_TRUE(sentence_of("NoSuchFunction").empty());
}

}  // namespace
}  // namespace tutti::brainscript::function_help_test

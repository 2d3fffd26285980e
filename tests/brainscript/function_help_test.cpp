// SPDX-License-Identifier: Apache-2.0
#include "brainscript/function_help.h"

#include <gtest/gtest.h>

#include <algorithm>

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
  EXPECT_EQ(find(all, "CNTK2.Relu")->same_as, "") << "names differ in more than their case";
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

TEST(FunctionHelp, SentencesStandBehindTheDefinitions) {
  const auto all = library_functions(), ndl = ndl_functions();
  EXPECT_EQ(find(all, "Plus")->sentence, "sum, with broadcast of axes of 1");
  EXPECT_EQ(find(all, "DenseLayer")->sentence, "fully connected layer with an activation: activation (W * x + b)");
  EXPECT_EQ(find(all, "BS.Boolean.Not")->sentence, "1 - x");
  EXPECT_EQ(find(all, "ReLU")->sentence, find(all, "RectifiedLinear")->sentence);
  EXPECT_EQ(find(all, "CNTK2.Plus")->sentence, find(all, "Plus")->sentence);
  EXPECT_EQ(find(all, "Length")->sentence, "number of elements of an array, or characters of a text");
  EXPECT_EQ(find(ndl, "LearnableParameter")->sentence, "a trained matrix");
  EXPECT_GE(std::ranges::count_if(all, [](const auto& f) { return !f.sentence.empty(); }), 153);
  for (const auto& f : all) EXPECT_EQ(f.sentence.find("##"), std::string::npos) << f.name;
}

}  // namespace
}  // namespace tutti::brainscript::function_help_test

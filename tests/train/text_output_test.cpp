// SPDX-License-Identifier: Apache-2.0
#include "train/text_output.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tutti::text_output_test {
namespace {

// Two sequences of 2 and 1 samples with 3 elements.
struct Fixture {
  std::vector<float> values{1, 2, 0.5f, 0, 4, 4, -1, 0, 0};
  Network::Output output{"z", Shape{{3}}, 3, true, values, {}};
  std::vector<std::int64_t> begin{0, 2, 3};

  std::string text(const OutputFormat& format, std::vector<std::string> labels = {}) {
    std::ostringstream out;
    TextOutput writer(out, format, "z", std::move(labels));
    writer.write(output, begin, 1);
    writer.finish();
    return out.str();
  }
};

TEST(TextOutput, DefaultIsOneSamplePerLine) {
  EXPECT_EQ(Fixture().text({}),
            "1.000000 2.000000 0.500000\n0.000000 4.000000 4.000000\n-1.000000 0.000000 0.000000\n");
}

TEST(TextOutput, CategoryTakesTheLastOfEqualMaxima) {
  OutputFormat f;
  f.type = OutputType::category;
  EXPECT_EQ(Fixture().text(f), "1\n2\n2\n");
  EXPECT_EQ(Fixture().text(f, {"a", "b", "c"}), "b\nc\nc\n");
  EXPECT_EQ(Fixture().text(f, {"a", "b"}), "1\n2\n2\n");
}

TEST(TextOutput, SparsePrintsWhatIsNotZero) {
  OutputFormat f;
  f.type = OutputType::sparse;
  f.precision_format = ".1";
  EXPECT_EQ(Fixture().text(f), "0:1.0 1:2.0 2:0.5\n1:4.0 2:4.0\n0:-1.0\n");
}

TEST(TextOutput, PatternsAndEscapes) {
  OutputFormat f;
  f.precision_format = ".0";
  f.prologue = "%s[%x]\\n";
  f.epilogue = "end\\n";
  f.sequence_prologue = "<%d:";
  f.sequence_epilogue = ">";
  f.sequence_separator = "\\t";
  f.sample_separator = ";";
  f.element_separator = ",";
  EXPECT_EQ(Fixture().text(f), "z[3]\n<0:1,2,0;0,4,4>\t<1:-1,0,0>end\n");
}

TEST(TextOutput, AnEmptyMinibatchRepeatsNothing) {
  const Fixture x;
  OutputFormat f;
  f.precision_format = ".0";
  f.prologue = "P\\n", f.sequence_separator = "/", f.sequence_epilogue = "";
  std::ostringstream out;
  TextOutput writer(out, f, "z", {});
  Network::Output empty = x.output;
  empty.values = {}, empty.columns = 0;
  const std::int64_t none[] = {0};
  writer.write(empty, none, 0);
  writer.write(x.output, x.begin, 1);
  writer.write(empty, none, 2);
  writer.write(x.output, x.begin, 3);
  writer.finish();
  EXPECT_EQ(out.str(), "P\n1 2 0\n0 4 4/-1 0 0/1 2 0\n0 4 4/-1 0 0");
}

TEST(TextOutput, UntransposedHasOneRowPerLine) {
  OutputFormat f;
  f.precision_format = ".1";
  f.transpose = false;
  EXPECT_EQ(Fixture().text(f), "1.0 0.0\n2.0 4.0\n0.5 4.0\n-1.0\n0.0\n0.0\n");
}

TEST(TextOutput, ValuesWithoutSamplesAreWrittenOnce) {
  Fixture x;
  x.output.per_sample = false;
  x.output.columns = 1;
  x.values.resize(3);
  x.output.values = x.values;
  OutputFormat f;
  f.precision_format = ".1";
  EXPECT_EQ(x.text(f), "1.0 2.0 0.5\n");
}

}  // namespace
}  // namespace tutti::text_output_test

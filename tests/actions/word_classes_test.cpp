// SPDX-License-Identifier: Apache-2.0
// Vocabularies and word classes: what is counted, what becomes unknown, where classes begin.
#include "actions/word_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/write_root.h"
#include "config/load.h"
#include "tutti/error.h"

namespace tutti::actions::word_classes_test {
namespace {

using testing::ElementsAre;

WordClassOptions options(std::int64_t size, std::int64_t classes = 0, std::int64_t cutoff = 0) {
  WordClassOptions o;
  o.begin_sequence = o.end_sequence = "</s>";
  o.vocabulary_size = size, o.classes = classes, o.cutoff = cutoff;
  return o;
}

WordClasses classes_of(const std::string& text, const WordClassOptions& o) {
  std::istringstream in(text);
  return make_word_classes(in, o);
}

std::vector<std::string> words(const WordClasses& c) {
  std::vector<std::string> all;
  for (const auto& w : c.words) all.push_back(w.text + " " + std::to_string(static_cast<int>(w.count)));
  return all;
}

TEST(WordClasses, MarksAreAddedAndTheFirstIsNotCounted) {
  const auto c = classes_of("a b a\n  b b \r\n</s> a b </s>\n\n", options(10));
  EXPECT_THAT(words(c), ElementsAre("</s> 4", "b 4", "<unk> 3"));
  EXPECT_EQ(c.found, 3u);
  EXPECT_EQ(words(classes_of("\xEF\xBB\xBF" "a b a\n  b b \r\n</s> a b </s>\n\n", options(10))), words(c));
  auto other = options(10);
  other.begin_sequence = "<s>";
  EXPECT_THAT(words(classes_of("a\n", other)), ElementsAre("</s> 1", "<unk> 1"));
}

TEST(WordClasses, RareWordsBecomeUnknown) {
  const std::string text = "a a a a b b b c c d\n";
  EXPECT_THAT(words(classes_of(text, options(3))), ElementsAre("<unk> 4", "a 4", "b 3"));
  // Three words are more frequent than 1, and one of the three places is that of the unknown word.
  EXPECT_THAT(words(classes_of(text, options(9, 0, 1))), ElementsAre("<unk> 4", "a 4", "b 3"));
  EXPECT_THAT(words(classes_of("a a <unk> <unk> b\n", options(3))), ElementsAre("<unk> 3", "a 2", "</s> 1"));
  EXPECT_THROW(classes_of(text, options(9, 0, 5)), Error);
}

TEST(WordClasses, ClassesHaveEqualSharesOfTheRoots) {
  std::string text;
  for (int i = 0; i < 200; ++i)
    for (int k = 0; k < 400 / (i + 1); ++k) text += "w" + std::to_string(i) + " ";
  const auto c = classes_of(text + "\n", options(150, 10));
  ASSERT_EQ(c.words.size(), 150u);
  ASSERT_EQ(c.first_words.size(), 10u);
  double total = 0, roots = 0;
  for (const auto& w : c.words) total += w.count;
  for (const auto& w : c.words) roots += std::sqrt(w.count / total);
  std::vector<double> share(10);
  for (std::size_t i = 0; i < c.words.size(); ++i) {
    const auto& w = c.words[i];
    ASSERT_TRUE(0 <= w.cls && w.cls < 10);
    if (i > 0) {
      EXPECT_LE(c.words[i - 1].cls, w.cls);
    }
    share[static_cast<std::size_t>(w.cls)] += std::sqrt(w.count / total) / roots;
    const auto first = static_cast<std::size_t>(c.first_words[static_cast<std::size_t>(w.cls)]);
    EXPECT_LE(first, i);
    EXPECT_EQ(c.words[first].cls, w.cls);
  }
  for (const double s : share) EXPECT_NEAR(s, 0.1, 0.06);
}

TEST(WordClasses, AnEmptyClassBeginsWhereTheNextDoes) {
  const auto c = classes_of("a a a a a a a a a\n", options(3, 3));  // a alone is more than a third
  EXPECT_THAT(words(c), ElementsAre("a 9", "<unk> 1"));
  EXPECT_EQ(c.words[0].cls, 1);
  EXPECT_THAT(c.first_words, ElementsAre(0, 0, 1));
}

// --write-under says nothing of files that are not written.
TEST(WordClasses, FilesOfClassesAreWrittenOnlyWithClasses) {
  set_write_root(testing::TempDir());
  for (const auto& [classes, outside] : {std::pair("0", 1u), std::pair("2", 3u)}) {
    Problems problems;
    config::Notices notices;
    ActionContext context;
    context.command = config::record_from_text(std::string("Words = [ inputFile = \"none.txt\" ; vocabSize = 9\n"
                                                           "beginSequence = x ; endSequence = x\n"
                                                           "outputVocabFile = \"/v\" ; outputWord2Cls = \"/w\"\n"
                                                           "outputCls2Index = \"/i\" ; nbrClass = ") +
                                               classes + " ]")
                          .block("Words");
    context.only_check = true;
    context.problems = &problems, context.notices = &notices;
    find_action("writeWordAndClass")->make(context);
    EXPECT_EQ(problems.count(), outside) << classes;
  }
  set_write_root("/");
}

}  // namespace
}  // namespace tutti::actions::word_classes_test

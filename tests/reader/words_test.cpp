// SPDX-License-Identifier: Apache-2.0
// Sentences of words: language models and tagged words, their vocabularies, labels with classes, and what is said about
// wrong lists and lines.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "block_support.h"
#include "reader/words/word_source.h"
#include "reader_support.h"
#include "source_support.h"

namespace tutti::reader::words_test {
namespace {

const char* const class_lines = "0\t9\t</s>\t0\n1\t7\tthe\t0\n2\t5\t<unk>\t1\n3\t4\tcat\t1\n4\t2\tsat\t2\n";

std::vector<std::int32_t> indices(const StreamData& s) { return {s.indices.begin(), s.indices.end()}; }

using Everything = EverythingOf<WordSource>;

WordReaderOptions sentences(const TemporaryFile& text, const TemporaryFile& list) {
  WordReaderOptions o;
  o.file = text.path();
  o.features = "features", o.label_name = "labels";
  o.input.list = o.label.list = {list.path(), WordList::Kind::class_file};
  o.input.dim = o.label.dim = 5;
  o.input.begin = o.input.end = "</s>";
  return o;
}

WordReaderOptions tagged(const TemporaryFile& text, const TemporaryFile& words, std::int64_t words_dim,
                         const TemporaryFile& tags, std::int64_t tags_dim) {
  WordReaderOptions o;
  o.tagged = true;
  o.file = text.path();
  o.features = "features", o.label_name = "labels";
  o.input.list = {words.path()}, o.label.list = {tags.path()};
  o.input.dim = words_dim, o.label.dim = tags_dim;
  o.input.end = "EOS", o.label.end = "END";
  return o;
}

TEST(Words, TheNextWordIsTheLabel) {
  const TemporaryFile list(class_lines),
      text("\xEF\xBB\xBF</s> the cat sat </s>\n\n</s> </s>\n</s>\tdog  the </s>\r\n");
  Everything e(sentences(text, list));
  // Two sentences: the line of two words has nothing to predict.
  EXPECT_EQ(copy(e.batch->streams[0].sequence_begin), (std::vector<std::int64_t>{0, 4, 7}));
  EXPECT_EQ(indices(e.batch->streams[0]), (std::vector<std::int32_t>{0, 1, 3, 4, 0, 2, 1}));  // dog is unknown
  EXPECT_EQ(copy(e.batch->streams[1].dense),
            (std::vector<float>{1, 0, 0, 2, 3, 1, 2, 4, 4, 2, 4, 5, 0, 0, 0, 2, 2, 1, 2, 4, 1, 0, 0, 2, 0, 0, 0, 2}));
  EXPECT_EQ(e.source.place(1), text.path() + ":4");
}

TEST(Words, OneHotLabelsAndNone) {
  const TemporaryFile list(class_lines), text("</s> the cat </s>\n");
  auto o = sentences(text, list);
  o.mode = WordReaderOptions::Mode::softmax;
  Everything next(o);
  EXPECT_EQ(indices(next.batch->streams[1]), (std::vector<std::int32_t>{1, 3, 0}));
  o.label.type = WordBlock::Type::none;
  Everything inputs(o);
  EXPECT_EQ(inputs.batch->streams.size(), 1u);
  EXPECT_EQ(indices(inputs.batch->streams[0]), (std::vector<std::int32_t>{0, 1, 3, 0}));  // the last word as well
}

TEST(Words, TaggedWordsWithNeighbours) {
  const TemporaryFile words("a\nb\nc\n<unk>\n"), tags("O\nX\nEND\n"), map("c b\na a\nb b\n<unk> <unk>\n"),
      text(
          "\xEF\xBB\xBF"
          "a O\nb X\nq q O\n\n\nc O\nEOS END\na X\n");
  auto o = tagged(text, words, 4, tags, 3);
  o.context.values = {0, 1};
  Everything e(o);
  // Sentences end with a blank line, the end word, and the file. Neighbours outside are the words at the edge.
  EXPECT_EQ(copy(e.batch->streams[0].sequence_begin), (std::vector<std::int64_t>{0, 3, 5, 6}));
  EXPECT_EQ(indices(e.batch->streams[0]), (std::vector<std::int32_t>{0, 4 + 1, 1, 4 + 3, 3, 4 + 3,  //
                                                                     2, 4 + 3, 3, 4 + 3, 0, 4 + 0}));
  EXPECT_EQ(indices(e.batch->streams[1]), (std::vector<std::int32_t>{0, 1, 0, 0, 2, 1}));
  o.context.values = {0};
  o.input.list.mapping = map.path();
  EXPECT_EQ(indices(Everything(o).batch->streams[0]), (std::vector<std::int32_t>{0, 1, 3, 1, 3, 0}));
}

TEST(Words, TaggedWordsWithoutLabels) {
  const TemporaryFile words("a\nb\n<unk>\n"), text("a O\nb a X\n\nq O\n");
  const Outcome o = make(fmt::format(
      "readerType=LUSequenceReader\nrandomize=none\nnbruttsineachrecurrentiter=0\nfile=\"{}\"\nfeatures=[dim=0]\n"
      "labelIn=[token=\"{}\"]\nlabels=[labelType=none]",
      text.path(), words.path()));
  ASSERT_EQ(o.errors, "");
  o.reader->start_epoch({.minibatch = 10});
  const Batch* batch = o.reader->next();
  ASSERT_EQ(batch->streams.size(), 1u);
  EXPECT_EQ(indices(batch->streams[0]), (std::vector<std::int32_t>{0, 1, 0, 2}));
  EXPECT_EQ(copy(batch->streams[0].sequence_begin), (std::vector<std::int64_t>{0, 2, 3}));
}

TEST(Words, TagsAreNotTheNextWord) {
  const TemporaryFile words("a\n"), text("a O\n");
  expect_parts(make(fmt::format("readerType=LUSequenceReader\nfile=\"{}\"\nlabelIn=[token=\"{}\"]\n"
                                "labels=[labelType=nextWord]",
                                text.path(), words.path()))
                   .errors,
               {"run.cntk:4:", "labels of LUSequenceReader are the last column", "labelType = \"category\""});
}

TEST(Words, AFaultyEndOfASentenceIsAnEnd) {
  const TemporaryFile words("a\nb\nEOS\n"), tags("x\ny\nEOS\n"), text("a x\nEOS\nb y\nEOS EOS\n");
  auto o = tagged(text, words, 3, tags, 3);
  o.max_errors = 1;
  Everything e(o);
  EXPECT_EQ(indices(e.batch->streams[0]), (std::vector<std::int32_t>{1, 2}));
}

TEST(Words, SeveralWordsInAStep) {
  const TemporaryFile words("a\nb\nc\n"), tags("O\n"), text("a b O\nc O\n");
  Everything e(tagged(text, words, 3, tags, 1));
  EXPECT_EQ(copy(e.batch->streams[0].column_begin), (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_EQ(indices(e.batch->streams[0]), (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(Words, WrongListsAreNamed) {
  const TemporaryFile text("</s> the </s>\n");
  const struct {
    std::string list;
    std::vector<std::string> parts;
  } cases[] = {
      {"0 9 </s> 0\n1 the 0\n", {":2:", "number, count, word and class"}},
      {"0 9 </s> 0\n0 9 the 0\n", {":2:", "a second time"}},
      {"0 9 </s> 0\n2 9 the 0\n", {"no word with the number 1", "0 to 2"}},
      {"0 9 a 0\n1 9 b 1\n2 9 c 0\n", {"sorted by class"}},
      {"0 9 </s> 0\n1 9 the 1\n", {"has 2 words", "says 5", "labelDim = 2"}},
      {"", {"has no words"}},
  };
  for (const auto& c : cases) {
    const TemporaryFile list(c.list);
    expect_parts(error_of([&] { Everything(sentences(text, list)); }), c.parts);
  }
}

TEST(Words, ClassesMayHaveNoWords) {
  const TemporaryFile list("0 1 a 0\n1 1 b 2\n2 1 c 2\n");
  const Vocabulary v = Vocabulary::from_class_file(list.path());
  ASSERT_EQ(v.classes(), 3u);
  EXPECT_EQ(v.word_class(1).first, v.word_class(1).last);
  EXPECT_EQ(v.word_class(2).first, 1u);
  EXPECT_EQ(v.word_class(2).last, 3u);
}

TEST(Words, WordsWithoutANumberAreErrors) {
  const TemporaryFile list("0 1 </s> 0\n1 1 the 0\n2 1 cat 1\n3 1 sat 1\n4 1 on 2\n"),
      text("</s> the cat </s>\n</s> the dog </s>\n");
  auto o = sentences(text, list);
  expect_parts(error_of([&] { Everything{o}; }), {text.path() + ":2:10", "'dog'", "unk = "});
  o.max_errors = 1;
  EXPECT_EQ(Everything(o).batch->sequences, 1);
}

TEST(Words, Blocks) {
  const TemporaryFile list(class_lines), text("</s> the cat sat </s>\n</s> the </s>\n</s> cat sat </s>\n");
  const std::string at = fmt::format("readerType=LMSequenceReader\nfile=\"{}\"\n", text.path());
  const std::string classes = fmt::format("wordclass=\"{}\"\n", list.path());
  const std::string features = "features=[dim=0;sectionType=data]\nsequence=[dim=1;wrecords=2]\n";
  const std::string blocks =
      "labelIn=[dim=1;labelDim=5;labelType=Category;beginSequence=\"</s>\";endSequence=\"</s>\"]\n"
      "labels=[dim=1;labelType=NextWord;labelDim=5]\n";
  const Outcome one = make(at + classes + features + blocks + "randomize=none");
  ASSERT_EQ(one.errors, "");
  ASSERT_EQ(one.reader->streams().size(), 2u);
  EXPECT_EQ(one.reader->streams()[0].name, "features");
  EXPECT_EQ(one.reader->streams()[0].dim, 5u);
  EXPECT_EQ(one.reader->streams()[1].dim, 4u);
  const auto minibatches = [&](const std::string& settings) {
    const Outcome o = make(at + classes + features + blocks + "randomize=none\n" + settings);
    EXPECT_EQ(o.errors, "");
    std::vector<std::int64_t> samples;
    o.reader->start_epoch({.minibatch = 6});
    while (const Batch* b = o.reader->next()) samples.push_back(b->samples);
    return samples;
  };
  EXPECT_EQ(minibatches(""), (std::vector<std::int64_t>{4, 2, 3}));  // a sentence each
  EXPECT_EQ(minibatches("nbruttsineachrecurrentiter=2"), (std::vector<std::int64_t>{6, 3}));
  EXPECT_EQ(minibatches("nbruttsineachrecurrentiter=0"), (std::vector<std::int64_t>{6, 3}));
  EXPECT_EQ(make(at + classes + "features=[mode=softmax]\n" + blocks).reader->streams()[1].dim, 5u);
  const auto error = [&](const std::string& settings, const std::vector<std::string>& parts) {
    expect_parts(make(settings).errors, parts);
  };
  error(at + classes + features, {"0 blocks of words but needs two"});
  error(at + features + blocks, {"no word list is given for 'labelIn'", "wordclass"});
  error(at + classes + "mode=nce\n" + blocks, {"no noise contrastive estimation", "CLASSLSTM"});
  error(at + classes + blocks + "labelOut=[labelDim=3]", {"3 blocks of words"});
  error(at + classes + "labelIn=[labelType=nextWord;labelDim=5]\nlabels=[labelDim=5]",
        {"the input 'labelIn' must have labelType = category"});
  error(at + classes + "labelIn=[labelType=category]\nlabels=[labelType=nextWord;labelDim=7]",
        {"run.cntk:5:", "labelDim = 7, but the labels are the 5 words of 'labelIn'", "labelDim = 5, or leave it out"});
  error(at + "wordclass=gone\nlabelIn=[labelType=category]\nlabels=[labelType=nextWord]",
        {"run.cntk:3:", "'gone' cannot be read"});
}

TEST(Words, AMapThatNoBlockUsesIsNoted) {
  const TemporaryFile words("a\nb\n"), tags("x\n"), map("a b\n"), text("a x\n");
  const auto notices = [&](const std::string& more) {
    const Outcome o = make(fmt::format(
        "readerType=LUSequenceReader\nfile=\"{}\"\nwordmap=\"{}\"\nlabelIn=[token=\"{}\"{}]\nlabels=[token=\"{}\"]",
        text.path(), map.path(), words.path(), more, tags.path()));
    EXPECT_EQ(o.errors, "");
    return o.notices;
  };
  expect_parts(notices(""), {"run.cntk:3:", "wordmap has no effect without useWordMap"});
  EXPECT_EQ(notices(";useWordMap=true"), "");
}

TEST(Words, RanksDivideTheSentences) {
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += i % 3 == 0 ? "</s> the cat sat </s>\n" : "</s> cat the </s>\n";
  const TemporaryFile list(class_lines), text(lines);
  const auto reader = [&] {
    return std::make_unique<DirectReader>(MinibatchMaker(std::make_unique<WordSource>(sentences(text, list)), {}));
  };
  const auto words = [&](int rank, int ranks, std::int64_t start) {
    const auto r = reader();
    std::vector<std::vector<std::int32_t>> steps;
    r->start_epoch({.minibatch = 20, .start = start, .rank = rank, .ranks = ranks});
    while (const Batch* b = r->next()) steps.push_back(indices(b->streams[0]));
    return steps;
  };
  const auto whole = words(0, 1, 0);
  for (const int ranks : {2, 3}) {
    std::vector<std::size_t> counts(whole.size());
    for (int rank = 0; rank < ranks; ++rank) {
      const auto mine = words(rank, ranks, 0);
      ASSERT_EQ(mine.size(), whole.size());
      for (std::size_t i = 0; i < mine.size(); ++i) counts[i] += mine[i].size();
    }
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(counts[i], whole[i].size());
  }
  // Starting in the middle of an epoch is reading up to there.
  std::int64_t done = 0;
  for (std::size_t i = 0; i < 3; ++i) done += static_cast<std::int64_t>(whole[i].size());
  const auto rest = words(0, 1, done);
  EXPECT_EQ(rest, (std::vector(whole.begin() + 3, whole.end())));
}

}  // namespace
}  // namespace tutti::reader::words_test

// SPDX-License-Identifier: Apache-2.0
// The text format: what is read out of it, what counts as an error, and how errors are shown.
#include <gtest/gtest.h>

#include <numeric>

#include "reader_support.h"
#include "tutti/log.h"

namespace tutti::reader::text_test {
namespace {

const TextStream x2{"features", "x", 2, false};
const TextStream y1{"labels", "y", 1, false};
const TextStream s9{"words", "s", 9, true};

// A file read as a whole in file order: per stream the columns of each sequence.
struct Loaded {
  std::vector<std::vector<float>> dense;
  std::vector<std::vector<std::int64_t>> sequence_begin, column_begin;
  std::vector<std::vector<float>> values;
  std::vector<std::vector<std::int32_t>> indices;
  std::int64_t sequences = 0, samples = 0;
  bool operator==(const Loaded&) const = default;
};

Loaded load(TextReaderOptions options, Randomization r = {false, 0, 0}, int epochs = 1) {
  DirectReader reader(MinibatchMaker(std::make_unique<TextSource>(std::move(options)), r));
  Loaded l;
  for (int e = 0; e < epochs; ++e) {
    reader.start_epoch({.minibatch = 1'000'000'000});
    const Batch* b = reader.next();
    EXPECT_TRUE(b);
    l = {};
    for (const auto& s : b->streams) {
      const auto copy = [](auto span) { return std::vector(span.begin(), span.end()); };
      l.dense.push_back(copy(s.dense));
      l.values.push_back(copy(s.values));
      l.indices.push_back(copy(s.indices));
      l.column_begin.push_back(copy(s.column_begin));
      l.sequence_begin.push_back(copy(s.sequence_begin));
    }
    l.sequences = b->sequences;
    l.samples = b->samples;
    EXPECT_EQ(reader.next(), nullptr);
  }
  return l;
}

Loaded load(const std::string& text, std::vector<TextStream> streams, std::int64_t max_errors = 0) {
  const TemporaryFile file(text);
  return load(text_options(file.path(), std::move(streams), max_errors));
}

// How many errors a text has: the smallest budget that it passes with, or -1 when none helps.
int errors_in(const std::string& text, const std::vector<TextStream>& streams) {
  const TemporaryFile file(text);
  for (int budget = 0; budget < 20; ++budget) {
    TextReaderOptions o = text_options(file.path(), streams);
    o.max_errors = budget;
    TextSource source(o);
    try {
      source.index();
      return budget;
    } catch (const ConfigError& e) {
      if (std::string(e.what()).find("Reached the maximum number") == std::string::npos) return -1;
    }
  }
  return 99;
}

std::string error_of(const std::string& text, const std::vector<TextStream>& streams, std::int64_t max_errors = 0) {
  const TemporaryFile file(text);
  try {
    load(text_options(file.path(), streams, max_errors));
  } catch (const ConfigError& e) {
    std::string what = e.what();
    for (std::size_t at; (at = what.find(file.path())) != std::string::npos;)
      what.replace(at, file.path().size(), "FILE");
    return what;
  }
  return "no error";
}

using Floats = std::vector<float>;
using Ints = std::vector<std::int64_t>;

TEST(Text, DenseLines) {
  const Loaded l = load("|x 1 2 |y 3\n|y 6\t|x  4\t5 \r\n|x 7 8|y 9\n", {x2, y1});
  EXPECT_EQ(l.sequences, 3);
  EXPECT_EQ(l.samples, 3);
  EXPECT_EQ(l.dense[0], (Floats{1, 2, 4, 5, 7, 8}));
  EXPECT_EQ(l.dense[1], (Floats{3, 6, 9}));
  EXPECT_EQ(l.sequence_begin[0], (Ints{0, 1, 2, 3}));
}

TEST(Text, SequencesById) {
  const Loaded l = load("7 |x 1 2 |y 0\n7 |x 3 4\n|x 5 6\n8 |x 7 8 |y 1\n007 |x 9 9 |y 2\n", {x2, y1});
  EXPECT_EQ(l.sequences, 3);
  EXPECT_EQ(l.samples, 5);
  EXPECT_EQ(l.sequence_begin[0], (Ints{0, 3, 4, 5}));
  EXPECT_EQ(l.sequence_begin[1], (Ints{0, 1, 2, 3}));
}

TEST(Text, IdsAreNotUsedWhenTheFileStartsWithABarOrWhenSkipped) {
  EXPECT_EQ(load("|x 1 2\n5 |x 3 4\n5 |x 5 6\n", {x2}).sequences, 3);
  const TemporaryFile file("5 |x 3 4\n5 |x 5 6\n");
  TextReaderOptions o = text_options(file.path(), {x2});
  EXPECT_EQ(load(o).sequences, 1);
  o.skip_sequence_ids = true;
  EXPECT_EQ(load(o).sequences, 2);
}

TEST(Text, Sparse) {
  const Loaded l = load("|s 8:1 0:-2.5\n|s\n|s 3:1e2 3:1\n", {s9});
  EXPECT_EQ(l.values[0], (Floats{1, -2.5f, 100, 1}));
  EXPECT_EQ(l.indices[0], (std::vector<std::int32_t>{8, 0, 3, 3}));
  EXPECT_EQ(l.column_begin[0], (Ints{0, 2, 2, 4}));
}

TEST(Text, CommentsUnknownStreamsAndShortSamples) {
  const Loaded l = load("|# one |x 1 |# two # three|y 2 |zz 5 x : 7\n|longername 1|x 1 2|y 2\n", {x2, y1});
  EXPECT_EQ(l.dense[0], (Floats{1, 0, 1, 2}));
  EXPECT_EQ(l.dense[1], (Floats{2, 2}));
}

TEST(Text, ControlCharactersEndAList) {
  EXPECT_EQ(load("\xEF\xBB\xBF|x 1\x01\x02 |y 2\x7F\n", {x2}).dense[0], (Floats{1, 0}));
  EXPECT_EQ(errors_in("|x 1\x01 2\n", {x2}), 1);  // a number where '|' is expected
}

TEST(Text, CountsErrors) {
  const std::vector<TextStream> xy{x2, y1};
  EXPECT_EQ(errors_in("|x 1 2 |y 3\n", xy), 0);
  EXPECT_EQ(errors_in("|x 1 b |y 3\n|x 1 2 |y 3\n", xy), 1);    // a bad number
  EXPECT_EQ(errors_in("|x 1 2 3 |y 3\n|x 1 2 |y 3\n", xy), 1);  // a sample too long
  EXPECT_EQ(errors_in("|x 1 2 |y .5\n|x 1 2 |y 3\n", xy), 1);   // no leading digit
  EXPECT_EQ(errors_in("|x 1 inf |y 5\n|x 1 2 |y 3\n", xy), 1);
  EXPECT_EQ(errors_in("|x 1 1e39 |y 5\n|x 1 2 |y 3\n", xy), 1);  // beyond float
  EXPECT_EQ(errors_in("|x 1 2 |y 3\n|s 9:1\n", {s9}), -1);       // a line without the stream at all
  EXPECT_EQ(errors_in("|s 1:1\n|s 9:1\n", {s9}), 2);             // index out of range, and nothing else on the line
  EXPECT_EQ(errors_in("|s 1:1\n|s 1\n", {s9}), 2);               // missing colon
  EXPECT_EQ(errors_in("|s 1:1\n|s 1: 2\n", {s9}), 2);
  EXPECT_EQ(errors_in("|s 1:1\n|s -1:2\n", {s9}), 2);
  EXPECT_EQ(errors_in("|s 1:1\n|s 99999999999999999999999:2\n", {s9}), 2);
  EXPECT_EQ(errors_in("|x 1 2 |y 3 |\n", xy), 1);  // empty name
  EXPECT_EQ(errors_in("|x 1 2 | y 3\n|x 1 2 |y 1\n", xy), 1);
  EXPECT_EQ(errors_in("|x 1 2 |y 3 |" + std::string(300, 'n') + " 1\n", xy), 1);  // name too long
  EXPECT_EQ(errors_in("|x 1 2 |y 3\n\n|x 1 2 |y 3\n", xy), 1);                    // a blank line
  EXPECT_EQ(errors_in("1 |x 1 2 |y 3\n\n2 |x 1 2 |y 3\n", xy), 2);                // and more lines than samples
  EXPECT_EQ(errors_in("1 |x 1 2 |y 3\n |# words\n2 |x 1 2 |y 3\n", xy), 2);
  EXPECT_EQ(errors_in("|x 1 2 |y 3\n|z 1\n", xy), 1);  // a line of skipped streams is a blank one
  EXPECT_EQ(errors_in("1 |x 1 2 |y 3\n1 |z 1\n", xy), 2);
  EXPECT_EQ(errors_in("|x 1 2 |x 3 4|y 3\n", xy), 1);                    // more samples than lines
  EXPECT_EQ(errors_in("1 |x 1 2 |y 3\n1 |y 5|x b\n1 |x 1 2\n", xy), 2);  // no stream has three samples
  EXPECT_EQ(errors_in("1 |x 1 2 |y 3\n 1 |x 3 4\n", xy), 1);             // text before the bar
  EXPECT_EQ(errors_in("|x 1 2 |y 3\n|x 1 2 |y 4", xy), 2);               // no newline at the end
  EXPECT_EQ(errors_in("|x 1 2 |y 3\n \t", xy), 0);                       // nothing is lost there
  EXPECT_EQ(errors_in("|x 1 2\n", xy), -1);                              // a stream is missing, whatever the budget
  EXPECT_EQ(errors_in("1 |x 1 2 |y 3\n2 |x 1 2\n2 |x 1 2\n", xy), -1);
  EXPECT_EQ(errors_in("x 1 2\n", xy), -1);  // neither an id nor a bar
  EXPECT_EQ(errors_in("18446744073709551615 |x 1 2 |y 3\n00000000000000000000000001 |x 1 2 |y 3\n", xy), 0);
  EXPECT_EQ(errors_in("1 |x 1 2 |y 3\n18446744073709551616 |x 1 2 |y 3\n", xy), 1);  // an id beyond 64 bits
  EXPECT_EQ(errors_in("|x 1 2 |y 3\n18446744073709551616 |x 1 2 |y 3\n", xy), 0);    // which is not used
}

TEST(Text, KeepsWhatIsGood) {
  EXPECT_EQ(load("|x 1 2 |y 3\n|x 1 b |y 4\n|x 5 6 |y 7\n", {x2, y1}, 1).dense[1], (Floats{3, 7}));
  // A bad sample is skipped within its sequence; the sequence stays.
  const Loaded l = load("1 |x 1 2 |y 3\n1 |x b b |y 4\n1 |x 5 6 |y 7\n2 |x 8 8 |y 9\n", {x2, y1}, 1);
  EXPECT_EQ(l.sequence_begin[0], (Ints{0, 2, 3}));
  EXPECT_EQ(l.sequence_begin[1], (Ints{0, 3, 4}));
  EXPECT_EQ(l.samples, 4);
  EXPECT_EQ(load("|x 1 2 |x 3 4|y 3\n", {x2, y1}, 1).dense[0], (Floats{1, 2}));
  EXPECT_EQ(load("1 |x 1 2\n99999999999999999999 |x 3 4\n2 |x 5 6\n", {x2}, 1).dense[0], (Floats{1, 2, 5, 6}));
  EXPECT_EQ(load("|s 1:1 2:b |y 1\n|s 3:1 |y 2\n", {s9, y1}, 1).indices[0], (std::vector<std::int32_t>{3}));
  EXPECT_EQ(load("1 |x 1 2\n1 |x 3 4\n1 |x 5 6", {x2}, 2).dense[0], (Floats{1, 2, 3, 4}));
}

TEST(Text, ErrorsShowPlaceAndFix) {
  EXPECT_EQ(
      error_of("|x 1 2 |y 3\n|x 1 2,5 |y 4\n", {x2, y1}),
      "FILE:2:7: error: ',5' is not a number\n"
      "    2 | |x 1 2,5 |y 4\n"
      "      |       ^~\n"
      "fix: a number is [+-]digits[.digits][e[+-]digits], with a digit in front of the point; inf and nan are none\n"
      "\n"
      "error: Reached the maximum number of allowed errors while reading the input file (FILE).\n"
      "fix: correct the file; maxErrors = 0 is how many errors are tolerated\n");
  EXPECT_NE(error_of("|x 1 2 |y 3\n|x 1 2\n", {x2, y1}).find("FILE:2:1: error: Malformed input file. Bailing out"),
            std::string::npos);
  EXPECT_NE(error_of("|x 1 2 3 |y 3\n", {x2, y1}).find("correct it, or dim = 3 of stream"), std::string::npos);
  EXPECT_NE(error_of("|x 1 2 |y 3", {x2, y1}).find("FILE:1:11: error: the last line has no newline"),
            std::string::npos);
  EXPECT_NE(error_of("", {x2}).find("Input file is empty"), std::string::npos);
  EXPECT_NE(error_of("\xFF\xFE|", {x2}).find("UTF-16"), std::string::npos);
  EXPECT_NE(error_of("\x1f\x8b\x08", {x2}).find("compressed (gzip)"), std::string::npos);
  EXPECT_NE(error_of("|x 1 b\x1b[31m\n", {x2}).find("|x 1 b?[31m\n"), std::string::npos);
  EXPECT_NE(error_of("1 |x 1 2\n18446744073709551616 |x 1 2\n", {x2}).find("FILE:2:1: error: the sequence id 1844"),
            std::string::npos);
  EXPECT_NE(error_of(std::string("|x 1 b ") + std::string(100000, '7') + "\n", {x2}).size(), 100000u);
  EXPECT_LT(error_of(std::string("|x 1 b ") + std::string(100000, '7') + "\n", {x2}).size(), 1500u);
  // All errors up to the one too many are shown.
  const std::string several = error_of("|x b\n|x 1 2\n|x c\n", {x2}, 3);
  for (const char* place : {"FILE:1:4:", "FILE:1:1:", "FILE:3:4:", "FILE:3:1:"})
    EXPECT_NE(several.find(place), std::string::npos) << several;
}

TEST(Text, WarnsOncePerUnknownStream) {
  const TemporaryFile file("|features 1 2 |featurs 3\n|features 1 |featurs 3\n|features 1 2 |other 1\n");
  const TemporaryFile log_file("");
  log::open({.path = log_file.path()});
  TextReaderOptions o = text_options(file.path(), {{"features", "features", 2, false}});
  o.trace_level = 1;
  load(o);
  log::close();
  std::ifstream in(log_file.path());
  const std::string log((std::istreambuf_iterator<char>(in)), {});
  const auto first = log.find("stream 'featurs' is in no block");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("stream 'featurs' is in no block", first + 1), std::string::npos) << log;
  EXPECT_NE(log.find("did you mean 'features'?"), std::string::npos) << log;
  EXPECT_NE(log.find("stream 'other' is in no block"), std::string::npos) << log;
  EXPECT_NE(log.find(":2:2: warning: stream 'features' has 1 numbers here, but dim is 2"), std::string::npos) << log;
}

TEST(Text, KeptDataEqualParsedData) {
  std::string text;
  for (int i = 0; i < 500; ++i) {
    const std::string id = std::to_string(i / (1 + i % 4));
    text += id + " |x " + std::to_string(i) + ".25 -" + std::to_string(i * 7) + "e-2 |s " +
            (i % 3 ? std::to_string(i % 9) + ":" + std::to_string(i) : "") + (i % 5 == 0 ? " 2:1 4:4" : "") + "\n";
  }
  const TemporaryFile file(text);
  TextReaderOptions keep = text_options(file.path(), {x2, s9});
  TextReaderOptions drop = keep;
  drop.keep_bytes = 0;
  const Loaded once = load(drop);
  EXPECT_EQ(once, load(keep, {false, 0, 0}, 3));
  EXPECT_EQ(once, load(drop, {false, 0, 0}, 3));
  EXPECT_EQ(load(keep, {true, 30, 5}, 2), load(drop, {true, 30, 5}, 1));
}

TEST(Text, ChunksAreCutByBytes) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "|x 1 2\n";  // 7 bytes each
  const TemporaryFile file(text);
  TextReaderOptions o = text_options(file.path(), {x2});
  o.chunk_bytes = 30;
  TextSource source(o);
  EXPECT_EQ(source.index().chunks().size(), 25u);
  EXPECT_EQ(source.index().chunks()[3].sequences, 4u);
  o.chunk_bytes = 1;  // a sequence is never cut
  EXPECT_EQ(TextSource(o).index().chunks().size(), 100u);
}

TEST(Text, AChangedFileIsNoticed) {
  const TemporaryFile file("|x 1 2\n|x 3 4\n");
  DirectReader reader(MinibatchMaker(std::make_unique<TextSource>(text_options(file.path(), {x2})), {}));
  reader.start_epoch({});
  file.write("|x 1 2\n|x 3 4\n|x 5 6\n");
  EXPECT_THROW(reader.start_epoch({.epoch = 1}), Error);
}

TEST(Text, MissingFile) { EXPECT_THROW(TextSource(text_options("/no/such/file", {x2})), Error); }

}  // namespace
}  // namespace tutti::reader::text_test

// SPDX-License-Identifier: Apache-2.0
// Columns of text and CSV files: delimiters, decimal points, labels by name and number, and what is said about broken
// lines.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "block_support.h"
#include "config/load.h"
#include "reader/uci/uci_source.h"
#include "reader_support.h"
#include "source_support.h"

namespace tutti::reader::uci_test {
namespace {

using Everything = EverythingOf<UciSource>;

UciReaderOptions columns(const std::string& path, char delimiter = 0) {
  UciReaderOptions o;
  o.file = path;
  o.delimiter = delimiter;
  o.streams = {{"x", {.dim = 2, .start = 1}}, {"y", {.classes = 3, .labels = true}}};
  return o;
}

TEST(Uci, BlanksAndOtherDelimiters) {
  const std::vector<float> x{0.5f, -2, 1e-3f, 40, 7, 0}, y{0, 0, 1, 1, 0, 0, 0, 1, 0};
  const TemporaryFile blanks("2 0.5   -2 extra\r\n\n 0\t1e-3 +40\n1 7 .0"),
      commas("2,0.5,-2,extra\n0, 1e-3 ,4e1\n\"1\",\"7\",1e-99\n"), german("2;0,5;-2\n0;1e-3;40,0\n1;7;0\n");
  auto european = columns(german.path(), ';');
  european.decimal_point = ',';
  for (const std::int64_t keep : {0, 30, 1000})
    for (auto o : {columns(blanks.path()), columns(commas.path(), ','), european}) {
      o.keep_bytes = keep;
      Everything e(o);
      EXPECT_EQ(copy(e.batch->streams[0].dense), x) << o.file;
      EXPECT_EQ(copy(e.batch->streams[1].dense), y);
      EXPECT_EQ(e.batch->samples, 3);
    }
  EXPECT_EQ(Everything(columns(blanks.path())).source.place(1), blanks.path() + ":3");
}

TEST(Uci, LabelsByNameHeadersAndNumbers) {
  const TemporaryFile file("kind,a,b\nrose,1,2\n\"old oak\",3,4\nrose,5,6\n"), names("old oak \nrose\r\n\n");
  auto o = columns(file.path(), ',');
  o.header_lines = 1;
  o.streams[1].second.mapping = names.path();
  o.streams[1].second.sparse = true;
  o.streams.push_back({"b", {.dim = 1, .start = 2}});
  Everything e(o);
  EXPECT_EQ(std::vector<std::int32_t>(e.batch->streams[1].indices.begin(), e.batch->streams[1].indices.end()),
            (std::vector<std::int32_t>{1, 0, 1}));
  EXPECT_EQ(copy(e.batch->streams[2].dense), (std::vector<float>{2, 4, 6}));
}

TEST(Uci, BrokenLinesAreNamedAndTolerated) {
  const struct {
    std::string line;
    std::vector<std::string> parts;
  } cases[] = {{"1 2", {":2:1:", "2 columns, 3 are needed"}},
               {"1 2 x", {":2:5:", "'x' in column 2"}},
               {"3 1 1", {":2:1:", "'3' is not a class from 0 to 2"}},
               {"-1 1 1", {":2:1:", "'-1' is not a class"}},
               {"1 nan 1", {":2:3:", "'nan' in column 1"}},
               {"1 1e99 1", {":2:3:", "'1e99'"}},
               {"1,2,3", {"1 column, 3", "customDelimiter"}},
               {"1.0 2 3", {"'1.0' is not a class"}}};
  for (const auto& c : cases) {
    const TemporaryFile file("0 1 2\n" + c.line + "\n1 3 4\n");
    auto o = columns(file.path());
    expect_parts(error_of([&] { Everything{o}; }), c.parts);
    for (const std::int64_t keep : {0, 1000}) {
      o.keep_bytes = keep;
      o.max_errors = 1;
      EXPECT_EQ(copy(Everything(o).batch->streams[0].dense), (std::vector<float>{1, 2, 3, 4})) << c.line;
    }
  }
  const TemporaryFile empty(""), names("a\nb\na\n"), many("a\nb\nc\nd\n"), file("a 1 2\n");
  expect_parts(error_of([&] { Everything{columns(empty.path())}; }), {empty.path(), "no usable line"});
  auto o = columns(file.path());
  o.streams[1].second.mapping = names.path();
  expect_parts(error_of([&] { Everything{o}; }), {names.path() + ":3:1", "a second time"});
  o.streams[1].second.mapping = many.path();
  expect_parts(error_of([&] { Everything{o}; }), {"4 labels, more than labelDim = 3"});
  const TemporaryFile gap("a\n\nb\n");
  o.streams[1].second.mapping = gap.path();
  expect_parts(error_of([&] { Everything{o}; }), {gap.path() + ":2:1", "an empty line", "the number of a line"});
}

TEST(Uci, WithADecimalCommaAPointIsAFault) {
  const TemporaryFile file("0;0,5;-2\n0;1.234;4\n1;1.234,5;4\n1;7;0\n");
  auto o = columns(file.path(), ';');
  o.decimal_point = ",";
  expect_parts(error_of([&] { Everything{o}; }), {":2:3:", "'1.234' in column 1", "customDecimalPoint = \",\""});
  o.max_errors = 2;
  EXPECT_EQ(copy(Everything(o).batch->streams[0].dense), (std::vector<float>{0.5f, -2, 7, 0}));
}

TEST(Uci, ADelimiterWithinQuotesIsAFault) {
  const TemporaryFile file("\"Ann\",3,22,\"a, b\"\n\"Bob, Jr\",1,35,c\n\",\",1,35,c\n"), blanks("\"Bob Jr\" 1 35\n");
  UciReaderOptions o = columns(file.path(), ',');
  o.streams.pop_back();
  expect_parts(error_of([&] { Everything{o}; }), {":2:1:", "this field begins with a quote and does not end with one", "customDelimiter"});
  o.max_errors = 2;
  EXPECT_EQ(copy(Everything(o).batch->streams[0].dense), (std::vector<float>{3, 22}));
  o.file = blanks.path(), o.delimiter = "", o.max_errors = 0;
  expect_parts(error_of([&] { Everything{o}; }), {":1:1:", "this field begins with a quote and does not end with one"});
}

TEST(Uci, TitlesDelimitersAndCompressionAreRecognised) {
  const auto error = [](const std::string& text, char delimiter) {
    const TemporaryFile file(text);
    return error_of([&] { Everything{columns(file.path(), delimiter)}; });
  };
  expect_parts(error("y a b\n0 1 2\n", 0), {":1:3:", "'a' in column 1", "headerLines = 1"});
  EXPECT_EQ(error("0 1 2\ny a b\n", 0).find("headerLines"), std::string::npos);
  expect_parts(error("1;2;1\n", ','), {"1 column, 3 are needed", "customDelimiter = \";\""});
  expect_parts(error("1\t2\t1\n", ','), {"customDelimiter = \"\\t\""});
  expect_parts(error("1 2 1\n", ','), {"customDelimiter = \"\" "});
  expect_parts(error("1,2\n", ','), {"2 columns, 3 are needed", "dim and start"});
  expect_parts(error("\x1f\x8b\x08\n", 0), {"compressed (gzip)", "gunzip"});
  EXPECT_EQ(error("0 \x1b[31m 1\n", ',').find('\x1b'), std::string::npos);
  EXPECT_EQ(error("0,\x1b[31m,1\n", ',').find('\x1b'), std::string::npos);
}

// Of a list of characters, too, one of which is the blank.
TEST(LabelMapping, TheNumberOfALineIsTheClass) {
  const TemporaryFile names("\xEF\xBB\xBF a b \n \r\n\tc\n\n  \n");
  EXPECT_EQ(label_mapping_lines(names.path()), (std::vector<std::string>{"a b", " ", "c"}));
  const TemporaryFile blank_last("a\nb\n \n");
  EXPECT_EQ(label_mapping_lines(blank_last.path()), (std::vector<std::string>{"a", "b", " "}));
  EXPECT_FALSE(label_mapping_lines("/nowhere"));
}

TEST(Uci, SameSamplesForAnyNumberOfRanks) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += fmt::format("{} 0\n", i);
  const TemporaryFile file(text);
  UciReaderOptions o;
  o.file = file.path();
  o.streams = {{"x", {.dim = 1}}};
  o.chunk_bytes = 60;
  const auto reader = [&] { return DirectReader(MinibatchMaker(std::make_unique<UciSource>(o), {true, 30, 0})); };
  DirectReader alone = reader();
  const auto whole = read_epoch(alone, {.minibatch = 9});
  for (const int ranks : {2, 3}) {
    std::vector<std::vector<Seen>> shares;
    for (int r = 0; r < ranks; ++r) {
      DirectReader one = reader();
      shares.push_back(read_epoch(one, {.minibatch = 9, .rank = r, .ranks = ranks}));
    }
    std::size_t place = 0;
    for (std::size_t step = 0; step < whole.size(); ++step)
      for (const std::uint32_t expected : whole[step].sequences) {
        auto& mine = shares[place++ % static_cast<std::size_t>(ranks)][step].sequences;
        ASSERT_FALSE(mine.empty());
        EXPECT_EQ(mine.front(), expected);
        mine.erase(mine.begin());
      }
    EXPECT_EQ(place, 100u);
  }
}

TEST(Uci, Blocks) {
  const TemporaryFile file("1 2 0\n3 4 1\n"), other("");
  const auto make = [](const std::string& settings, const std::string& action = "test") {
    return make_reader(
        config::record_from_text("reader=[readerType=UCIFastReader\n" + settings + "]", "run.cntk").block("reader"),
        {.action = action});
  };
  const auto values = [](Reader& reader, std::size_t stream) {
    reader.start_epoch({.minibatch = 10});
    return copy(reader.next()->streams[stream].dense);
  };
  const std::string at = "file=\"" + file.path() + "\"";
  const auto classes = make(at +
                            "\nminibatchMode=partial\nrandomize=none\nfeatures=[dim=2;start=0]\nlabels=[dim=1;start=2;"
                            "labelDim=2;labelType=category]");
  EXPECT_EQ(values(*classes, 0), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(values(*classes, 1), (std::vector<float>{1, 0, 0, 1}));
  const auto regression =
      make("features=[dim=1;start=1;" + at + "]\nlabels=[dim=1;start=2;labelType=regression;" + at + "]");
  EXPECT_EQ(values(*regression, 1), (std::vector<float>{0, 1}));
  EXPECT_EQ(make(at + "\nfeatures=[dim=3]\nlabels=[labelType=none]")->streams().size(), 1u);
  const auto top = config::record_from_text("labelDim=2;labelType=category\nreader=[readerType=UCIFastReader\n" + at +
                                                "\nfeatures=[dim=2;start=0]\nlabels=[start=2;labelDim=$labelDim$]]",
                                            "run.cntk");
  const auto inherited = make_reader(top.block("reader"), {.action = "test"});
  EXPECT_EQ(values(*inherited, 0), (std::vector<float>{1, 2, 3, 4})) << "a labelDim further out makes no classes";
  EXPECT_EQ(values(*inherited, 1), (std::vector<float>{1, 0, 0, 1}));
  const auto error = [&](const std::string& settings, const std::vector<std::string>& parts) {
    expect_parts(error_of([&] { make(settings); }), parts);
  };
  error(at, {"has no streams"});
  error("features=[dim=2]", {"has no file"});
  error("file=gone\nfeatures=[dim=2]", {"run.cntk:2:", "'gone' cannot be read"});
  error(at + "\nfeatures=[dim=2;file=\"" + other.path() + "\"]", {"two files"});
  error(at + "\nfeatures=[start=2]", {"dim is the number of columns"});
  error(at + "\nfeatures=[dim=2;format=sparse]", {"only a stream of classes can be sparse"});
  error(at + "\nlabels=[labelType=category]", {"labelDim is the number of classes"});
  error(at + "\nfeatures=[dim=2]\ncustomDelimiter=ab", {"the delimiter is one character"});
  error(at + "\nfeatures=[dim=2]\nrandomize=perhaps", {"randomize cannot be 'perhaps'"});
  error(at + "\nfeatures=[dim=2;strat=1]", {"did you mean 'start'"});
}

TEST(Uci, RegressionHasNoNamesOfClasses) {
  const TemporaryFile file("1 2\n3 4\n"), names("a\nb\n");
  const Outcome o = make("readerType=UCIFastReader;file=\"" + file.path() +
                             "\"\ny=[dim=1;start=1;labelType=regression;labelMappingFile=\"" + names.path() + "\"]",
                         "test");
  ASSERT_TRUE(o.reader) << o.errors;
  o.reader->start_epoch({.minibatch = 10});
  EXPECT_EQ(copy(o.reader->next()->streams[0].dense), (std::vector<float>{2, 4}));
  EXPECT_NE(o.notices.find("labelMappingFile has no effect with labelType = regression"), std::string::npos)
      << o.notices;
}

}  // namespace
}  // namespace tutti::reader::uci_test

// SPDX-License-Identifier: Apache-2.0
// CompositeDataReader: joins by key in any order, what is missing or double, damage in one part, transforms as a list.
#include <gtest/gtest.h>

#include "block_support.h"
#include "config/load.h"
#include "image_support.h"
#include "reader/composite/composite_source.h"
#include "tutti/reader.h"

namespace tutti::reader::composite_test {
namespace {

Outcome make_composite(const std::string& settings, const std::string& action = "test") {
  return make("readerType=CompositeDataReader\n" + settings, action);
}

// Dense streams of all minibatches, each sequence as the numbers of its streams.
using Rows = std::vector<std::vector<std::vector<float>>>;
Rows read_all(Reader& reader, const EpochPlan& plan = {.minibatch = 3}) {
  Rows rows;
  reader.start_epoch(plan);
  while (const Batch* b = reader.next())
    for (std::size_t i = 0; i < static_cast<std::size_t>(b->sequences); ++i) {
      auto& row = rows.emplace_back();
      for (std::size_t s = 0; s < b->streams.size(); ++s) {
        const auto& d = b->streams[s];
        const std::size_t dim = reader.streams()[s].dim;
        const auto begin = static_cast<std::size_t>(d.sequence_begin[i]),
                   end = static_cast<std::size_t>(d.sequence_begin[i + 1]);
        if (reader.streams()[s].sparse) {
          row.emplace_back();
          for (auto c = d.column_begin[begin]; c < d.column_begin[end]; ++c)
            row.back().push_back(static_cast<float>(d.indices[static_cast<std::size_t>(c)]));
        } else {
          row.emplace_back(d.dense.begin() + static_cast<long>(begin * dim),
                           d.dense.begin() + static_cast<long>(end * dim));
        }
      }
    }
  return rows;
}

std::string text(const std::string& file, const std::string& stream, int dim = 1, const std::string& format = "dense") {
  return "[type=CNTKTextFormatDeserializer;file=\"" + file + "\";input=[" + stream + "=[alias=" + stream[0] +
         ";dim=" + std::to_string(dim) + ";format=" + format + "]]]";
}
std::string all(const std::string& a, const std::string& b, const std::string& more = "") {
  return more + "\ndeserializers=(" + a + ":" + b + ")";
}

void expect_error(const std::string& settings, const std::vector<std::string>& parts) {
  Outcome o = make_composite(settings);
  std::string errors = o.errors;
  if (o.reader) {
    try {
      read_all(*o.reader);
    } catch (const std::exception& e) {
      errors = e.what();
    }
  }
  for (const auto& part : parts) EXPECT_NE(errors.find(part), std::string::npos) << part << " is not in:\n" << errors;
}

TEST(Composite, JoinsByKeyInTheOrderOfTheFirst) {
  const TemporaryFile a("5 |x 50\n7 |x 70\n7 |x 71\n6 |x 60\n"),
      b("7 |y 7\n5 |y 5\n5 |y 55\n5 |y 555\n6 |y 6\n9 |y 9\n");
  const auto o = make_composite(all(text(a.path(), "x"), text(b.path(), "y")));
  ASSERT_TRUE(o.reader) << o.errors;
  EXPECT_EQ(o.reader->sweep_samples(), 3 + 2 + 1) << "a sequence is as long as its longest stream";
  EXPECT_EQ(read_all(*o.reader, {.minibatch = 4}), (Rows{{{50}, {5, 55, 555}}, {{70, 71}, {7}}, {{60}, {6}}}));
  const auto sparse = make_composite(all(text(a.path(), "x"), text(b.path(), "y")) + "\nrandomize=true", "train");
  EXPECT_EQ(read_all(*sparse.reader).size(), 3u);
}

// Text deserializers inherit the size of chunks.
TEST(Composite, ChunksAreShuffledAsUnits) {
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += std::to_string(i) + " |x " + std::to_string(i) + "\n";
  const TemporaryFile a(lines);
  const auto order = [&](const std::string& settings) {
    const auto o = make_composite("deserializers=(" + text(a.path(), "x") + ")\nrandomize=true;" + settings, "train");
    EXPECT_TRUE(o.reader) << o.errors;
    EXPECT_TRUE(o.notices.empty());
    return read_all(*o.reader);
  };
  EXPECT_NE(order("randomizationWindow=10;chunkSizeInBytes=50"), order("randomizationWindow=10"));
}

TEST(Composite, OneDeserializerAlone) {
  const TemporaryFile a("|x 1\n|x 2\n");
  const auto o = make_composite("deserializers=(" + text(a.path(), "x") + ")");
  ASSERT_TRUE(o.reader) << o.errors;
  EXPECT_EQ(read_all(*o.reader), (Rows{{{1}}, {{2}}}));
}

TEST(Composite, MissingAndDoubleKeys) {
  const TemporaryFile a("1 |x 1\n2 |x 2\n3 |x 3\n4 |x 4\n"), b("4 |y 4\n1 |y 1\n2 |y 2\n"),
      c("1 |y 1\n2 |y 2\n3 |y 3\n2 |y 22\n4 |y 4\n"), none("11 |y 1\n12 |y 1\n");
  const std::string missing = all(text(a.path(), "x"), text(b.path(), "y"));
  expect_error(missing,
               {a.path() + ":3: deserializer 2 (stream 'y') has no sequence with the key '3'", "maximum number"});
  EXPECT_EQ(read_all(*make_composite("maxErrors=1\n" + missing).reader), (Rows{{{1}, {1}}, {{2}, {2}}, {{4}, {4}}}));
  const std::string twice = all(text(a.path(), "x"), text(c.path(), "y"));
  expect_error(twice, {c.path() + ":4: the key '2' stands at " + c.path() + ":2 already"});
  EXPECT_EQ(read_all(*make_composite("maxErrors=1\n" + twice).reader)[1], (std::vector<std::vector<float>>{{2}, {2}}));
  expect_error("maxErrors=9\n" + all(text(a.path(), "x"), text(none.path(), "y")),
               {"no sequence of the first deserializer", "like '1'", "like '11'"});
}

// A line that was dropped still counts, so that the others keep their keys.
TEST(Composite, LinesWithoutIdsCountFromTheStartOfTheFile) {
  const TemporaryFile a("|x 0\n|x bad\n|x 2\n|x 3\n|x 4\n"), b("|y 0\n|y 1\n|y 2\n|y bad\n|y 4\n");
  const auto o = make_composite("maxErrors=9\n" + all(text(a.path(), "x"), text(b.path(), "y")));
  ASSERT_TRUE(o.reader) << o.errors;
  EXPECT_EQ(read_all(*o.reader), (Rows{{{0}, {0}}, {{2}, {2}}, {{4}, {4}}}));
  const TemporaryFile first("|x bad\n|x bad\n|x 2\n");
  const auto late = make_composite("maxErrors=9\n" + all(text(first.path(), "x"), text(b.path(), "y")));
  ASSERT_TRUE(late.reader) << late.errors;
  EXPECT_EQ(read_all(*late.reader), (Rows{{{2}, {2}}}));
}

// As without frame mode, whatever the order of the ids, and also behind a line that was dropped.
TEST(Composite, FramesOfTextFilesKeepTheirIds) {
  const TemporaryFile a("5 |x 50\n|x 51\n3 |x 30\n8 |x 80\n8 |x 81\n8 |x 82\n"),
      b("8 |y 80\n8 |y 81\n8 |y 82\n3 |y 30\n5 |y 50\n5 |y 51\n"),
      damaged("8 |y 80\n8 |y bad\n8 |y 82\n3 |y 30\n5 |y 50\n5 |y bad\n"),
      longer("3 |y 30\n3 |y 31\n5 |y 50\n5 |y 51\n"),
      padded("08 |y 80\n8 |y 81\n8 |y 82\n3 |y 30\n5 |y 50\n5 |y 51\n");
  const auto rows_of = [&](const TemporaryFile& second, const std::string& more = "") {
    const auto o = make_composite("frameMode=true\n" + all(text(a.path(), "x"), text(second.path(), "y"), more));
    EXPECT_TRUE(o.reader) << o.errors;
    std::vector<float> x, y;
    for (const auto& row : read_all(*o.reader)) {
      EXPECT_EQ(row[0].size(), 1u);
      x.push_back(row[0][0]), y.push_back(row[1][0]);
    }
    EXPECT_EQ(x, y);
    return x;
  };
  EXPECT_EQ(rows_of(b), (std::vector<float>{50, 51, 30, 80, 81, 82}));
  EXPECT_EQ(rows_of(padded, "useNumericSequenceKeys=true"), (std::vector<float>{50, 51, 30, 80, 81, 82}));
  EXPECT_EQ(rows_of(damaged, "maxErrors=9"), (std::vector<float>{50, 30, 80, 82}));
  const std::string two = "frameMode=true\n" + all(text(a.path(), "x"), text(longer.path(), "y"));
  expect_error(two, {a.path() + ":4: deserializer 2 (stream 'y') has no sequence with the key '8'", "maximum number"});
  EXPECT_EQ(rows_of(longer, "maxErrors=9"), (std::vector<float>{50, 51})) << "3 has a second frame in one file only";
}

// As an image has.
TEST(Composite, FurtherFramesOfWholeSequencesAreErrors) {
  const TemporaryFile a("5 |x 50\n3 |x 30\n"), b("3 |y 30\n5 |y 50\n5 |y 51\n");
  std::string whole = text(a.path(), "x");
  whole.insert(1, "frameMode=false;");
  const std::string both = "frameMode=true\n" + all(whole, text(b.path(), "y"));
  expect_error(both, {a.path() + ":1: this is the only frame of its utterance, but deserializer 2 (stream 'y') has a "
                                 "further one, '5#1' (" + b.path() + ":3)"});
  EXPECT_EQ(read_all(*make_composite("maxErrors=1\n" + both).reader), (Rows{{{30}, {30}}}));
}

class CompositeImages : public ::testing::Test {
 protected:
  static std::string images(const std::string& file, const std::string& transforms = "", const std::string& more = "") {
    return "[type=ImageDeserializer;module=ImageReader;file=\"" + file + "\";" + more + "\ninput=[f=[transforms=(" +
           transforms + "[type=Scale;width=4;height=3;channels=3])]\nl=[labelDim=3;format=sparse]]]";
  }
  std::string png(const std::string& name, unsigned salt) {
    return folder_.write(name, png_of(numbered(4, 3, 3, salt)));
  }
  TemporaryFolder folder_;
};

TEST_F(CompositeImages, KeysOfMapsAndNumbers) {
  png("a.png", 1), png("b.png", 2);
  const std::string map = folder_.write("map.txt", "007\t.../a.png\t2\n8\t.../b.png\t0\n");
  const std::string ids = folder_.write("text", "8 |y 80\n7 |y 70\n");
  const std::string settings = all(images(map), text(ids, "y"));
  expect_error(settings, {"map.txt:1: deserializer 2 (stream 'y') has no sequence with the key '007'"});
  const auto o = make_composite("useNumericSequenceKeys=true\n" + settings);
  ASSERT_TRUE(o.reader) << o.errors;
  const Rows rows = read_all(*o.reader);
  ASSERT_EQ(rows.size(), 2u);
  const auto first = numbered(4, 3, 3, 1).pixels;
  EXPECT_EQ(rows[0][0], std::vector<float>(first.begin(), first.end())) << "without Transpose channels are fastest";
  EXPECT_EQ(rows[0][1], (std::vector<float>{2}));
  EXPECT_EQ(rows[0][2], (std::vector<float>{70}));
  EXPECT_EQ(rows[1][2], (std::vector<float>{80}));
  // Without keys of its own a map counts its lines from 0.
  const std::string plain = folder_.write("plain.txt", ".../a.png\t1\n\n.../b.png\t1\n");
  const std::string counted = folder_.write("counted", "1 |y 1\n0 |y 0\n");
  const auto p = make_composite(all(text(counted, "y"), images(plain)));
  ASSERT_TRUE(p.reader) << p.errors;
  const auto second = numbered(4, 3, 3, 2).pixels;
  EXPECT_EQ(read_all(*p.reader)[0][1], std::vector<float>(second.begin(), second.end()));
  // So do lines with a fault, also the first ones.
  const std::string faulty = folder_.write("faulty.txt", "path\tlabel\nx\t9\n.../a.png\t1\n.../b.png\t1\n");
  const std::string four = folder_.write("four", "3 |y 3\n2 |y 2\n1 |y 1\n0 |y 0\n");
  const auto late = make_composite("maxErrors=9\n" + all(images(faulty), text(four, "y")));
  ASSERT_TRUE(late.reader) << late.errors;
  const Rows pairs = read_all(*late.reader);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0][0], std::vector<float>(first.begin(), first.end()));
  EXPECT_EQ(pairs[0][2], (std::vector<float>{2}));
  EXPECT_EQ(pairs[1][2], (std::vector<float>{3}));
  expect_error(all(images(map), images(map)), {"deserializers 1 and 2 both have a stream 'f'"});
}

TEST_F(CompositeImages, DamageInOnePartLeavesTheSequenceOut) {
  for (int i = 0; i < 6; ++i) png(std::to_string(i) + ".png", static_cast<unsigned>(i));
  folder_.write("3.png", "nothing");
  std::string map, ids;
  for (int i = 0; i < 6; ++i) {
    map += std::to_string(i) + "\t.../" + std::to_string(i) + ".png\t1\n";
    ids += std::to_string(5 - i) + " |y " + std::to_string(5 - i) + "\n";
  }
  map = folder_.write("map.txt", map), ids = folder_.write("text", ids);
  for (const auto& order : {all(images(map), text(ids, "y")), all(text(ids, "y"), images(map))}) {
    expect_error(order, {"map.txt:4:", "neither JPEG nor PNG"});
    const auto o = make_composite("maxErrors=1\n" + order);
    ASSERT_TRUE(o.reader) << o.errors;
    const Rows rows = read_all(*o.reader, {.samples = 12, .minibatch = 4});
    ASSERT_EQ(rows.size(), 10u) << "two sweeps of five";
    const std::size_t y = o.reader->streams()[0].name == "y" ? 0 : 2, f = y == 0 ? 1 : 0;
    for (const auto& row : rows) {
      const auto id = static_cast<unsigned>(row[y][0]);
      EXPECT_NE(id, 3u);
      EXPECT_EQ(row[f][0], numbered(4, 3, 3, id).pixels[0]) << "streams stay together";
    }
    // Two ranks, put together again in the order of places.
    Rows parts[2], together;
    const auto again = make_composite("maxErrors=1\n" + order);
    for (int r = 0; r < 2; ++r)
      parts[r] = read_all(*again.reader, {.samples = 12, .minibatch = 1, .rank = r, .ranks = 2});
    std::size_t at[2] = {0, 0};
    for (int sweep = 0; sweep < 2; ++sweep)
      for (std::size_t place = 0; place < 6; ++place)
        if (place != (y == 0 ? 2u : 3u)) together.push_back(parts[place % 2][at[place % 2]++]);
    EXPECT_EQ(rows, together);
  }
}

// A sequence of one sample has the key of the image in frame mode, too.
TEST_F(CompositeImages, FrameModeKeepsTheIdsOfText) {
  for (int i = 0; i < 3; ++i) png(std::to_string(i) + ".png", static_cast<unsigned>(i));
  const std::string map = folder_.write("map.txt", "0\t.../0.png\t0\n1\t.../1.png\t1\n2\t.../2.png\t2\n");
  const std::string ids = folder_.write("text", "2 |y 2\n0 |y 0\n1 |y 1\n");
  const auto o = make_composite("frameMode=true\n" + all(images(map), text(ids, "y")));
  ASSERT_TRUE(o.reader) << o.errors;
  for (const auto& row : read_all(*o.reader)) EXPECT_EQ(row[1], row[2]);
}

TEST_F(CompositeImages, ViewsBelongToTheFirst) {
  png("a.png", 1);
  const std::string map = folder_.write("map.txt", "7\t.../a.png\t0\n"), ids = folder_.write("text", "7 |y 7\n");
  const std::string views = images(map, "[type=Crop;cropType=multiview10;cropSize=2:2]:");
  EXPECT_EQ(read_all(*make_composite(all(views, text(ids, "y"))).reader).size(), 10u);
  expect_error(all(text(ids, "y"), views), {"map.txt:1: the image '7' has several views", "make it the first"});
}

TEST_F(CompositeImages, TransformsInTheGivenOrder) {
  png("a.png", 1);
  const std::string map = folder_.write("map.txt", ".../a.png\t0\n");
  const auto views =
      make_composite("deserializers=(" + images(map, "[type=Crop;cropType=multiview10;cropSize=2:2]:") + ")");
  ASSERT_TRUE(views.reader) << views.errors;
  EXPECT_EQ(views.reader->sweep_samples(), 10);
  EXPECT_EQ(read_all(*views.reader).size(), 10u);
  // Scaled to 8 x 6 first and cropped then: twice the corner pixels.
  const std::string chain = "deserializers=([type=ImageDeserializer;file=\"" + map +
                            "\"\ninput=[f=[transforms=([type=Scale;width=8;height=6;channels=3;interpolations=nearest]:"
                            "[type=crop;cropSize=4:2]:[type=Transpose]:[type=Cast])]\nl=[labelDim=1]]])";
  const auto o = make_composite(chain);
  ASSERT_TRUE(o.reader) << o.errors;
  const auto image = read_all(*o.reader)[0][0];
  ASSERT_EQ(image.size(), 4u * 2 * 3);
  const Picture p = numbered(4, 3, 3, 1);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t y = 0; y < 2; ++y)
      for (std::size_t x = 0; x < 4; ++x) EXPECT_EQ(image[x + 4 * (y + 2 * c)], p.at((x + 2) / 2, (y + 2) / 2, c));
  const ReaderType effective = effective_reader(
      config::record_from_text("reader=[readerType=CompositeDataReader\n" + chain + "]").block("reader"), {});
  const std::string dump = config::dump_fields(effective.name, effective.describe);
  EXPECT_NE(dump.find("cropSize = 4:2"), std::string::npos) << dump;
}

TEST_F(CompositeImages, AMeanWithoutAFileIsNoted) {
  png("a.png", 1);
  const std::string map = folder_.write("map.txt", ".../a.png\t0\n");
  const auto o = make_composite("deserializers=(" + images(map, "[type=Mean]:") + ")");
  ASSERT_TRUE(o.reader) << o.errors;
  EXPECT_NE(o.notices.find("Mean has no effect without meanFile"), std::string::npos) << o.notices;
}

TEST_F(CompositeImages, ImagesAsText) {
  const auto letters = [](const std::string& bytes) {
    static const char* alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
      std::uint32_t v = 0;
      for (std::size_t k = 0; k < 3; ++k)
        v = v << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
      for (std::size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : alphabet[v >> (18 - 6 * k) & 63];
    }
    return out;
  };
  const auto block = [&](const std::string& file) {
    return "[type=Base64ImageDeserializer;file=\"" + file +
           "\"\ninput=[f=[transforms=([type=Scale;width=4;height=3;channels=3])]\nl=[labelDim=3]]]";
  };
  const std::string one = letters(png_of(numbered(4, 3, 3, 1))), two = letters(jpeg_of(numbered(9, 7, 3, 2)));
  const auto keyed =
      make_composite("deserializers=(" + block(folder_.write("k", "a\t2\t" + one + " \r\nb\t0\t" + two + "\n")) + ")");
  ASSERT_TRUE(keyed.reader) << keyed.errors;
  const auto first = numbered(4, 3, 3, 1).pixels;
  const Rows rows = read_all(*keyed.reader);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0][0], std::vector<float>(first.begin(), first.end()));
  EXPECT_EQ(rows[0][1], (std::vector<float>{0, 0, 1}));
  EXPECT_EQ(
      read_all(*make_composite("deserializers=(" + block(folder_.write("p", "1\t" + one + "\n")) + ")").reader)[0][1],
      (std::vector<float>{0, 1, 0}));
  expect_error("deserializers=(" + block(folder_.write("p", "1\t" + one + "\n1\t" + one.substr(0, 40) + "\n")) + ")",
               {"p:2:3:", "broken PNG"});
  expect_error("deserializers=(" + block(folder_.write("p", "1\t" + one + "\n1\t!!!!\n")) + ")", {"p:2:3:", "base64"});
}

TEST_F(CompositeImages, MistakesInTheBlock) {
  const std::string map = folder_.write("map.txt", png("a.png", 1) + "\t0\n");
  const auto deserializer = [&](const std::string& body) { return "deserializers=([" + body + "])"; };
  const std::string start = "type=ImageDeserializer;file=\"" + map + "\";";
  expect_error("", {"has no deserializers"});
  expect_error(deserializer("file=x"), {"a deserializer has no type"});
  expect_error(deserializer("type=ImageDeserialiser"), {"run.cntk:", "did you mean 'ImageDeserializer'"});
  expect_error(deserializer(start), {"has no streams"});
  expect_error(deserializer(start + "input=[l=[labelDim=3]]"), {"no block has 'transforms'"});
  expect_error(deserializer(start + "input=[f=[transforms=([type=Crop])];l=[labelDim=3]]"),
               {"no transform gives the images their size"});
  expect_error(deserializer(start + "input=[f=[transforms=([type=Scael])];l=[labelDim=3]]"), {"did you mean 'Scale'"});
  expect_error(deserializer(start + "input=[f=[transforms=([type=Scale;width=3])];l=[labelDim=3]]"),
               {"Scale needs 'height'"});
  expect_error(deserializer(start + "input=[f=[transforms=([type=Mean;meanFile=\"" + map + "\"])];l=[labelDim=3]]"),
               {"OpenCV XML"});
  expect_error(deserializer(start + "fiel=x;input=[f=[transforms=([type=Transpose])];l=[labelDim=3]]"),
               {"did you mean 'file'"});
  expect_error("maxErors=1\n" + deserializer(start), {"did you mean 'maxErrors'"});
}

TEST(KeyTable, FindsEveryKeyAndNoOther) {
  std::string content;
  for (int i = 0; i < 3000; ++i) content += std::to_string(i * 7919 % 3001) + " |x 1\n";
  const TemporaryFile file(content);
  TextSource source(text_options(file.path(), {{"x", "x", 1, false}}));
  source.index();
  KeyTable table(source, false);
  EXPECT_TRUE(table.twice().empty());
  for (std::uint32_t i = 0; i < 3000; ++i) EXPECT_EQ(table.find(source.key(i)), i);
  EXPECT_FALSE(table.find("3001"));
  EXPECT_FALSE(table.find("01"));
  EXPECT_EQ(KeyTable::canonical("0070", true), "70");
  EXPECT_EQ(KeyTable::canonical("000", true), "0");
  EXPECT_EQ(KeyTable::canonical("0070", false), "0070");
}

}  // namespace
}  // namespace tutti::reader::composite_test

// SPDX-License-Identifier: Apache-2.0
// Speech data: feature files, script files, master label files, their joining, and what is said about broken ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <numeric>

#include "config/load.h"
#include "htk_support.h"
#include "reader/htk/htk_source.h"
#include "reader_support.h"
#include "source_support.h"

namespace tutti::reader::htk_test {
namespace {

using Everything = EverythingOf<HtkSource>;

void expect_error(const HtkReaderOptions& o, const std::vector<std::string>& parts) {
  expect_parts(error_of([&] { Everything{o}; }), parts);
}

HtkReaderOptions features(const std::string& scp, std::int64_t dim, std::int64_t left = -1, std::int64_t right = -1) {
  HtkReaderOptions o;
  o.frame_mode = false;
  o.features = {{"x", {scp, "", dim}}};
  if (left >= 0) o.features[0].second.context.values = {left, right};
  return o;
}

TEST(Htk, FramesOfFilesAndOfRanges) {
  const TemporaryFile one(htk_file({1, 2, 3, 4}, 2)), many(htk_file({10, 11, 20, 21, 30, 31, 40, 41}, 2));
  const TemporaryFile list(fmt::format("{}\n\nb.mfc={}[1,2]\r\nc.mfc={}[0,0]\n", one.path(), many.path(), many.path()));
  for (const std::int64_t keep : {0, 1 << 20}) {
    auto o = features(list.path(), 2);
    o.keep_bytes = keep;
    Everything e(o);
    EXPECT_EQ(copy(e.batch->streams[0].dense), (std::vector<float>{1, 2, 3, 4, 20, 21, 30, 31, 10, 11}));
    EXPECT_EQ(copy(e.batch->streams[0].sequence_begin), (std::vector<std::int64_t>{0, 2, 4, 5}));
    EXPECT_EQ(e.source.key(0), one.path());
    EXPECT_EQ(e.source.key(1), "b");
    EXPECT_EQ(e.source.place(2), list.path() + ":4");
    EXPECT_EQ(e.batch->samples, 5);
  }
}

TEST(Htk, ContextRepeatsTheEdges) {
  const TemporaryFile file(htk_file({9, 1, 2, 3, 9}, 1));
  const TemporaryFile list("a=" + file.path() + "[1,3]\n");
  for (const bool frames : {false, true})
    for (const std::int64_t keep : {0, 1 << 20}) {
      auto o = features(list.path(), 3);
      o.frame_mode = frames;
      o.keep_bytes = keep;
      Everything e(o);
      EXPECT_EQ(copy(e.batch->streams[0].dense), (std::vector<float>{1, 1, 2, 1, 2, 3, 2, 3, 3}));
      EXPECT_EQ(e.batch->sequences, frames ? 3 : 1);
      auto wide = features(list.path(), 5, 1, 3);
      wide.frame_mode = frames;
      wide.keep_bytes = keep;
      EXPECT_EQ(copy(Everything(wide).batch->streams[0].dense),
                (std::vector<float>{1, 1, 2, 3, 3, 1, 2, 3, 3, 3, 2, 3, 3, 3, 3}));
      EXPECT_EQ(e.source.key(frames ? 2 : 0), frames ? "a#2" : "a");
    }
  expect_error(features(list.path(), 4), {"no odd multiple of the 1 numbers"});
  expect_error(features(list.path(), 4, 1, 1), {"3 frames of 1 numbers", "dim is 4"});
}

TEST(Htk, CompressedFiles) {
  const TemporaryFile file(compressed_htk_file({-3, 10, 5, 30000, 7, -1}, {2, 10}, {1, 0}));
  const TemporaryFile list("a=" + file.path() + "[1,2]\nb=" + file.path() + "\n");
  EXPECT_EQ(copy(Everything(features(list.path(), 2)).batch->streams[0].dense),
            (std::vector<float>{3, 3000, 4, -0.1f, -1, 1, 3, 3000, 4, -0.1f}));
}

TEST(Htk, PrefixesAndTheDirectoryOfTheList) {
  const TemporaryFile file(htk_file({1}, 1));
  const std::filesystem::path path = file.path();
  const TemporaryFile list(path.filename().string() + "\nx=" + path.filename().string() + "\nabsolute=" + file.path() +
                           "\n");
  auto o = features(list.path(), 1);
  o.features[0].second.prefix = path.parent_path();
  EXPECT_EQ(Everything(o).batch->samples, 3);
  const TemporaryFile dots(".../" + path.filename().string() + "\n");  // both files lie in one directory
  EXPECT_EQ(Everything(features(dots.path(), 1)).batch->samples, 1);
}

std::string time(int frame) { return std::to_string(frame * 100'000); }

// Two utterances of 3 and 2 frames with labels, and one frame that holds for a whole utterance.
struct Corpus {
  TemporaryFile a{htk_file({1, 2, 3}, 1)}, b{htk_file({4, 5}, 1)}, both{htk_file({7, 8, 9}, 1)};
  TemporaryFile list{fmt::format("dir/a.mfc={}\ndir/b.mfc={}\n", a.path(), b.path())};
  TemporaryFile extra{fmt::format("dir/b.iv={}[1,1]\ndir/a.iv={}[0,0]\n", both.path(), both.path())};
  TemporaryFile states{"sil\nah extra words\nee\n"};
  TemporaryFile labels{"\xEF\xBB\xBF#!MLF!#\n\"*/b.lab\"\n0 " + time(2) + " ee\n.\n\"dir/a.lab\"\n0 " + time(1) +
                       " sil 0.5\n" + time(1) + " " + time(3) + " ah\n.\n\"unused.lab\"\n0 " + time(9) + " sil\n.\n"};
  HtkReaderOptions options() const {
    HtkReaderOptions o = features(list.path(), 1);
    o.labels = {{"y", {{labels.path()}, states.path(), 3, true}}};
    o.features.push_back({"iv", {extra.path(), "", 1, {}, true}});
    return o;
  }
};

TEST(Htk, StreamsAreJoinedByName) {
  const Corpus corpus;
  Everything e(corpus.options());
  EXPECT_EQ(e.batch->sequences, 2);
  EXPECT_EQ(copy(e.batch->streams[0].dense), (std::vector<float>{1, 2, 3, 4, 5}));
  EXPECT_EQ(copy(e.batch->streams[1].dense), (std::vector<float>{7, 7, 7, 8, 8}));
  EXPECT_EQ(copy(e.batch->streams[2].indices), (std::vector<std::int32_t>{0, 1, 1, 2, 2}));
  auto frames = corpus.options();
  frames.frame_mode = true;
  Everything f(frames);
  EXPECT_EQ(f.batch->sequences, 5);
  for (std::size_t s = 0; s < 3; ++s) EXPECT_EQ(copy(f.batch->streams[s].dense), copy(e.batch->streams[s].dense));
  EXPECT_EQ(copy(f.batch->streams[2].indices), copy(e.batch->streams[2].indices));
  // Labels by themselves, for a reader that joins them with something else.
  HtkReaderOptions alone = corpus.options();
  alone.features.clear();
  Everything y(alone);
  EXPECT_EQ(y.batch->sequences, 3);
  EXPECT_EQ(y.source.key(0), "b");
  EXPECT_EQ(copy(y.batch->streams[0].indices), (std::vector<std::int32_t>{2, 2, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Htk, FramesAreTheSameForAnyNumberOfRanks) {
  std::vector<std::unique_ptr<TemporaryFile>> files;
  std::string list;
  float next = 0;
  for (int u = 0; u < 20; ++u) {
    std::vector<float> numbers(static_cast<std::size_t>(1 + u * 7 % 5));
    for (float& v : numbers) v = next++;
    files.push_back(std::make_unique<TemporaryFile>(htk_file(numbers, 1)));
    list += fmt::format("u{}={}\n", u, files.back()->path());
  }
  const TemporaryFile scp(list);
  auto o = features(scp.path(), 1);
  o.frame_mode = true;
  const auto reader = [&] { return DirectReader(MinibatchMaker(std::make_unique<HtkSource>(o), {})); };
  DirectReader alone = reader();
  const auto whole = read_epoch(alone, {.epoch = 1, .minibatch = 7});
  for (const int ranks : {2, 3}) {
    std::vector<std::vector<Seen>> shares;
    for (int r = 0; r < ranks; ++r) {
      DirectReader one = reader();
      shares.push_back(read_epoch(one, {.epoch = 1, .minibatch = 7, .rank = r, .ranks = ranks}));
    }
    std::size_t place = 0;
    for (std::size_t step = 0; step < whole.size(); ++step)
      for (const std::uint32_t expected : whole[step].sequences) {
        auto& mine = shares[place++ % static_cast<std::size_t>(ranks)][step].sequences;
        ASSERT_FALSE(mine.empty());
        EXPECT_EQ(mine.front(), expected);
        mine.erase(mine.begin());
      }
    EXPECT_EQ(place, static_cast<std::size_t>(next));
  }
}

TEST(Htk, BrokenFeaturesAreNamedAndTolerated) {
  const std::string whole = htk_file({1, 2, 3, 4}, 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const TemporaryFile good(whole), cut(whole.substr(0, whole.size() - 1)), tiny("abc"), sound(htk_file({1, 2}, 2, 0)),
      odd(big_endian(1, 4) + big_endian(1, 4) + big_endian(7, 2) + big_endian(9, 2) + "1234567"),
      other(htk_file({1, 2, 3}, 3)), empty(htk_file({}, 2)), bad(htk_file({1, nan, 5, 6}, 2)),
      late(htk_file({5, 6, 1, nan}, 2));
  const struct {
    std::string line;
    std::vector<std::string> parts;
  } cases[] = {{"c=" + cut.path(), {cut.path(), "cut off"}},
               {"c=" + tiny.path(), {tiny.path(), "3 bytes"}},
               {"c=" + sound.path(), {sound.path(), "kind 0"}},
               {"c=" + odd.path(), {odd.path(), "7 bytes per frame"}},
               {"c=" + other.path(), {other.path(), "3 numbers per frame"}},
               {"c=" + empty.path(), {empty.path(), "no frames"}},
               {"c=" + good.path() + "[1,2]", {good.path(), "frames 1 to 2", "which has 2"}},
               {"c=" + good.path() + "[1,0]", {"names no utterance"}},
               {"c=" + good.path() + "[a,b]", {"names no utterance"}},
               {"=" + good.path(), {"names no utterance"}},
               {"c=/nowhere", {"/nowhere"}},
               {"a=" + good.path(), {"a second utterance with the name 'a'"}}};
  for (const auto& c : cases) {
    const TemporaryFile list(fmt::format("a={}\n{}\nd={}[0,0]\n", good.path(), c.line, good.path()));
    auto o = features(list.path(), 2);
    auto parts = c.parts;
    parts.push_back(list.path() + ":2:");
    expect_error(o, parts);
    o.max_errors = 1;
    EXPECT_EQ(Everything(o).batch->samples, 3) << c.line;
  }
  // What only reading can find.
  for (const TemporaryFile* damaged : {&bad, &late}) {
    const TemporaryFile list(fmt::format("a={}\nb={}\nc={}[1,1]\n", good.path(), damaged->path(), good.path()));
    for (const bool frames : {false, true})
      for (const std::int64_t keep : {0, 1 << 20}) {
        auto o = features(list.path(), 2);
        o.frame_mode = frames;
        o.keep_bytes = keep;
        expect_error(o, {damaged->path(), damaged == &bad ? "frame 0" : "frame 1", "not a finite number"});
        o.max_errors = 1;
        Everything e(o);
        EXPECT_EQ(copy(e.batch->streams[0].dense), (std::vector<float>{1, 2, 3, 4, 3, 4}));
        EXPECT_EQ(e.share.left_out(), (frames ? std::vector<std::uint32_t>{2, 3} : std::vector<std::uint32_t>{1}));
      }
  }
  expect_error(features("/nowhere.scp", 2), {"/nowhere.scp"});
}

TEST(Htk, BrokenLabelsAreNamedAndTolerated) {
  const Corpus corpus;
  const std::string a = "\"*/a.lab\"\n0 " + time(3) + " sil\n.\n", b = "\"*/b.lab\"\n0 " + time(2) + " sil\n.\n";
  const struct {
    std::string text;
    std::vector<std::string> parts;
  } cases[] = {
      {"#!MLF!#\n" + a + "\"*/b.lab\"\n0 " + time(2) + " oh\n.\n", {":6:", "'oh' is not in"}},
      {"#!MLF!#\n" + a + "\"*/b.lab\"\n0 x sil\n0 y sil\n.\n", {":6:", "no line of a label"}},
      {"#!MLF!#\n" + a + "\"*/b.lab\"\n0 " + time(1) + " sil\n" + time(2) + " " + time(3) + " sil\n.\n",
       {":7:", "from 2 to 3", "ended at 1"}},
      {"#!MLF!#\n" + a + "\"*/b.lab\"\n0 " + time(2) + " sil\n", {"ends within the utterance 'b'"}},
      {"#!MLF!#\n\"*/b.lab\"\n0 " + time(2) + " sil\n" + a, {"the utterance 'b' has no end"}},
      {"#!MLF!#\n" + a + "\"*/b.lab\"\n.\n", {"'b' has no frames"}},
      {"#!MLF!#\n" + a, {"'dir/b'", "missing in stream 'y'"}},
      {"#!MLF!#\n" + a + "\"*/b.lab\"\n0 " + time(3) + " sil\n.\n", {"2 frames in stream 'x'", "3 in stream 'y'"}},
      {"#!MLF!#\n" + a + "\"b.lab\"\n0 " + time(2) + " sil\n.\n", {"missing"}}};
  for (const auto& c : cases) {
    const TemporaryFile labels(c.text);
    auto o = features(corpus.list.path(), 1);
    o.labels = {{"y", {{labels.path()}, corpus.states.path(), 3, false}}};
    expect_error(o, c.parts);
    o.max_errors = 1;  // what a stream has counted is not counted again when it is joined
    Everything e(o);
    EXPECT_EQ(copy(e.batch->streams[0].dense), (std::vector<float>{1, 2, 3})) << c.text;
  }
  for (const std::string& text : {std::string(), std::string("hello\n"), "#!MLF!#\n" + a.substr(2)}) {
    const TemporaryFile labels(text);
    auto o = features(corpus.list.path(), 1);
    o.labels = {{"y", {{labels.path()}, "", 3, false}}};
    o.max_errors = 100;
    expect_error(o, {"no usable utterance"});
  }
  const TemporaryFile absent(fmt::format("dir/a.mfc={}\ndir/b.mfc=/nowhere\n", corpus.a.path()));
  auto second = features(corpus.list.path(), 1);
  second.features.push_back({"z", {absent.path(), "", 1}});
  expect_error(second, {absent.path() + ":2:1", "/nowhere"});
  second.max_errors = 1;
  EXPECT_EQ(copy(Everything(second).batch->streams[1].dense), (std::vector<float>{1, 2, 3}));
  auto twice = corpus.options();
  const TemporaryFile doubled("a\nb\na\n");
  twice.labels[0].second.mapping = doubled.path();
  expect_error(twice, {doubled.path() + ":3:1", "'a' appears a second time"});
  const TemporaryFile gap("sil\n\nah\nee\n");
  twice.labels[0].second.mapping = gap.path();
  expect_error(twice, {gap.path() + ":2:1", "an empty line among the names of classes"});
  auto many = corpus.options();
  many.labels[0].second.dim = 2;
  expect_error(many, {"3 states, more than labelDim = 2"});
}

// Joined files, times in frames, and a fourth column that is the class.
TEST(Htk, FormsOfLabels) {
  const Corpus corpus;
  const std::string b = "\"*/b.lab\"\n0 2 1\n.\n";
  const struct {
    std::string a;
    std::vector<std::int32_t> classes;
  } cases[] = {{"#!MLF!#\n\"*/a.lab\"\n0 1 0\n1 3 2\n.\n\n#!MLF!#\n", {0, 2, 2}},
               {"#!MLF!#\n\"*/a.lab\"\n0 " + time(1) + " 0\n" + time(1) + " " + time(1) + " 1\n" + time(1) + " " +
                    time(3) + " 2\n.\n",
                {0, 2, 2}},
               {"#!MLF!#\n\"*/a.lab\"\n0 " + time(2) + " s4 2\n" + time(2) + " " + time(3) + " 2 1\n.\n", {2, 2, 1}},
               {"#!MLF!#\n\"*/a.lab\"\n0 1 2 -7\n1 2 1 0.5\n2 3 0 1 2\n.\n", {2, 1, 0}}};
  auto o = features(corpus.list.path(), 1);
  for (const auto& c : cases) {
    const TemporaryFile labels(c.a + b);
    o.labels = {{"y", {{labels.path()}, "", 3, true}}};
    auto expected = c.classes;
    expected.insert(expected.end(), {1, 1});
    EXPECT_EQ(copy(Everything(o).batch->streams[1].indices), expected) << c.a;
  }
  const auto error = [&](const std::string& lines, const std::vector<std::string>& parts) {
    const TemporaryFile labels("#!MLF!#\n\"*/a.lab\"\n" + lines + ".\n" + b);
    o.labels = {{"y", {{labels.path()}, "", 3, true}}};
    expect_error(o, parts);
  };
  error("0 1 0\n2 3 1\n", {":4:", "from 2 to 3", "ended at 1"});
  error("0 3 sil 3\n", {":3:", "'3' is not a class from 0 to 2"});
  error("0 1 0\n#!MLF!#\n", {":4:", "the utterance 'a' has no end"});
}

TEST(Htk, LongUtterancesAreLeftOutWithAWarning) {
  const Corpus corpus;
  auto o = features(corpus.list.path(), 1);
  o.longest = 2;
  testing::internal::CaptureStderr();
  EXPECT_EQ(copy(Everything(o).batch->streams[0].dense), (std::vector<float>{4, 5}));
  expect_parts(testing::internal::GetCapturedStderr(),
               {"maxUtteranceLength = 2 leaves out 1 of 2 utterances", "fix: "});
  o.frame_mode = true;  // a sequence is one frame
  EXPECT_EQ(copy(Everything(o).batch->streams[0].dense), (std::vector<float>{1, 2, 3, 4, 5}));
}

TEST(Htk, UtterancesWithoutFramesAreCounted) {
  const TemporaryFile good(htk_file({1, 2}, 1)), empty(htk_file({}, 1));
  const TemporaryFile list(fmt::format("a={}\nb={}\n", good.path(), empty.path()));
  auto o = features(list.path(), 1);
  o.max_errors = 5, o.trace_level = 1;
  testing::internal::CaptureStderr();
  Everything e(o);
  expect_parts(testing::internal::GetCapturedStderr(), {"1 error tolerated (maxErrors = 5), 1 sequence left out"});
}

TEST(Htk, Blocks) {
  const Corpus corpus;
  const auto make = [](const std::string& settings, const std::string& action = "train") {
    return make_reader(config::record_from_text("reader=[" + settings + "]", "run.cntk").block("reader"),
                       {.action = action});
  };
  const std::string streams = "\nfeatures=[scpFile=\"" + corpus.list.path() + "\";dim=1]\nlabels=[mlfFile=\"" +
                              corpus.labels.path() + "\";labelMappingFile=\"" + corpus.states.path() +
                              "\";labelDim=3;labelType=category]";
  for (const std::string type : {"HTKMLFReader", "HTKDeserializers"}) {
    const auto reader =
        make("readerType=" + type + "\nrandomize=none;readMethod=blockRandomize;miniBatchMode=partial" + streams);
    EXPECT_EQ(reader->streams()[1].name, "labels");
    reader->start_epoch({.minibatch = 100});
    EXPECT_EQ(reader->next()->sequences, 5);
    const auto whole = make("readerType=" + type + "\nframeMode=false" + streams, "test");
    whole->start_epoch({.minibatch = 100});
    EXPECT_EQ(whole->next()->sequences, 2);
  }
  const auto lanes = make(
      "readerType=HTKMLFReader;frameMode=false;truncated=true;nbruttsineachrecurrentiter=2;randomize=none" + streams);
  lanes->start_epoch({.minibatch = 2});
  const Batch* batch = lanes->next();
  EXPECT_EQ(batch->fragments.size(), 2u);
  EXPECT_EQ(batch->samples, 4);
  lanes->start_epoch({.minibatch = 4, .accumulated = 2});  // twice as many lanes of the same length
  batch = lanes->next();
  EXPECT_EQ(batch->global_columns, 8);
  EXPECT_EQ(batch->samples, 4) << "there are two utterances";
  for (const char* count : {"1", "2", "2:1"}) {  // sequences, whatever their lengths
    const auto counted =
        make("readerType=HTKMLFReader;frameMode=false;randomize=none;nbruttsineachrecurrentiter=" + std::string(count) +
             streams);
    counted->start_epoch({.minibatch = 1000});
    EXPECT_EQ(counted->next()->sequences, count[0] - '0');
    counted->start_epoch({.minibatch = 2000, .accumulated = 2});
    EXPECT_EQ(counted->next()->sequences, 2) << "there are two";
  }
  const auto lane = make("readerType=HTKDeserializers;frameMode=false;truncated=true;truncationLength=2" + streams);
  lane->start_epoch({.minibatch = 2});
  EXPECT_EQ(lane->next()->fragments.size(), 1u);
  const auto error = [&](const std::string& settings, const std::vector<std::string>& parts) {
    expect_parts(error_of([&] { make(settings); }), parts);
  };
  error("readerType=HTKDeserializers", {"has no streams"});
  error("readerType=HTKDeserializers\nx=[dim=3]", {"neither scpFile nor mlfFile"});
  error("readerType=HTKDeserializers\nx=[scpFile=gone;dim=3]", {"run.cntk:2:", "'gone' cannot be read"});
  error("readerType=HTKDeserializers\ntruncated=true;frameMode=false" + streams, {"truncationLength"});
  error("readerType=HTKDeserializers\ntruncated=true;truncationLength=3" + streams, {"frameMode = false"});
  error("readerType=HTKDeserializers\nrandomize=maybe" + streams, {"randomize cannot be 'maybe'"});
  error("readerType=HTKDeserializers\nframemod=true" + streams, {"did you mean 'frameMode'"});
  error("readerType=HTKDeserializers\nx=[scpFile=\"" + corpus.list.path() + "\";dim=3;contextWindow=2]",
        {"an odd number of frames"});
}

// The same data through a CompositeDataReader, which joins two deserializers by key.
TEST(Htk, Deserializers) {
  const Corpus corpus;
  const TemporaryFile list(fmt::format("dir/a.mfc={}\nb.mfc={}\n", corpus.a.path(), corpus.b.path()));
  const auto make = [&](const std::string& settings, const std::string& more = "", const std::string& map = "input",
                        const std::string& action = "test") {
    const std::string text = "reader=[readerType=CompositeDataReader;" + settings +
                             "\ndeserializers=([type=HTKFeatureDeserializer;module=HTKDeserializers;" + map +
                             "=[x=[scpFile=\"" + list.path() + "\";dim=1" + more +
                             "]]]:[type=HTKMLFDeserializer;input=[y=[mlfFile=\"" + corpus.labels.path() +
                             "\";labelMappingFile=\"" + corpus.states.path() + "\";dim=3]]])]";
    return make_reader(config::record_from_text(text, "run.cntk").block("reader"), {.action = action});
  };
  for (const std::string mode : {"false", "true"}) {
    const auto reader = make("maxErrors=9;frameMode=" + mode);
    reader->start_epoch({.minibatch = 100});
    const Batch* batch = reader->next();
    EXPECT_EQ(batch->sequences, mode == "true" ? 5 : 2);
    EXPECT_EQ(copy(batch->streams[0].dense), (std::vector<float>{1, 2, 3, 4, 5}));
    EXPECT_EQ(copy(batch->streams[1].indices), (std::vector<std::int32_t>{0, 1, 1, 2, 2}));
  }
  // Labels that continue after the last frame are an error in frame mode, too; no frame of the utterance is used.
  const TemporaryFile longer("#!MLF!#\n\"dir/a.lab\"\n0 4 0\n.\n\"b.lab\"\n0 2 1\n.\n");
  const auto longer_labels = [&](const std::string& settings) {
    return make_reader(
        config::record_from_text("reader=[readerType=CompositeDataReader;frameMode=true;" + settings +
                                     "\ndeserializers=([type=HTKFeatureDeserializer;input=[x=[scpFile=\"" +
                                     list.path() + "\";dim=1]]]:[type=HTKMLFDeserializer;input=[y=[mlfFile=\"" +
                                     longer.path() + "\";dim=3]]])]",
                                 "run.cntk")
            .block("reader"),
        {.action = "test"});
  };
  expect_parts(error_of([&] { longer_labels("")->sweep_samples(); }),
               {list.path() + ":1 frame 2: this is the last frame of its utterance", "'dir/a#3'"});
  const auto shorter = longer_labels("maxErrors=1");
  shorter->start_epoch({.minibatch = 100});
  EXPECT_EQ(copy(shorter->next()->streams[0].dense), (std::vector<float>{4, 5}));
  const auto written = make("maxErrors=9;frameMode=true", "", "input", "write");
  written->start_epoch({.minibatch = 100});
  EXPECT_EQ(written->next()->sequences, 2) << "a writer needs whole utterances";
  const TemporaryFile numbers("1 |t 1\n1 |t 2\n1 |t 3\n"), numbered(fmt::format("1={}\n", corpus.a.path()));
  for (const std::string action : {"test", "write"}) {
    const auto joined = make_reader(
        config::record_from_text("reader=[readerType=CompositeDataReader;frameMode=true\n"
                                 "deserializers=([type=HTKFeatureDeserializer;input=[x=[scpFile=\"" +
                                     numbered.path() + "\";dim=1]]]:[type=CNTKTextFormatDeserializer;file=\"" +
                                     numbers.path() + "\";input=[t=[alias=t;dim=1;format=dense]]])]",
                                 "run.cntk")
            .block("reader"),
        {.action = action});
    joined->start_epoch({.minibatch = 100});
    const Batch* batch = joined->next();
    EXPECT_EQ(batch->sequences, action == "write" ? 1 : 3) << "a text is written with its utterance";
    EXPECT_EQ(copy(batch->streams[1].dense), (std::vector<float>{1, 2, 3}));
  }
  expect_parts(error_of([&] { make("", ";expandToUtterance=true"); }), {"another stream of the same deserializer"});
  expect_parts(error_of([&] { make("", "", "inputs"); }), {"did you mean 'input'"});
}

}  // namespace
}  // namespace tutti::reader::htk_test

// SPDX-License-Identifier: Apache-2.0
// Reader blocks of a config: the table, defaults that depend on the action, and where mistakes are shown.
#include <gtest/gtest.h>

#include "block_support.h"
#include "config/load.h"
#include "reader/fault_budget.h"
#include "reader_support.h"
#include "tutti/log.h"
#include "tutti/reader.h"

namespace tutti::reader::make_reader_test {
namespace {

void expect_error(const std::string& settings, const std::vector<std::string>& parts) {
  const std::string errors = make(settings).errors;
  for (const auto& part : parts) EXPECT_NE(errors.find(part), std::string::npos) << part << " is not in:\n" << errors;
}

const TemporaryFile& lines() {
  static const TemporaryFile file("|x 1 |y 0\n|x 2 |y 1\n|x 3 |y 0\n|x 4 |y 1\n|x 5 |y 1\n|x 6 |y 0\n");
  return file;
}
std::string text_block(const std::string& more = "") {
  return "readerType=CNTKTextFormatReader\nfile=\"" + lines().path() + "\"\n" + more +
         "\ninput=[features=[alias=x;dim=1;format=dense]\nlabels=[alias=y;dim=2;format=sparse]]";
}

std::vector<float> first_values(Reader& reader) {
  reader.start_epoch({.minibatch = 100});
  const auto d = reader.next()->streams[0].dense;
  return {d.begin(), d.end()};
}

TEST(MakeReader, TextBlock) {
  // Sparse text for a stream of dense lines: the file decides, so this format is wrong and says so when read.
  const Outcome o = make(text_block());
  ASSERT_TRUE(o.reader) << o.errors;
  ASSERT_EQ(o.reader->streams().size(), 2u);
  EXPECT_EQ(o.reader->streams()[0].name, "features");
  EXPECT_TRUE(o.reader->streams()[1].sparse);
  EXPECT_THROW(o.reader->sweep_samples(), ConfigError);
}

TEST(MakeReader, RandomizeDependsOnTheAction) {
  const std::string block =
      "readerType=cntktextformatreader;file=\"" + lines().path() + "\";input=[x=[dim=1;format=dense]]";
  const std::vector<float> in_order{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(first_values(*make(block, "test").reader), in_order);
  EXPECT_EQ(first_values(*make(block, "write").reader), in_order);
  EXPECT_NE(first_values(*make(block, "train").reader), in_order);
  EXPECT_EQ(first_values(*make(block + ";randomize=none").reader), in_order);
  EXPECT_EQ(first_values(*make(block + ";randomize=false").reader), in_order);
  EXPECT_NE(first_values(*make(block + ";randomize=true", "test").reader), in_order);
  EXPECT_NE(first_values(*make(block + ";randomize=auto").reader), in_order);
  EXPECT_EQ(first_values(*make(block + ";randomize=auto", "test").reader), in_order);
  EXPECT_EQ(first_values(*make(block + ";randomize=true", "write").reader), in_order) << "as in CNTK";
  EXPECT_NE(first_values(*make(block + ";randomizationSeed=3").reader), first_values(*make(block).reader));
}

TEST(MakeReader, Synthetic) {
  const Outcome o =
      make("readerType=SyntheticReader;kind=random;samples=50;input=[image=[shape=3:4:2]\nclass=[labelDim=5]]");
  ASSERT_TRUE(o.reader) << o.errors;
  EXPECT_EQ(o.reader->streams()[0].dim, 24u);
  EXPECT_EQ(o.reader->streams()[1].dim, 5u);
  EXPECT_EQ(o.reader->sweep_samples(), 50);
  EXPECT_EQ(make("readerType=SyntheticReader").reader->streams()[0].name, "features");
  expect_error("readerType=SyntheticReader;samples=0", {"samples"});
  expect_error("readerType=SyntheticReader;input=[x=[dim=10]]", {"28 x 28"});
}

TEST(MakeReader, IdxStreamsInTheBlockOrUnderInput) {
  const TemporaryFile images(std::string("\0\0\x08\x02\0\0\0\2\0\0\0\3abcdef", 18)),
      labels(std::string("\0\0\x08\x01\0\0\0\2\1\0", 10));
  const std::string streams =
      "features=[scale=1;file=\"" + images.path() + "\"]\nlabels=[file=\"" + labels.path() + "\";labelDim=10]";
  for (const std::string& block :
       {"readerType=IDXReader\n" + streams, "readerType=IDXReader\ninput=[" + streams + "]"}) {
    const Outcome o = make(block, "test");
    ASSERT_TRUE(o.reader) << o.errors;
    ASSERT_EQ(o.reader->streams().size(), 2u);
    EXPECT_EQ(o.reader->streams()[1].dim, 10u);
    EXPECT_EQ(first_values(*o.reader), (std::vector<float>{97, 98, 99, 100, 101, 102}));
  }
  expect_error("readerType=IDXReader", {"no streams"});
  expect_error("readerType=IDXReader;features=[file=\"" + lines().path() + "\"]", {"does not start like an IDX file"});
  expect_error("readerType=IDXReader;features=[file=gone]", {"run.cntk:1:", "'gone' cannot be read"});
  expect_error("readerType=IDXReader;features=[flie=gone]", {"did you mean 'file'"});
}

TEST(MakeReader, ABlockWithoutTypeIsToldByItsContents) {
  const std::string streams = "file=\"" + lines().path() + "\";input=[x=[dim=1;format=dense]]";
  const Outcome text = make(streams, "test");
  ASSERT_TRUE(text.reader) << text.errors;
  EXPECT_EQ(first_values(*text.reader), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  const Outcome joined = make("deserializers=([type=CNTKTextFormatDeserializer;" + streams + "])", "test");
  ASSERT_TRUE(joined.reader) << joined.errors;
  EXPECT_EQ(first_values(*joined.reader), (std::vector<float>{1, 2, 3, 4, 5, 6}));

  const auto effective = [](const std::string& block) {
    return effective_reader(config::record_from_text("reader=[" + block + "]").block("reader"), {}).name;
  };
  EXPECT_EQ(effective(streams), "CNTKTextFormatReader");
  EXPECT_EQ(effective("deserializers=([type=CNTKTextFormatDeserializer;" + streams + "])"), "CompositeDataReader");
  expect_error("x=1", {"CNTKTextFormatReader has no 'x'", "'file'"});
  expect_error("deserializers=([type=CNTKTextFormatDeserialiser])", {"did you mean 'CNTKTextFormatDeserializer'"});
}

TEST(MakeReader, KeysWithoutEffectAreKnown) {
  const Outcome text = make("file=\"" + lines().path() +
                            "\";miniBatchMode=partial;cacheIndex=true;multiThreadedDeserialization=true\n"
                            "input=[x=[dim=1;format=dense;definesMBSize=true]]");
  EXPECT_TRUE(text.reader) << text.errors;
  for (const char* block : {"readerType=ImageReader;multiThreadedDeserialization=true;multiViewCrop=false;file=gone;"
                            "features=[width=2;height=2;channels=3];labels=[labelDim=2]",
                            "readerType=HTKDeserializers;multiThreadedDeserialization=true;"
                            "features=[dim=2;scpFile=gone;expandToPrimary=false;definesMBSize=true]"}) {
    const std::string errors = make(block).errors;
    EXPECT_NE(errors.find("'gone' cannot be read"), std::string::npos) << errors;
    EXPECT_EQ(errors.find(" has no '"), std::string::npos) << errors;
  }
}

TEST(MakeReader, SettingsWithoutEffectAreNoted) {
  const auto expect_note = [](const Outcome& o, const std::string& part) {
    EXPECT_EQ(o.errors, "");
    EXPECT_NE(o.notices.find(part), std::string::npos) << part << " is not in:\n" << o.notices;
  };
  const std::string text = "file=\"" + lines().path() + "\";input=[x=[dim=1;format=dense]]\n";
  expect_note(make(text + "truncationLength=2"), "note: truncationLength has no effect without truncated");
  EXPECT_EQ(make(text + "truncationLength=2;truncated=true").notices, "");
  config::Notices notices;
  const auto outer = config::record_from_text("truncationLength=2\nreader=[" + text + "]", "run.cntk");
  EXPECT_TRUE(make_reader(outer.block("reader"), {.notices = &notices}));
  EXPECT_TRUE(notices.lines.empty()) << "further out it is meant for another reader";
  const TemporaryFile table("1 2\n");
  const std::string uci = "readerType=UCIFastReader;file=\"" + table.path() + "\"\ny=[dim=1;labelType=regression";
  expect_note(make(uci + ";labelDim=1]"), "labelDim has no effect with labelType = regression");
  EXPECT_EQ(make(uci + "]").notices, "");
}

TEST(MakeReader, AWindowInOneChunkIsNoted) {
  const TemporaryFile log_file("");
  const auto logged = [&](const std::string& more) {
    const Outcome o = make("file=\"" + lines().path() + "\";input=[x=[dim=1;format=dense]]\n" + more);
    log::open({.path = log_file.path()});
    first_values(*o.reader);
    log::close();
    std::ifstream in(log_file.path());
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_NE(logged("randomizationWindow=3").find("a window of 3 samples"), std::string::npos);
  EXPECT_EQ(logged("randomizationWindow=4;chunkSizeInBytes=1").find("a window of"), std::string::npos);
  EXPECT_EQ(logged("randomizationWindow=6").find("a window of"), std::string::npos) << "it is the whole data set";
  EXPECT_EQ(logged("randomizationWindow=5;randomize=false").find("a window of"), std::string::npos);
}

TEST(MakeReader, ATooSmallDimIsShownBeforeItsError) {
  const auto block = config::record_from_text("reader=[x=[dim=2]]", "run.cntk").block("reader");
  const std::string error =
      with_place_of_dim(
          ConfigError(std::vector<Diagnostic>{
              {{}, "first", ""}, {{}, "second", dim_fix("dim", 2, "x")}, {{}, "Reached the maximum", ""}}),
          block)
          .what();
  const auto first = error.find("first"), dim = error.find("dim = 2 is too small"), second = error.find("second");
  EXPECT_NE(dim, std::string::npos) << error;
  EXPECT_LT(first, dim) << error;
  EXPECT_LT(dim, second) << error;
}

TEST(MakeReader, MistakesAreShownInTheirPlace) {
  expect_error("readerType=CNTKTextFormatReadr", {"run.cntk:1:", "did you mean 'CNTKTextFormatReader'"});
  expect_error("readerType=DSSMReader", {"this version has no DSSMReader", "SyntheticReader"});
  expect_error("readerType=CNTKTextFormatReader", {"'file'", "'input'"});
  expect_error("readerType=CNTKTextFormatReader;file=gone;input=[x=[dim=1;format=dense]]", {"'gone' cannot be read"});
  expect_error("readerType=CNTKTextFormatReader;file=/tmp;input=[x=[dim=1;format=dense]]", {"it is a directory"});
  expect_error(text_block("randomise=false"), {"randomise", "did you mean 'randomize'"});
  expect_error(text_block("maxErrors=-1"), {"maxErrors is a count"});
  expect_error("readerType=CNTKTextFormatReader;file=\"" + lines().path() +
                   "\";input=[x=[dim=1;format=dense]\ny=[alias=x;dim=1;format=dense]]",
               {"two streams have the name 'x'"});
}

TEST(MakeReader, HelpAndEffectiveSettings) {
  for (const auto& type : reader_types()) {
    const std::string help = config::help_fields(type.name, type.describe);
    EXPECT_NE(help.find("randomize"), std::string::npos) << help;
  }
  const auto block = config::record_from_text("reader=[" + text_block("maxErrors=7") + "]").block("reader");
  const ReaderType effective = effective_reader(block, {.action = "test"});
  EXPECT_EQ(effective.name, "CNTKTextFormatReader");
  const std::string dump = config::dump_fields(effective.name, effective.describe);
  EXPECT_NE(dump.find("maxErrors = 7"), std::string::npos) << dump;
  EXPECT_NE(dump.find("alias = "), std::string::npos) << dump;
}

}  // namespace
}  // namespace tutti::reader::make_reader_test

// SPDX-License-Identifier: Apache-2.0
// Binary files of sparse features and dense labels: what stands in them, and what is said about damage.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "block_support.h"
#include "reader/libsvm/libsvm_source.h"
#include "reader_support.h"
#include "source_support.h"

namespace tutti::reader::libsvm_test {
namespace {

using Everything = EverythingOf<LibsvmSource>;

template <class T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// One stream of features "x" [5] and one of labels "y" [2]; Number is how the file writes values.
template <class Number>
struct File {
  struct Sample {
    std::vector<std::pair<std::int32_t, Number>> x;
    std::array<Number, 2> y;
  };
  static std::string batch(const std::vector<Sample>& samples) {
    std::string b;
    std::int32_t items = 0;
    for (const auto& s : samples) items += static_cast<std::int32_t>(s.x.size());
    put(b, static_cast<std::int32_t>(samples.size()));
    put(b, items);
    for (const auto& s : samples)
      for (const auto& [row, value] : s.x) put(b, value);
    for (const auto& s : samples)
      for (const auto& [row, value] : s.x) put(b, row);
    put(b, std::int32_t{0});
    for (std::int32_t at = 0; const auto& s : samples) put(b, at += static_cast<std::int32_t>(s.x.size()));
    for (const auto& s : samples)
      for (const Number y : s.y) put(b, y);
    return b;
  }
  static std::string make(const std::vector<std::vector<Sample>>& batches) {
    std::string header, table, data;
    put(header, std::int64_t{5});
    put(header, static_cast<std::int64_t>(batches.size()));
    put(header, std::int32_t{1}), put(header, std::int32_t{1});
    for (const auto& [name, dim] : {std::pair{"x", 5}, std::pair{"y", 2}})
      put(header, std::int32_t{1}), header += name, put(header, static_cast<std::int32_t>(dim));
    for (const auto& b : batches) put(table, static_cast<std::int64_t>(data.size())), data += batch(b);
    return header + table + data;
  }
};

template <class Number>
std::string five_samples() {
  return File<Number>::make(
      {{{{{4, 0.5f}, {0, -2}}, {1, 0}}, {{}, {0, 1}}}, {{{{1, 1}}, {0, 0}}}, {{{{2, 3}}, {2, 2}}, {{{3, 4}}, {3, 3}}}});
}

LibsvmReaderOptions options(const TemporaryFile& file, std::map<std::string, std::string> renamed = {}) {
  LibsvmReaderOptions o;
  o.file = file.path();
  o.renamed = std::move(renamed);
  return o;
}

TEST(Libsvm, SamplesInSinglesAndDoubles) {
  for (const std::string& content : {five_samples<float>(), five_samples<double>()}) {
    const TemporaryFile file(content);
    Everything e(options(file, {{"y", "labels"}}));
    ASSERT_EQ(e.batch->samples, 5);
    EXPECT_EQ(e.source.streams()[1].name, "labels");
    const StreamData& x = e.batch->streams[0];
    EXPECT_EQ(copy(x.column_begin), (std::vector<std::int64_t>{0, 2, 2, 3, 4, 5}));
    EXPECT_EQ(copy(x.indices), (std::vector<std::int32_t>{4, 0, 1, 2, 3}));
    EXPECT_EQ(copy(x.values), (std::vector<float>{0.5f, -2, 1, 3, 4}));
    EXPECT_EQ(copy(e.batch->streams[1].dense), (std::vector<float>{1, 0, 0, 1, 0, 0, 2, 2, 3, 3}));
    EXPECT_EQ(e.source.place(4), file.path() + ": sample 1 of batch 2");
  }
}

TEST(Libsvm, DamageIsNamed) {
  const std::string good = five_samples<float>();
  const auto error = [](const std::string& content) {
    const TemporaryFile file(content);
    return error_of([&] { Everything{options(file)}; });
  };
  expect_parts(error(""), {"the file ends at byte 0 within the header"});
  expect_parts(error("this is a text of some length, and no binary file at all"),
               {"it is no file of LibSVMBinaryReader"});
  for (const std::size_t size : {std::size_t{30}, std::size_t{50}, good.size() - 1}) {
    const std::string message = error(good.substr(0, size));
    EXPECT_NE(message.find("damaged"), std::string::npos) << size << ": " << message;
  }
  expect_parts(error(good + "x"), {"batch 2 of 3", "not as long as what it holds"});
  // Every single byte of header and table changed: an error or other numbers, never a crash.
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    error(bad);
  }
}

TEST(Libsvm, SamplesThatAreWrongAreLeftOut) {
  const TemporaryFile file(
      File<float>::make({{{{{5, 1}}, {0, 0}}, {{{1, 1}}, {1, 1}}, {{{0, std::nanf("")}}, {2, 2}}}}));
  LibsvmReaderOptions o = options(file);
  expect_parts(error_of([&] { Everything{o}; }), {"sample 0 of batch 0", "index 5, outside 0 to 4"});
  o.max_errors = 2;
  Everything e(o);
  EXPECT_EQ(copy(e.batch->streams[1].dense), (std::vector<float>{1, 1}));
}

TEST(Libsvm, RanksDivideTheSamples) {
  std::vector<std::vector<File<float>::Sample>> batches(7);
  for (int i = 0; i < 40; ++i)
    batches[static_cast<std::size_t>(i) % 7].push_back({{{i % 5, 1}}, {static_cast<float>(i), 0}});
  const TemporaryFile file(File<float>::make(batches));
  const auto labels = [&](int rank, int ranks, std::int64_t start) {
    DirectReader r(MinibatchMaker(std::make_unique<LibsvmSource>(options(file)), {}));
    std::vector<float> seen;
    r.start_epoch({.minibatch = 6, .start = start, .rank = rank, .ranks = ranks});
    while (const Batch* b = r.next())
      for (std::size_t c = 0; c < b->streams[1].columns; ++c) seen.push_back(b->streams[1].dense[2 * c]);
    return seen;
  };
  const auto whole = labels(0, 1, 0);
  ASSERT_EQ(whole.size(), 40u);
  for (const int ranks : {2, 3})
    for (int rank = 0; rank < ranks; ++rank) {
      const auto mine = labels(rank, ranks, 0);
      for (std::size_t i = 0; i < mine.size(); ++i)
        EXPECT_EQ(mine[i], whole[i * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(rank)]);
    }
  EXPECT_EQ(labels(0, 1, 12), std::vector<float>(whole.begin() + 12, whole.end()));
}

TEST(Libsvm, Blocks) {
  const TemporaryFile file(five_samples<float>());
  const std::string at = fmt::format("readerType=LibSVMBinaryReader\nfile=\"{}\"\n", file.path());
  const Outcome o = make(at + "minibatch=32\nx=[rename=features]\ny=[rename=labels;labelDim=2]");
  ASSERT_EQ(o.errors, "");
  EXPECT_EQ(o.reader->streams()[0].name, "features");
  expect_parts(make(at + "x=[renamed=features]").errors, {"did you mean 'rename'"});
  expect_parts(make("readerType=LibSVMBinaryReader\nfile=gone").errors, {"'gone' cannot be read"});
}

}  // namespace
}  // namespace tutti::reader::libsvm_test

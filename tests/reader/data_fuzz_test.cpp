// SPDX-License-Identifier: Apache-2.0
// Damaged HDF5, speech and table files: whatever stands in them, the outcome is data that agree with the index, or an
// error.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "hdf5_support.h"
#include "htk_support.h"
#include "reader/hdf5/hdf5_source.h"
#include "reader/htk/htk_source.h"
#include "reader/uci/uci_source.h"
#include "reader_support.h"

namespace tutti::reader::data_fuzz_test {
namespace {

std::string damaged(std::string bytes, std::mt19937& random, const std::string& characters) {
  for (int n = static_cast<int>(1 + random() % 4); n > 0 && !bytes.empty(); --n) {
    const std::size_t at = random() % bytes.size();
    const char c = characters.empty() ? static_cast<char>(random()) : characters[random() % characters.size()];
    switch (random() % 5) {
      case 0:
      case 1:
        bytes[at] = c;
        break;
      case 2:
        bytes.insert(at, 1, c);
        break;
      case 3:
        bytes.erase(at, 1 + random() % 9);
        break;
      case 4:
        bytes.resize(at);
        break;
    }
  }
  return bytes;
}

// True when the source could be read; what it delivers, together with what it leaves out, is what its index has.
bool reads(std::unique_ptr<SequenceSource> source) try {
  const SequenceIndex& index = source->index();
  std::vector<std::uint32_t> all(index.sequences());
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = index.sequences() - 1 - i;
  Share share(source->streams());
  source->read(all, share);
  const Batch& batch = share.finish();
  std::int64_t samples = 0;
  for (const std::uint32_t s : share.left_out()) samples += index.samples_of(s);
  EXPECT_EQ(batch.samples + samples, index.samples());
  EXPECT_EQ(static_cast<std::size_t>(batch.sequences) + share.left_out().size(), all.size());
  for (const auto& s : batch.streams) EXPECT_EQ(s.sequence_begin.size(), static_cast<std::size_t>(batch.sequences) + 1);
  for (const auto& s : batch.streams) EXPECT_EQ(s.sequence_begin.back(), static_cast<std::int64_t>(s.columns));
  for (const std::uint32_t s : all) EXPECT_FALSE(source->place(s).empty());
  return true;
} catch (const ConfigError&) {
  return false;
} catch (const Error&) {
  return false;
}

// Both outcomes must occur, or the damage is too large or too small to test anything.
void expect_some(int read, int tries) {
  EXPECT_GT(read, 0);
  EXPECT_LT(read, tries);
}

TEST(DataFuzz, Tables) {
  const TemporaryFile names("a\nbb\nc\n"), file("");
  std::mt19937 random(1);
  constexpr int tries = 3000;
  int read = 0;
  for (int i = 0; i < tries; ++i) {
    file.write(damaged("1,2.5,a\n-3,4e1,bb\r\n5,6,c\n7,8,a\n", random, ",.;e+-0123456789 \"\n\r\tab\xFF"));
    UciReaderOptions o;
    o.file = file.path();
    o.delimiter = i % 2 ? ',' : '\0';
    if (i % 3 == 0) o.decimal_point = 'e';
    o.max_errors = i % 4;
    o.keep_bytes = i % 5 ? 1000 : 20;
    o.streams = {{"x", {.dim = 2}}, {"y", {.start = 2, .classes = 3, .mapping = names.path(), .labels = true}}};
    read += reads(std::make_unique<UciSource>(o));
  }
  expect_some(read, tries);
}

TEST(DataFuzz, SpeechLists) {
  const TemporaryFile file(htk_file({1, 2, 3, 4, 5, 6}, 2)), scp(""), mlf("");
  std::mt19937 random(2);
  constexpr int tries = 3000;
  int read = 0;
  for (int i = 0; i < tries; ++i) {
    std::string list, labels = "#!MLF!#\n";
    for (int u = 0; u < 3; ++u) {
      list += fmt::format("u{}={}[{},2]\n", u, file.path(), u);
      labels += fmt::format("\"*/u{}.lab\"\n0 {}00000 1\n", u, 3 - u) + ".\n";
    }
    scp.write(i % 2 ? damaged(list, random, "[],=./\n0123456789") : list);
    mlf.write(i % 2 ? labels : damaged(labels, random, "\".*/#!\n 0123456789x"));
    HtkReaderOptions o;
    o.features = {{"x", {scp.path(), "", 6}}};
    o.labels = {{"y", {{mlf.path()}, "", 3, i % 3 == 0}}};
    o.frame_mode = i % 5 == 0;
    o.max_errors = i % 7;
    read += reads(std::make_unique<HtkSource>(o));
  }
  expect_some(read, tries);
}

TEST(DataFuzz, SpeechFiles) {
  const TemporaryFile file("");
  const TemporaryFile scp("a=" + file.path() + "[0,2]\nb=" + file.path() + "\n");
  std::mt19937 random(3);
  constexpr int tries = 3000;
  int read = 0;
  for (int i = 0; i < tries; ++i) {
    file.write(damaged(
        i % 2 ? htk_file({1, 2, 3, 4, 5, 6}, 2) : compressed_htk_file({1, 2, 3, 4, 5, 6}, {1, 2}, {0, 1}), random, ""));
    HtkReaderOptions o;
    o.features = {{"x", {scp.path(), "", 6}}};
    o.features[0].second.context.values = {1, 1};
    o.frame_mode = i % 5 == 0;
    o.max_errors = i % 3;
    o.keep_bytes = i % 7 ? 1000 : 0;
    read += reads(std::make_unique<HtkSource>(o));
  }
  expect_some(read, tries);
}

// Where the numbers of a file stand: `size` bytes from the first place on at which these do.
std::pair<std::size_t, std::size_t> place_of(const std::string& file, const void* numbers, std::size_t size) {
  const std::size_t at = file.find(std::string(static_cast<const char*>(numbers), size));
  EXPECT_NE(at, std::string::npos);
  return {at, size};
}

// Numbers, checksums and the length of the file: damaged descriptions of datasets are the library's to find.
TEST(DataFuzz, Hdf5Files) {
  const TemporaryFile file("");
  std::vector<float> x(24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 100.0f + static_cast<float>(i);
  const std::vector<int> y{0, 1, 2, 0, 2, 2}, n{1, 2, 2, 1, 1, 2};
  {
    Hdf5Writer w(file.path());
    w.add("x", {6, 2, 2}, x, H5T_NATIVE_FLOAT, 2);
    w.add("y", {6}, y);
    w.add("n", {6}, n);
  }
  std::ifstream in(file.path(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::pair<std::size_t, std::size_t>> places{place_of(whole, y.data(), 24), place_of(whole, n.data(), 24)};
  for (std::size_t chunk = 0; chunk < 3; ++chunk) {
    places.push_back(place_of(whole, x.data() + 8 * chunk, 32));
    places.back().second += 4;
  }
  std::mt19937 random(4);
  constexpr int tries = 2000;
  int read = 0;
  for (int i = 0; i < tries; ++i) {
    std::string bytes = whole;
    for (int k = static_cast<int>(random() % 4); k > 0; --k) {
      const auto& [at, size] = places[random() % places.size()];
      bytes[at + random() % size] = static_cast<char>(random());
    }
    if (i % 5 == 0) bytes.resize(random() % bytes.size());
    file.write(bytes);
    Hdf5ReaderOptions o;
    o.paths = {{file.path(), {}}};
    o.input = {{"x", {.dataset = "x", .dim = 2}}, {"y", {.dataset = "y", .classes = 3}}};
    o.lengths = i % 2 ? "n" : "";
    o.max_errors = i % 4;
    o.keep_bytes = i % 3 ? 1000 : 0;
    read += reads(std::make_unique<Hdf5Source>(o));
  }
  expect_some(read, tries);
}

}  // namespace
}  // namespace tutti::reader::data_fuzz_test

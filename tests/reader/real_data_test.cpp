// SPDX-License-Identifier: Apache-2.0
// The real files: MNIST, ATIS and Simple2d where they are at hand, and a text file far larger than what may be kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include "reader/idx/idx_source.h"
#include "reader/prefetch_reader.h"
#include "reader_support.h"

namespace tutti::reader::real_data_test {
namespace {

namespace fs = std::filesystem;

// TUTTI_TEST_DATA, or shared/data beside the project.
std::string data_file(const std::string& name) {
  const char* given = std::getenv("TUTTI_TEST_DATA");
  const fs::path root = given ? fs::path(given) : fs::path(TUTTI_SOURCE_ROOT) / ".." / "shared" / "data";
  return (root / name).string();
}
std::string missing(const std::string& path) { return "not here: " + path + " (set TUTTI_TEST_DATA)"; }

TEST(RealData, Mnist) {
  const std::string images = data_file("mnist/train-images-idx3-ubyte.gz"),
                    labels = data_file("mnist/train-labels-idx1-ubyte.gz");
  if (!fs::exists(images)) GTEST_SKIP() << missing(images);
  PrefetchReader reader(MinibatchMaker(
      std::make_unique<IdxSource>(IdxReaderOptions{
          .input = {{"features", {.file = images, .scale = 1 / 256.0}}, {"labels", {.file = labels, .dim = 10}}},
          .order = {}}),
      {}));
  EXPECT_EQ(reader.streams()[0].dim, 784u);
  EXPECT_EQ(reader.sweep_samples(), 60000);
  std::vector<int> classes(10);
  double sum = 0;
  for (int rank = 0; rank < 2; ++rank) {
    reader.start_epoch({.minibatch = 256, .rank = rank, .ranks = 2});
    while (const Batch* b = reader.next()) {
      sum = std::accumulate(b->streams[0].dense.begin(), b->streams[0].dense.end(), sum);
      for (std::size_t i = 0; i < b->streams[1].dense.size(); ++i) classes[i % 10] += b->streams[1].dense[i] == 1;
    }
  }
  EXPECT_EQ(classes, (std::vector<int>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}));
  EXPECT_NEAR(sum * 256 / (60000.0 * 784), 33.318, 0.001);
}

TEST(RealData, Atis) {
  for (const auto& [name, sequences, lines] :
       {std::tuple("atis/atis.train.ctf", 4978, 66547), std::tuple("atis/atis.test.ctf", 893, 10984)}) {
    const std::string path = data_file(name);
    if (!fs::exists(path)) GTEST_SKIP() << missing(path);
    TextSource source(
        text_options(path, {{"query", "S0", 943, true}, {"intent", "S1", 26, true}, {"slots", "S2", 129, true}}));
    EXPECT_EQ(source.index().samples(), lines) << path;
    EXPECT_EQ(source.index().sequences(), static_cast<std::uint32_t>(sequences)) << path;
    std::vector<std::uint32_t> all(source.index().sequences());
    std::iota(all.begin(), all.end(), 0);
    Share share(source.streams());
    source.read(all, share);
    const Batch& b = share.finish();
    EXPECT_EQ(b.streams[0].columns, static_cast<std::size_t>(lines));
    EXPECT_EQ(b.streams[1].columns, static_cast<std::size_t>(sequences));
    EXPECT_EQ(b.streams[2].columns, static_cast<std::size_t>(lines));
    EXPECT_EQ(b.streams[0].values.size(), static_cast<std::size_t>(lines));
  }
}

TEST(RealData, Simple2d) {
  const std::string path = data_file("simple2d/parallel_train_ctf.txt");
  if (!fs::exists(path)) GTEST_SKIP() << missing(path);
  TextSource source(text_options(path, {{"features", "F", 2, false}, {"labels", "L", 2, false}}));
  EXPECT_EQ(source.index().sequences(), 10000u);
  Share share(source.streams());
  source.read(std::vector<std::uint32_t>{0, 2}, share);
  const auto d = share.finish().streams[0].dense;
  EXPECT_EQ(std::vector<float>(d.begin(), d.end()),
            (std::vector<float>{-0.127551f, 0.650403f, -0.561044f, -0.587243f}));
}

std::size_t status_kilobytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == field + ":") {
      std::size_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes;
    }
  return 0;
}

// A file of 60 MB read in random order with nothing kept: neither data of our own nor pages of the file pile up.
TEST(LargeFile, TakesLittleMemory) {
  const TemporaryFile file("");
  {
    std::string block;
    for (int i = 0; i < 1000; ++i) {
      block += "|x";
      for (int v = 0; v < 100; ++v) block += ' ' + std::to_string((i * 31 + v * 7) % 1000);
      block += "\n";
    }
    std::ofstream out(file.path(), std::ios::binary);
    for (std::size_t written = 0; written < 60'000'000; written += block.size()) out << block;
  }
  TextReaderOptions o = text_options(file.path(), {{"x", "x", 100, false}});
  o.keep_bytes = 0;
  o.chunk_bytes = 1 << 20;
  const std::size_t before = status_kilobytes("RssAnon");
  PrefetchReader reader(MinibatchMaker(std::make_unique<TextSource>(o), {}));
  reader.start_epoch({.minibatch = 256});
  double sum = 0;
  std::size_t most = 0, step = 0;
  while (const Batch* b = reader.next()) {
    sum += b->streams[0].dense[0];
    if (++step % 16 == 0) most = std::max(most, status_kilobytes("RssAnon"));
  }
  EXPECT_GT(sum, 0);
  EXPECT_GT(step, 500u);
  EXPECT_LT(most, before + 16 * 1024);
}

}  // namespace
}  // namespace tutti::reader::real_data_test

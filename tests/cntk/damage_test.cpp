// SPDX-License-Identifier: Apache-2.0
// Files that are cut or have other bytes: every one is read or refused, and memory stays in proportion to its size.
#include <gtest/gtest.h>

#include <malloc.h>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <random>

#include "cntk/checkpoint.h"
#include "cntk/model.h"
#include "model_writer.h"
#include "tutti/error.h"

namespace {
std::atomic<std::size_t> in_use{0}, most{0};
}

void* operator new(std::size_t n) {
  void* const p = std::malloc(n);
  if (!p) throw std::bad_alloc();
  const std::size_t now = in_use += malloc_usable_size(p);
  if (now > most) most = now;
  return p;
}
void operator delete(void* p) noexcept {
  if (p) in_use -= malloc_usable_size(p);
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept { operator delete(p); }

namespace tutti::cntk::damage_test {
namespace {

namespace fs = std::filesystem;
using testing::Bytes;
using testing::model_of_every_kind;
using testing::small_checkpoint;
using testing::small_model;
using testing::WrittenModel;
using File = std::vector<char>;

// Memory that reading a file may take: four times its size, and 64 MiB.
std::size_t allowed(const File& file) { return 4 * file.size() + (std::size_t{64} << 20); }

template <class Read>
bool is_read(const File& file, const Read& read) {
  const std::size_t before = in_use;
  most = before;
  bool whole = true;
  try {
    read(ByteReader("file", file));
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("fix: "), std::string::npos) << e.what();
    whole = false;
  }
  EXPECT_LE(most - before, allowed(file));
  return whole;
}
bool is_model_read(const File& file) {
  return is_read(file, [](ByteReader r) { read_model(std::move(r)); });
}
bool is_checkpoint_read(const File& file) {
  return is_read(file, [](ByteReader r) { read_checkpoint(std::move(r)); });
}

// The original's own files, where they are.
std::vector<fs::path> samples(const std::string& end) {
  const char* const given = std::getenv("TUTTI_TEST_DATA");
  const fs::path data = given ? fs::path(given) : fs::path(TUTTI_SOURCE_ROOT) / ".." / "shared" / "data";
  const fs::path root = data / ".." / "reference" / "cntk-models";
  std::vector<fs::path> found;
  if (!fs::exists(root)) return found;
  for (const auto& folder : fs::directory_iterator(root))
    if (folder.is_directory())
      for (const auto& file : fs::directory_iterator(folder))
        if (file.path().extension() == end) found.push_back(file.path());
  std::ranges::sort(found);
  return found;
}
File content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

File flipped(const File& file, std::mt19937& random) {
  File damaged = file;
  for (int bytes = 1 + static_cast<int>(random() % 4); bytes > 0; --bytes)
    damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
  return damaged;
}

template <class IsRead>
void damage(const File& file, std::size_t step, int flips, const IsRead& is_read) {
  EXPECT_TRUE(is_read(file));
  for (std::size_t size = 0; size < file.size(); size += step)
    EXPECT_FALSE(is_read(File(file.begin(), file.begin() + static_cast<long>(size)))) << size;
  std::mt19937 random(1);
  for (int i = 0; i < flips; ++i) is_read(flipped(file, random));
}

TEST(Damage, OfAModel) {
  for (const auto& [version, precision] : {std::pair(7, "double"), std::pair(10, "float"), std::pair(18, "float")})
    damage(model_of_every_kind(static_cast<std::uint64_t>(version), precision).bytes(), 1, 10000, is_model_read);
}

TEST(Damage, OfACheckpoint) { damage(small_checkpoint(), 1, 10000, is_checkpoint_read); }

TEST(Damage, OfTheOriginalsFiles) {
  const auto models = samples(".dnn"), checkpoints = samples(".ckp");
  if (models.empty()) GTEST_SKIP() << "not here: files of CNTK (set TUTTI_TEST_DATA)";
  for (const auto& path : models) {
    SCOPED_TRACE(path);
    damage(content(path), 64, 2000, is_model_read);
  }
  for (const auto& path : checkpoints) {
    SCOPED_TRACE(path);
    damage(content(path), 64, 2000, is_checkpoint_read);
  }
}

std::string error_of(const File& file) {
  try {
    read_model(ByteReader("m.dnn", file));
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

TEST(Damage, IsReportedWithItsPlace) {
  File file = small_model().bytes();
  const std::size_t size = file.size();
  file.resize(419);
  EXPECT_EQ(error_of(file),
            "'m.dnn' is damaged at byte 419 of 419: the file ends within the class of a node\nfix: copy "
            "the file again from where it was made");
  file = small_model().bytes();
  file.push_back(0);
  EXPECT_EQ(error_of(file),
            "'m.dnn' is damaged at byte " + std::to_string(size) + " of " + std::to_string(size + 1) +
                ": 1 bytes follow the end of the model\nfix: copy the file again from where it was made");
}

// Counts and shapes that promise more than the file holds.
TEST(Damage, OfSizesTakesNoMemory) {
  WrittenModel m = small_model();
  for (const std::uint64_t huge : {std::uint64_t{1} << 30, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    m.nodes[2].content = Bytes().number(1.0f).shape({3, 2}).number('d').text("BMAT").u64(4).text("").i32(0).u64(huge);
    m.nodes[2].content.u64(huge);
    EXPECT_FALSE(is_model_read(m.bytes()));
    Bytes b;
    b.text("BCN").text("BVersion").u64(18).text("EVersion").u64(huge).text("BNodeList");
    EXPECT_FALSE(is_model_read(b.get()));
  }
  m = small_model();
  m.nodes[0].content = Bytes().u64(0).u64(0).shape({1u << 31, 1u << 31}).number<std::uint32_t>(1).text("").number(0.f);
  EXPECT_FALSE(is_model_read(m.bytes()));
  // A statistic takes memory by the shape of its input.
  m = small_model();
  m.nodes[0].content = Bytes().u64(0).u64(0).shape({1u << 31}).number<std::uint32_t>(1).text("").number(0.f);
  m.add("Mean", "mean", {"features"}, Bytes().flag(true).matrix<float>(2, 1, {1, 2}));
  EXPECT_FALSE(is_model_read(m.bytes()));
}

// The longest chain, in the order that is the worst for recursion, and the most statistics and mixed axes.
TEST(Damage, ByManyNodesEndsSoon) {
  constexpr int nodes = 32000;
  WrittenModel chain{};
  for (int i = 0; i < nodes; ++i)
    chain.add("Tanh", "t" + std::to_string(i), {i + 1 < nodes ? "t" + std::to_string(i + 1) : "x"});
  chain.input("x", {1}).add("Mean", "mean", {"t0"}, Bytes().flag(true).matrix<float>(1, 1, {1}));
  chain.add("Where", "where", {"t0"}, Bytes().text("axis")).outputs = {"t0"};
  EXPECT_TRUE(is_model_read(chain.bytes()));

  WrittenModel wide{};
  wide.input("x", {1}).add("Where", "where", {"x"}, Bytes().text("axis"));
  for (int i = 0; i < nodes / 2; ++i) {
    wide.add("Plus", "p" + std::to_string(i), {"x", "where"});
    wide.add("Mean", "m" + std::to_string(i), {"x"}, Bytes().flag(true).matrix<float>(1, 1, {1}));
  }
  is_model_read(wide.bytes());

  WrittenModel many{};
  for (int i = 0; i < nodes + 1000; ++i) many.input("x" + std::to_string(i), {1});
  EXPECT_FALSE(is_model_read(many.bytes()));

  WrittenModel cycle{};
  cycle.add("Tanh", "a", {"b"})
      .add("Tanh", "b", {"a"})
      .add("Mean", "m", {"a"}, Bytes().flag(true).matrix<float>(1, 1, {1}));
  EXPECT_FALSE(is_model_read(cycle.bytes()));
}

}  // namespace
}  // namespace tutti::cntk::damage_test

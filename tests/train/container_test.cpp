// SPDX-License-Identifier: Apache-2.0
#include "train/container.h"

#include <algorithm>
#include <limits>

#include "support.h"

namespace tutti::container_test {
namespace {

using testing::Directory;
using testing::error_of;
using testing::slurp;
using testing::spill;

void write_small(const std::string& path) {
  ContainerWriter w(path, "checkpoint");
  w.add("on", true);
  w.add("count", std::int64_t{-5});
  double rate = 0.1;
  SavingArchive(w, "")("rate", rate);
  w.add("text", std::string_view("two\nlines"));
  w.add("empty", std::string_view());
  const std::vector<float> v = {1, 2, 3, 4, 5, std::numeric_limits<float>::quiet_NaN()};
  w.add("values", Shape{{2, 3}}, v);
  w.finish();
  w.commit();
}

TEST(Container, GivesBackWhatWasWritten) {
  const Directory d;
  write_small(d / "a");
  const ContainerReader r(d / "a", "checkpoint");
  LoadingArchive archive(r, "");
  bool on = false;
  double rate = 0;
  archive("on", on);
  archive("rate", rate);
  EXPECT_TRUE(on);
  EXPECT_EQ(r.integer("count"), -5);
  EXPECT_EQ(rate, 0.1);
  EXPECT_EQ(r.text("text"), "two\nlines");
  EXPECT_EQ(r.text("empty"), "");
  std::vector<float> v(6);
  r.floats("values", v);
  EXPECT_EQ(v[4], 5);
  EXPECT_TRUE(v[5] != v[5]);
  EXPECT_EQ(r.find("values", EntryType::floats).dims, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(r.find("values", EntryType::floats).offset % 64, 0u);
  EXPECT_EQ(d.files(), std::vector<std::string>{"a"});
}

TEST(Container, LongPayloadsStreamThrough) {
  const Directory d;
  std::vector<float> v(1'000'003);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  {
    ContainerWriter w(d / "a", "model");
    w.begin("v", EntryType::floats, {v.size()}, v.size() * 4);
    const auto bytes = std::as_bytes(std::span(v));
    for (std::size_t at = 0; at < bytes.size(); at += 777'777)
      w.write(bytes.subspan(at, std::min<std::size_t>(777'777, bytes.size() - at)));
    w.finish();
    w.commit();
  }
  std::vector<float> read(v.size());
  ContainerReader(d / "a", "model").floats("v", read);
  EXPECT_EQ(read, v);
}

TEST(Container, EqualContentGivesEqualBytes) {
  const Directory d;
  write_small(d / "a");
  write_small(d / "b");
  EXPECT_EQ(slurp(d / "a"), slurp(d / "b"));
}

// Long entries go to disk in portions, short ones through a buffer.
TEST(Container, KeptInMemoryGivesTheBytesOfAStream) {
  const Directory d;
  std::vector<float> v(7'000'001);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  std::uint64_t checksums[2];
  for (const bool memory : {false, true}) {
    using Storage = ContainerWriter::Storage;
    ContainerWriter w(d / (memory ? "b" : "a"), "model", memory ? Storage::memory : Storage::file);
    for (const std::size_t size : {3u, 1'048'576u, 7'000'001u, 5u})
      w.add("v" + std::to_string(size), Shape{{size}}, std::span(v).first(size));
    if (memory) w.finish();  // may be repeated
    checksums[memory] = w.finish();
    w.commit();
  }
  EXPECT_EQ(checksums[0], checksums[1]);
  EXPECT_TRUE(slurp(d / "a") == slurp(d / "b"));
  EXPECT_NO_THROW(ContainerReader(d / "b", "model"));
}

TEST(Container, EveryDamagedByteIsFound) {
  const Directory d;
  write_small(d / "a");
  const std::string good = slurp(d / "a");
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      spill(d / "b", bad);
      const std::string message = error_of([&] { ContainerReader(d / "b", "checkpoint"); });
      ASSERT_NE(message.find(d / "b"), std::string::npos) << "byte " << i << " ^ " << flip << ": " << message;
    }
}

TEST(Container, EveryTruncationAndAnyAppendedByteIsFound) {
  const Directory d;
  write_small(d / "a");
  const std::string good = slurp(d / "a");
  for (std::size_t n = 0; n < good.size(); ++n) {
    spill(d / "b", good.substr(0, n));
    ASSERT_NE(error_of([&] { ContainerReader(d / "b", "checkpoint"); }), "") << n;
  }
  spill(d / "b", good + '\0');
  EXPECT_NE(error_of([&] { ContainerReader(d / "b", "checkpoint"); }), "");
  spill(d / "b", good + good);
  EXPECT_NE(error_of([&] { ContainerReader(d / "b", "checkpoint"); }), "");
}

TEST(Container, ErrorsSayWhatIsWrong) {
  const Directory d;
  write_small(d / "a");
  std::string bytes = slurp(d / "a");
  spill(d / "text", "hello, I am some other file that is longer than a header of sixty-four bytes");
  bytes[8] = 2;
  spill(d / "newer", bytes);
  EXPECT_EQ(error_of([&] { ContainerReader(d / "none", "model"); }),
            "opening '" + d / "none" + "': No such file or directory");
  EXPECT_EQ(error_of([&] { ContainerReader(d / "text", "model"); }),
            "'" + d / "text" + "' is not a file of this program (its first bytes are others)");
  EXPECT_EQ(error_of([&] { ContainerReader(d / "newer", "model"); }),
            "'" + d / "newer" + "' has format version 2; this program reads version 1");
  EXPECT_EQ(error_of([&] { ContainerReader(d / "a", "model"); }),
            "'" + d / "a" + "' is a checkpoint file, not a model file");
  const ContainerReader r(d / "a", "checkpoint");
  std::vector<float> v(5);
  EXPECT_EQ(error_of([&] { r.integer("counts"); }), "'" + d / "a" + "' has no entry 'counts'");
  EXPECT_EQ(error_of([&] { r.integer("rate"); }), "'" + d / "a" + "' has an entry 'rate' of another type");
  EXPECT_EQ(error_of([&] { r.floats("values", v); }),
            "'" + d / "a" + "' has an entry 'values' of 6 values where 5 are expected");
}

// The checksum fits, and yet a reader would ask for all memory.
TEST(Container, AShapeIsAsLargeAsItsValues) {
  const Directory d;
  for (const std::vector<std::uint64_t>& dims :
       std::vector<std::vector<std::uint64_t>>{{4}, {std::uint64_t{1} << 62, 3}, {std::uint64_t{1} << 62, 4, 3}, {0}}) {
    ContainerWriter w(d / "a", "model");
    w.begin("v", EntryType::floats, dims, 12);
    w.write(std::vector<std::byte>(12));
    w.finish();
    w.commit();
    EXPECT_EQ(error_of([&] { ContainerReader(d / "a", "model"); }),
              "'" + d / "a" + "' is damaged: entry 'v' has 12 bytes, its shape is another");
  }
}

TEST(Container, AnUnfinishedFileLeavesTheOldOneAndNoRubbish) {
  const Directory d;
  write_small(d / "a");
  const std::string good = slurp(d / "a");
  {
    ContainerWriter w(d / "a", "checkpoint");
    w.add("count", std::int64_t{1});
    w.finish();  // but never committed
  }
  EXPECT_EQ(slurp(d / "a"), good);
  EXPECT_EQ(d.files(), std::vector<std::string>{"a"});
}

TEST(Container, ArchivesNameSurplusEntries) {
  const Directory d;
  {
    ContainerWriter w(d / "a", "checkpoint");
    SavingArchive a(w, "x/");
    std::int64_t i = 7;
    double v = 0.5;
    a("i", i);
    a("v", v);
    w.finish();
    w.commit();
  }
  const ContainerReader r(d / "a", "checkpoint");
  LoadingArchive a(r, "x/");
  std::int64_t i = 0;
  a("i", i);
  EXPECT_EQ(i, 7);
  EXPECT_TRUE(a.has("v"));
  EXPECT_FALSE(a.has("w"));
  EXPECT_EQ(error_of([&] { a.finish(); }), "'" + d / "a" + "' has an entry 'x/v' that this run does not use");
}

}  // namespace
}  // namespace tutti::container_test

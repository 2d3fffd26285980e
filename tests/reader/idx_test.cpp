// SPDX-License-Identifier: Apache-2.0
// IDX files of every element type, plain and gzip, and what is said about broken ones.
#include <gtest/gtest.h>
#include <zlib.h>

#include <bit>
#include <cmath>

#include "reader/idx/idx_source.h"
#include "reader_support.h"

namespace tutti::reader::idx_test {
namespace {

std::string big(std::uint64_t value, int bytes) {
  std::string s;
  for (int b = bytes - 1; b >= 0; --b) s += static_cast<char>(value >> (8 * b));
  return s;
}

std::string idx(int type, const std::vector<std::uint32_t>& axes, const std::string& data) {
  std::string s{0, 0, static_cast<char>(type), static_cast<char>(axes.size())};
  for (const auto a : axes) s += big(a, 4);
  return s + data;
}

std::string gzip(const std::string& data) {
  const TemporaryFile file("");
  gzFile out = ::gzopen(file.path().c_str(), "wb");
  ::gzwrite(out, data.data(), static_cast<unsigned>(data.size()));
  ::gzclose(out);
  std::ifstream in(file.path(), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string error_of(const std::string& bytes, std::int64_t dim = 0) {
  const TemporaryFile file(bytes);
  try {
    IdxSource source({.input = {{"x", {.file = file.path(), .dim = dim}}}, .order = {}});
    source.index();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

std::vector<float> values(const std::string& bytes, double scale = 1) {
  const TemporaryFile file(bytes);
  IdxSource source({.input = {{"x", {.file = file.path(), .scale = scale}}}, .order = {}});
  Share share(source.streams());
  source.index();
  source.read(std::vector<std::uint32_t>{1, 0}, share);
  const auto d = share.finish().streams[0].dense;
  return {d.begin(), d.end()};
}

TEST(Idx, EveryElementType) {
  EXPECT_EQ(values(idx(0x08, {2, 2}, "\x01\xFF\x80\x07")), (std::vector<float>{128, 7, 1, 255}));
  EXPECT_EQ(values(idx(0x09, {2, 2}, "\x01\xFF\x80\x07")), (std::vector<float>{-128, 7, 1, -1}));
  EXPECT_EQ(values(idx(0x0B, {2, 1}, big(0xFFFE, 2) + big(300, 2))), (std::vector<float>{300, -2}));
  EXPECT_EQ(values(idx(0x0C, {2}, big(0xFFFFFFFE, 4) + big(70000, 4)), 0.5), (std::vector<float>{35000, -1}));
  EXPECT_EQ(
      values(idx(0x0D, {2}, big(std::bit_cast<std::uint32_t>(1.5f), 4) + big(std::bit_cast<std::uint32_t>(-2.25f), 4))),
      (std::vector<float>{-2.25f, 1.5f}));
  EXPECT_EQ(
      values(idx(0x0E, {2}, big(std::bit_cast<std::uint64_t>(0.1), 8) + big(std::bit_cast<std::uint64_t>(3.0), 8))),
      (std::vector<float>{3, 0.1f}));
}

TEST(Idx, BytesAreFractionsUnlessAScaleIsGiven) {
  EXPECT_EQ(values(idx(0x08, {2}, std::string("\x00\xFF", 2)), 0), (std::vector<float>{1, 0}));
  EXPECT_EQ(values(idx(0x0B, {2}, big(3, 2) + big(300, 2)), 0), (std::vector<float>{300, 3}));
}

TEST(Idx, GzipIsTheSame) {
  const std::string plain = idx(0x08, {2, 3}, "abcdef");
  EXPECT_EQ(values(plain), values(gzip(plain)));
}

TEST(Idx, ClassesAreOneHotDenseOrSparse) {
  const TemporaryFile file(idx(0x08, {3}, std::string("\x02\x00\x01", 3)));
  IdxSource source({.input = {{"d", {.file = file.path(), .dim = 3}},
                              {"s", {.file = file.path(), .dim = 3, .sparse = true}},
                              {"n", {.file = file.path(), .scale = 1}}},
                    .order = {}});
  Share share(source.streams());
  source.index();
  source.read(std::vector<std::uint32_t>{0, 2}, share);
  const Batch& b = share.finish();
  EXPECT_EQ(b.samples, 2);
  EXPECT_EQ(std::vector<float>(b.streams[0].dense.begin(), b.streams[0].dense.end()),
            (std::vector<float>{0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(std::vector<std::int32_t>(b.streams[1].indices.begin(), b.streams[1].indices.end()),
            (std::vector<std::int32_t>{2, 1}));
  EXPECT_EQ(std::vector<float>(b.streams[2].dense.begin(), b.streams[2].dense.end()), (std::vector<float>{2, 1}));
}

TEST(Idx, BrokenFiles) {
  const std::string good = idx(0x08, {2, 2}, "abcd");
  const auto says = [](const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_NE(error.find("reading the IDX file '"), std::string::npos) << error;
  };
  EXPECT_EQ(error_of(good), "no error");
  says(error_of(""), "only 0 bytes");
  says(error_of("PNG, perhaps"), "does not start like an IDX file");
  says(error_of(good.substr(0, 7)), "header is cut off");
  says(error_of(good.substr(0, good.size() - 1)),
       "it is cut off: its header says 2 x 2 elements of 1 byte, which is 4 bytes, but only 3 follow");
  says(error_of(good + "e"), "more data follow");
  says(error_of(idx(0x08, {0}, "")), "there are no data");
  says(error_of(idx(0x0E, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "")), "which no file has");
  says(error_of(idx(0x08, {0x7FFFFFFF}, "abc")), "only 3 follow");
  const std::string packed = gzip(idx(0x08, {100, 100}, std::string(10000, 'x') + ""));
  says(error_of(packed.substr(0, packed.size() - 9)), "cut off");
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  says(error_of(damaged), "damaged");
  says(error_of(idx(0x08, {3}, "\x01\x02\x0A"), 10), "the label of item 2 is 10, outside 0 to 9");
  says(error_of(idx(0x0D, {1}, "abcd"), 10), "fractions");
  says(error_of(good, 10), "each item has 2 numbers, but the block says 10");
}

TEST(Idx, NumbersAreFinite) {
  const auto float32 = [](float v) { return big(std::bit_cast<std::uint32_t>(v), 4); };
  const auto float64 = [](double v) { return big(std::bit_cast<std::uint64_t>(v), 8); };
  const std::string nan = error_of(idx(0x0D, {2, 2}, float32(1) + float32(2) + float32(3) + float32(NAN)));
  EXPECT_NE(nan.find("number 1 of item 1 is not finite"), std::string::npos) << nan;
  const std::string infinite = error_of(idx(0x0D, {2}, float32(INFINITY) + float32(2)));
  EXPECT_NE(infinite.find("number 0 of item 0 is not finite"), std::string::npos) << infinite;
  const std::string large = error_of(idx(0x0E, {2}, float64(1) + float64(1e300)));
  EXPECT_NE(large.find("number 0 of item 1 is not finite"), std::string::npos) << large;
}

TEST(Idx, FilesMustBelongTogether) {
  const TemporaryFile two(idx(0x08, {2}, "ab")), three(idx(0x08, {3}, "abc"));
  EXPECT_THROW(IdxSource({.input = {{"a", {.file = two.path()}}, {"b", {.file = three.path()}}}, .order = {}}), Error);
}

}  // namespace
}  // namespace tutti::reader::idx_test

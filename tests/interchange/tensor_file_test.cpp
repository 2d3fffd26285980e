// SPDX-License-Identifier: Apache-2.0
#include "interchange/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

#include "train/support.h"
#include "tutti/error.h"

namespace tutti::tensor_file_test {
namespace {

using namespace interchange;
using testing::Directory;
using testing::error_of;
using testing::slurp;
using testing::spill;

const float nan_with_bits = std::bit_cast<float>(0x7FC12345u);
const std::vector<float> matrix = {1, 2, 3, -0.0f, std::numeric_limits<float>::infinity(), nan_with_bits}, one = {7};
const std::vector<Tensor> tensors = {{"W", Shape{{2, 3}}, matrix}, {"b \"1\"", Shape{{1}}, one}, {"s", Shape{}, one}};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Format {
  const char* name;
  void (*write)(const std::string&, std::span<const Tensor>);
};
class TensorFiles : public ::testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, TensorFiles,
                         ::testing::Values(Format{"safetensors", write_safetensors}, Format{"npz", write_npz}),
                         [](const auto& info) { return info.param.name; });

TEST_P(TensorFiles, GiveBackTheSameBits) {
  const Directory d;
  GetParam().write(d / "a", tensors);
  const auto file = open_tensor_file(d / "a");
  ASSERT_EQ(file->entries().size(), 3u);
  EXPECT_EQ(file->find("W")->shape, (std::vector<std::uint64_t>{3, 2}));
  EXPECT_EQ(file->find("s")->shape, std::vector<std::uint64_t>{});
  EXPECT_EQ(file->find("w"), nullptr);
  EXPECT_TRUE(same_bits(file->read(*file->find("W")), matrix));
  EXPECT_TRUE(same_bits(file->read(*file->find("b \"1\"")), one));
  EXPECT_EQ(d.files(), std::vector<std::string>{"a"});
}

TEST_P(TensorFiles, AreTheSameBytesEveryTime) {
  const Directory d;
  GetParam().write(d / "a", tensors);
  GetParam().write(d / "b", tensors);
  EXPECT_EQ(slurp(d / "a"), slurp(d / "b"));
}

TEST_P(TensorFiles, CutAnywhereAreRefused) {
  const Directory d;
  GetParam().write(d / "a", tensors);
  const std::string whole = slurp(d / "a");
  for (std::size_t n = 0; n < whole.size(); ++n) {
    spill(d / "cut", whole.substr(0, n));
    EXPECT_THAT(error_of([&] { open_tensor_file(d / "cut"); }), ::testing::HasSubstr("\nfix: ")) << n;
  }
}

TEST(Npz, ChangedValuesAreFoundByTheChecksum) {
  const Directory d;
  write_npz(d / "a", tensors);
  std::string file = slurp(d / "a");
  const std::size_t at = file.find(std::string(reinterpret_cast<const char*>(matrix.data()), 8));
  ASSERT_NE(at, file.npos);
  file[at] ^= 1;
  spill(d / "a", file);
  EXPECT_NE(error_of([&] {
              const auto read = open_tensor_file(d / "a");
              read->read(*read->find("W"));
            }),
            "");
}

std::string safetensors_of(const std::string& header, std::size_t bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(bytes, '\0');
}

TEST(Safetensors, HeadersThatDoNotFitTheFileAreRefused) {
  const Directory d;
  const auto error = [&](const std::string& header, std::size_t bytes) {
    spill(d / "a", safetensors_of(header, bytes));
    return error_of([&] { open_safetensors(d / "a"); });
  };
  const auto tensor = [](const char* name, const char* type, const char* shape, int from, int to) {
    return "\"" + std::string(name) + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
           std::to_string(from) + "," + std::to_string(to) + "]}";
  };
  EXPECT_EQ(error("{" + tensor("a", "F32", "[2]", 0, 8) + "}", 8), "");
  EXPECT_THAT(error("{" + tensor("a", "F32", "[2]", 0, 8) + "}", 4),
              ::testing::HasSubstr("byte 9: the tensor 'a' is at [0, 8) of 4"));
  EXPECT_THAT(error("{" + tensor("a", "F32", "[3]", 0, 8) + "}", 8),
              ::testing::HasSubstr("needs 12 bytes, its place has 8"));
  EXPECT_THAT(error("{" + tensor("a", "F8", "[8]", 0, 8) + "}", 8),
              ::testing::EndsWith("has the type F8, which is not read\nfix: save it as F32"));
  EXPECT_THAT(error("{" + tensor("a", "F32", "[4294967296,4294967296,4]", 0, 0) + "}", 0),
              ::testing::HasSubstr("too large"));
  EXPECT_THAT(error("{" + tensor("a", "F32", "[1]", 0, 4) + "," + tensor("a", "F32", "[1]", 4, 8) + "}", 8),
              ::testing::HasSubstr("two tensors are called 'a'"));
  EXPECT_THAT(error("{" + tensor("a", "F32", "[2]", 0, 8) + "," + tensor("b", "F32", "[1]", 4, 8) + "}", 8),
              ::testing::HasSubstr("begins at byte 4 of the values, the one before ends at 8"));
  EXPECT_THAT(error("{" + tensor("a", "F32", "[1]", 4, 8) + "}", 8), ::testing::HasSubstr("begins at byte 4"));
  EXPECT_THAT(error("{" + tensor("a", "F32", "[1]", 0, 4) + "}", 8),
              ::testing::HasSubstr("4 bytes of values belong to no tensor"));
  EXPECT_THAT(error("{\"a\":{}}", 0), ::testing::HasSubstr("lacks one of dtype, shape and data_offsets"));
  EXPECT_THAT(error("[]", 0), ::testing::HasSubstr("byte 8: the header has no '{' here"));
  spill(d / "a", std::string(7, 'x'));
  EXPECT_THAT(error_of([&] { open_safetensors(d / "a"); }), ::testing::HasSubstr("too short"));
  spill(d / "a", std::string(64, 'x'));
  EXPECT_THAT(error_of([&] { open_safetensors(d / "a"); }), ::testing::HasSubstr("byte 0: the header has"));
}

TEST(Safetensors, ReadsSmallerAndLargerNumbers) {
  const Directory d;
  const std::string header =
      "{\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F64\",\"shape\":[],\"data_"
      "offsets\":[4,12]}}";
  std::string file = safetensors_of(header, 12);
  const std::uint16_t halves[2] = {0x3F80, 0xC000};
  const double number = 0.5;
  std::memcpy(file.data() + 8 + header.size(), halves, 4);
  std::memcpy(file.data() + 12 + header.size(), &number, 8);
  spill(d / "a", file);
  const auto read = open_tensor_file(d / "a");
  EXPECT_EQ(read->read(*read->find("a")), (std::vector<float>{1, -2}));
  EXPECT_EQ(read->read(*read->find("b")), std::vector<float>{0.5});
}

}  // namespace
}  // namespace tutti::tensor_file_test

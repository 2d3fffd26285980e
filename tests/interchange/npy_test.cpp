// SPDX-License-Identifier: Apache-2.0
#include "interchange/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "train/support.h"
#include "tutti/error.h"

namespace tutti::npy_test {
namespace {

using namespace interchange;
using testing::Directory;
using testing::error_of;
using testing::slurp;
using testing::spill;

// A file as NumPy writes it, with a header as given.
std::string npy_of(const std::string& dictionary, const std::string& values, int version = 1) {
  std::string text = std::string("\x93NUMPY", 6) + static_cast<char>(version) + '\0';
  text += static_cast<char>(dictionary.size() & 0xFF);
  text += static_cast<char>(dictionary.size() >> 8);
  if (version > 1) text += std::string(2, '\0');
  return text + dictionary + values;
}
template <class T>
std::string bytes_of_values(std::initializer_list<T> values) {
  std::string out;
  for (const T v : values) out += std::string(reinterpret_cast<const char*>(&v), sizeof v);
  return out;
}

TEST(Npy, WritesWhatNumPyWrites) {
  const Directory d;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint64_t> shape = {2, 3};
  write_npy(d / "a.npy", shape, values);
  const std::string file = slurp(d / "a.npy");
  EXPECT_EQ(file.size(), 128u + 24);
  EXPECT_EQ(file.substr(10, 60), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ");
  EXPECT_EQ(file[127], '\n');
  const NpyArray read = read_npy(d / "a.npy");
  EXPECT_EQ(read.shape, shape);
  EXPECT_EQ(read.values, values);
}

TEST(Npy, ReadsEveryKindOfNumber) {
  const Directory d;
  const auto read = [&](const std::string& type, const std::string& values, int version = 1) {
    spill(d / "a", npy_of("{'descr': '" + type + "', 'fortran_order': False, 'shape': (2,), }\n", values, version));
    return read_npy(d / "a").values;
  };
  const std::vector<float> expected = {1, 3};
  EXPECT_EQ(read("|b1", bytes_of_values<std::uint8_t>({1, 0})), (std::vector<float>{1, 0}));
  EXPECT_EQ(read("|u1", bytes_of_values<std::uint8_t>({1, 3})), expected);
  EXPECT_EQ(read("|i1", bytes_of_values<std::int8_t>({1, -3})), (std::vector<float>{1, -3}));
  EXPECT_EQ(read("<i2", bytes_of_values<std::int16_t>({1, 3})), expected);
  EXPECT_EQ(read("<u4", bytes_of_values<std::uint32_t>({1, 3})), expected);
  EXPECT_EQ(read("<i8", bytes_of_values<std::int64_t>({1, 3})), expected);
  EXPECT_EQ(read("<f2", bytes_of_values<std::uint16_t>({0x3C00, 0x4200})), expected);
  EXPECT_EQ(read("<f4", bytes_of_values<float>({1, 3}), 2), expected);
  EXPECT_EQ(read("<f8", bytes_of_values<double>({1, 3}), 3), expected);
}

TEST(Npy, TurnsArraysWithTheFirstAxisFastest) {
  const Directory d;
  spill(d / "a", npy_of("{\"descr\": \"<f4\", 'shape': (2, 3), 'fortran_order': True}",
                        bytes_of_values<float>({1, 4, 2, 5, 3, 6})));
  EXPECT_EQ(read_npy(d / "a").values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, DamageIsFoundBeforeMemoryIsTaken) {
  const Directory d;
  const auto error = [&](const std::string& file) {
    spill(d / "a", file);
    return error_of([&] { read_npy(d / "a"); });
  };
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
                    one = bytes_of_values<float>({1});
  EXPECT_THAT(error(""), ::testing::HasSubstr("byte 0: it does not begin as an array of NumPy"));
  EXPECT_THAT(error(npy_of(good, "")),
              ::testing::HasSubstr("byte 67: the shape needs 4 bytes of values, and 0 follow"));
  EXPECT_THAT(error(npy_of(good, one + one)), ::testing::HasSubstr("and 8 follow"));
  EXPECT_THAT(error(npy_of(good, one, 9)), ::testing::HasSubstr("byte 6: the array has format version 9"));
  EXPECT_THAT(error(npy_of(good, one).substr(0, 30)), ::testing::HasSubstr("byte 30: the file ends within the header"));
  EXPECT_THAT(error(npy_of("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", one)),
              ::testing::AllOf(::testing::HasSubstr("byte 20: the type '>f4' is not read"),
                               ::testing::EndsWith("fix: save the array as float32: array.astype('<f4')")));
  EXPECT_THAT(error(npy_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", one)),
              ::testing::EndsWith("records; only plain numbers are read\nfix: save one of their fields"));
  EXPECT_THAT(error(npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", one)),
              ::testing::HasSubstr("the array is too large"));
  EXPECT_THAT(error(npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }", one)),
              ::testing::HasSubstr("needs 4000000000000 bytes"));
  EXPECT_THAT(error(npy_of("{'descr': '<f4', 'shape': (1,), }", one)), ::testing::HasSubstr("lacks one of"));
}

}  // namespace
}  // namespace tutti::npy_test

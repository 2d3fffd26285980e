// SPDX-License-Identifier: Apache-2.0
// Numbers of the text format against strtof, and the syntax that is refused.
#include "reader/text/number.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tutti::reader::number_test {
namespace {

struct Read {
  NumberFault fault;
  float value;
  std::size_t length;
};

// With and without space for eight-byte loads; both must agree.
Read read(const std::string& text) {
  const std::string padded = text + " \n        ";
  Read r[2];
  for (const bool fast : {false, true}) {
    const char* p = padded.data();
    const char* fast_end = fast ? padded.data() + padded.size() - 7 : padded.data();
    r[fast].fault = read_number<true>(p, fast_end, r[fast].value);
    r[fast].length = static_cast<std::size_t>(p - padded.data());
    const char* q = padded.data();
    float ignored = 0;
    EXPECT_EQ(read_number<false>(q, fast_end, ignored), r[fast].fault) << text;
    EXPECT_EQ(q, p) << text;
  }
  EXPECT_EQ(r[0].fault, r[1].fault) << text;
  EXPECT_EQ(r[0].length, r[1].length) << text;
  if (r[0].fault == NumberFault::none) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(r[0].value), std::bit_cast<std::uint32_t>(r[1].value)) << text;
  }
  return r[0];
}

void expect_as_strtof(const std::string& text) {
  const Read r = read(text);
  const float expected = std::strtof(text.c_str(), nullptr);
  if (std::isinf(expected)) {
    EXPECT_EQ(r.fault, NumberFault::too_large) << text;
    return;
  }
  ASSERT_EQ(r.fault, NumberFault::none) << text;
  EXPECT_EQ(r.length, text.size()) << text;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(r.value), std::bit_cast<std::uint32_t>(expected)) << text;
}

TEST(Number, SpecialValues) {
  for (const char* text : {"0",
                           "-0",
                           "+0",
                           "1",
                           "-1",
                           "+1",
                           "12345678",
                           "123456789",
                           "00000000000000000000001",
                           "0.1",
                           "-0.650403",
                           "3.4028235e38",
                           "3.4028236e38",
                           "3.40282357e38",
                           "1e38",
                           "1e39",
                           "-1e39",
                           "1e400",
                           "1e-45",
                           "1e-46",
                           "7e-46",
                           "1e-400",
                           "1.17549435e-38",
                           "1.1754943e-38",
                           "0e99999999999",
                           "0.0",
                           "16777216",
                           "16777217",
                           "16777219",
                           "9007199254740993",
                           "18446744073709551615",
                           "18446744073709551616",
                           "340282346638528859811704183484516925440",
                           "340282356779733661637539395458142568448",
                           "0.000000000000000000000000000001",
                           "1E5",
                           "1e+5",
                           "1e-5",
                           "1.5e0003",
                           "99999999.99999999",
                           "0.30000000000000000000000000000001",
                           "1.00000005960464477539062500000001",
                           "1.000000059604644775390625",
                           "1.0000000596046447753906249999",
                           "8388608.5",
                           "8388609.5",
                           "8388608.49999999",
                           "1.",
                           "5.e2"})
    expect_as_strtof(text);
}

TEST(Number, AnythingPrintedReadsBackRight) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 60000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const float any = std::bit_cast<float>(bits);
    const double between = std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 240) - 170);
    const double usual = static_cast<double>(static_cast<std::int64_t>(random() % 2000001) - 1000000) / 1000.0;
    if (std::isfinite(any)) {
      expect_as_strtof(fmt::format("{}", any));
      expect_as_strtof(fmt::format("{:.{}e}", any, random() % 12));
      // Halfway to the next float, and a hair beside it.
      const double half = (static_cast<double>(any) + static_cast<double>(std::nextafter(any, 0.0f))) / 2;
      expect_as_strtof(fmt::format("{:.17g}", half));
      expect_as_strtof(fmt::format("{:.{}f}", half, random() % 20));
    }
    expect_as_strtof(fmt::format("{:.{}g}", between, 1 + random() % 25));
    expect_as_strtof(fmt::format("{}", usual));
    expect_as_strtof(fmt::format("{}", random() % 300));
  }
}

TEST(Number, Refused) {
  for (const char* text : {"", ".5", "-.5", "-", "+", "--1", "+-1", "inf", "nan", "-inf", "NaN", "x", "e5", "|", "\t"})
    EXPECT_EQ(read(text).fault, NumberFault::no_digit) << text;
  for (const char* text : {"1e", "1e+", "1e-", "1ex", "1.5e", "2e.5"})
    EXPECT_EQ(read(text).fault, NumberFault::no_exponent) << text;
}

TEST(Number, StopsWhereItEnds) {
  for (const auto& [text, length] : std::vector<std::pair<std::string, std::size_t>>{
           {"1abc", 1}, {"1:2", 1}, {"1.5.5", 3}, {"1e5e5", 3}, {"0x10", 1}, {"1,5", 1}, {"12-3", 2}, {"1|y", 1}})
    EXPECT_EQ(read(text).length, length) << text;
}

}  // namespace
}  // namespace tutti::reader::number_test

// SPDX-License-Identifier: Apache-2.0
#include "interchange/json_scanner.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tutti::json_scanner_test {
namespace {

using interchange::JsonScanner;

struct Failure : std::runtime_error {
  Failure(std::size_t at, const std::string& what) : std::runtime_error(what), at(at) {}
  std::size_t at;
};
JsonScanner scanner(std::string_view text) {
  return {text, [](std::size_t at, const std::string& what) { throw Failure(at, what); }};
}

TEST(JsonScanner, WalksThroughAnObject) {
  const std::string text =
      R"( { "a" : [1, 20,300] , "b":{"c":[{"d":"x\"]"}], "e":null},"f":"\u0041\u00e9\ud83d\ude00\n" } )";
  auto scan = scanner(text);
  std::vector<std::string> keys;
  scan.members([&](const std::string& key, std::size_t at) {
    keys.push_back(key);
    EXPECT_EQ(text[at], '"');
    if (key == "a") {
      EXPECT_EQ(scan.numbers(), (std::vector<std::uint64_t>{1, 20, 300}));
    } else if (key == "b") {
      scan.skip();
    } else {
      EXPECT_EQ(scan.text(), "A\xC3\xA9\xF0\x9F\x98\x80\n");
    }
  });
  scan.end();
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "b", "f"}));
}

TEST(JsonScanner, WhatIsQuotedReadsBack) {
  std::string all;
  for (int c = 1; c < 128; ++c) all += static_cast<char>(c);
  const std::string quoted = interchange::json_quoted(all);
  EXPECT_EQ(scanner(quoted).text(), all);
}

TEST(JsonScanner, ErrorsHaveTheirPlace) {
  const auto place = [](const std::string& text) -> long {
    try {
      auto scan = scanner(text);
      scan.members([&](const std::string& key, std::size_t) {
        if (key == "n")
          scan.numbers();
        else if (key == "s")
          scan.text();
        else
          scan.skip();
      });
      scan.end();
    } catch (const Failure& f) {
      return static_cast<long>(f.at);
    }
    return -1;
  };
  EXPECT_EQ(place(R"({"n":[1]})"), -1);
  EXPECT_EQ(place(R"({"n":[-1]})"), 6);
  EXPECT_EQ(place(R"({"n":[99999999999999999999]})"), 6);
  EXPECT_EQ(place(R"({"n":[1]} x)"), 10);
  EXPECT_EQ(place(R"({"n":[1])"), 8);
  EXPECT_EQ(place(R"({"s":"ab)"), 8);
  EXPECT_EQ(place(R"({"s":"\x"})"), 8);
  EXPECT_EQ(place(R"({"s":"\ud800"})"), 12);
  EXPECT_EQ(place(R"({"o":[}})"), 6);
  EXPECT_EQ(place(R"([])"), 0);
  EXPECT_EQ(place(""), 0);
}

}  // namespace
}  // namespace tutti::json_scanner_test

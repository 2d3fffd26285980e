// SPDX-License-Identifier: Apache-2.0
#include "simulator/request.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tutti/error.h"

namespace tutti::simulator::request_test {
namespace {

std::string complaint(const std::vector<std::string>& words) {
  try {
    parse_request(words);
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

TEST(Request, ListsAndUnits) {
  const Request r = parse_request({"--ranks", "2,3,16:64", "--links=1gbit,250mbit,none", "-n", "2", "configFile=x",
                                   "--latency", "30us", "--shared-cores", "2", "x=[y=--ranks]"});
  EXPECT_EQ(r.ranks, (std::vector<int>{2, 3, 16, 32, 64}));
  ASSERT_EQ(r.links.size(), 3U);
  EXPECT_EQ(r.links[0].bandwidth, 1e9);
  EXPECT_EQ(r.links[1].bandwidth, 250e6);
  EXPECT_TRUE(std::isinf(r.links[2].bandwidth));
  EXPECT_DOUBLE_EQ(r.latency, 30e-6);
  EXPECT_EQ(r.shared_cores, 2);
  EXPECT_EQ(r.others, (std::vector<std::string>{"-n", "2", "configFile=x", "x=[y=--ranks]"}));
  EXPECT_EQ(parse_request(r.own).ranks, r.ranks);
}

TEST(Request, MistakesHaveAFix) {
  EXPECT_EQ(complaint({"--ranks", "0"}).find("simulate: --ranks '0' is no number"), 0U);
  EXPECT_NE(complaint({"--ranks", "8:2"}).find("ends before it begins"), std::string::npos);
  EXPECT_NE(complaint({"--links", "fast"}).find("fix: --links 1gbit"), std::string::npos);
  EXPECT_NE(complaint({"--latency", "30"}).find("fix: --latency 30us"), std::string::npos);
  const std::vector<std::vector<std::string>> without_value = {
      {"--json"}, {"--json", "configFile=x"}, {"--json=", "configFile=x"}, {"--json", "-n"}};
  for (const auto& words : without_value)
    EXPECT_EQ(complaint(words), "simulate: --json needs a value\nfix: --json simulate.jsonl");
}

}  // namespace
}  // namespace tutti::simulator::request_test

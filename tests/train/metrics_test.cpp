// SPDX-License-Identifier: Apache-2.0
// Files of metrics: JSON lines and TensorBoard's events, cut where a run goes on. Other programs read both in
// tests/end_to_end/metrics_test.py.
#include "train/metrics/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>

#include "support.h"
#include "train/metrics/event_file.h"

namespace tutti::metrics_test {
namespace {

namespace fs = std::filesystem;

class MetricsTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  fs::path folder_ = fs::path(::testing::TempDir()) / ("tutti-metrics-" + std::to_string(::getpid()));
};

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

MetricsRecord interval(std::int64_t samples) {
  MetricsRecord r{"interval", samples};
  r.place = {{"epoch", 1}, {"minibatch", samples / 10}};
  r.results = {{"ce", 0.5, 10}, {"errs", 0.25, 10, true}};
  r.measures = {{"seconds", 0.125}};
  r.ranks = {{"wait_seconds", {1, 2.5}}};
  return r;
}

TEST(MetricsJson, HasOneFormForEveryValue) {
  EXPECT_EQ(
      to_json(interval(640), 12.5),
      "{\"event\":\"interval\",\"samples\":640,\"time\":12.500,\"epoch\":1,\"minibatch\":64,"
      "\"results\":{\"ce\":{\"mean\":0.5,\"count\":10},\"errs\":{\"mean\":0.25,\"count\":10,\"error_rate\":true}},"
      "\"measures\":{\"seconds\":0.125},\"ranks\":{\"wait_seconds\":[1,2.5]}}");
  MetricsRecord odd{"start", 0};
  odd.texts = {{"model", "a\"b\\c\nd"}};
  odd.results = {{"ce", std::numeric_limits<double>::quiet_NaN(), 1}};
  odd.measures = {{"limit", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(to_json(odd, 0),
            "{\"event\":\"start\",\"samples\":0,\"time\":0.000,\"model\":\"a\\\"b\\\\c\\u000ad\","
            "\"results\":{\"ce\":{\"mean\":null,\"count\":1}},\"measures\":{\"limit\":null}}");
}

TEST_F(MetricsTest, JsonLinesBehindThePlaceOfAResumeAreRemoved) {
  const std::string file = path("sub/run.jsonl");
  const auto write = [&](std::int64_t from, std::initializer_list<std::int64_t> positions) {
    const auto lines = make_json_lines(file);
    lines->resume_at(from);
    for (const auto at : positions) lines->write(interval(at));
  };
  const auto positions = [&] {
    std::vector<long long> found;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      long long at = -1;
      std::sscanf(line.c_str(), "{\"event\":\"interval\",\"samples\":%lld", &at);
      found.push_back(at);
    }
    return found;
  };
  using List = std::vector<long long>;
  write(-1, {10, 20, 30, 40});
  std::ofstream(file, std::ios::app) << "{\"event\":\"interval\",\"samp";  // killed while it wrote
  write(20, {30, 40});
  EXPECT_EQ(positions(), (List{10, 20, 30, 40}));
  EXPECT_EQ(content(file).back(), '\n');
  write(40, {});
  EXPECT_EQ(positions(), (List{10, 20, 30, 40}));
  write(35, {50});
  EXPECT_EQ(positions(), (List{10, 20, 30, 50}));
  write(-1, {5});
  EXPECT_EQ(positions(), (List{5}));
}

TEST(EventFile, ChecksumsAreCastagnolis) {
  EXPECT_EQ(event_file::crc32c("123456789"), 0xe3069283u);  // RFC 3720, B.4, and the catalogue of parametrised CRCs
  EXPECT_EQ(event_file::crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(event_file::crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(EventFile, ReadsWhatItWritesAndStopsAtDamage) {
  const std::string one = event_file::framed(event_file::version_event(1)),
                    two = event_file::framed(event_file::scalars_event(2, 300, {{"a/b", 0.5}, {"c", -1}}));
  std::string file = one + two;
  const auto first = event_file::read_event(file, 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->next, one.size());
  EXPECT_EQ(event_file::step_of(first->event), 0);
  const auto second = event_file::read_event(file, first->next);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->next, file.size());
  EXPECT_EQ(event_file::step_of(second->event), 300);
  EXPECT_FALSE(event_file::read_event(file, file.size()));
  for (std::size_t cut = one.size(); cut < file.size(); ++cut)
    EXPECT_FALSE(event_file::read_event(file.substr(0, cut), one.size())) << cut;
  for (std::size_t at = one.size(); at < file.size(); ++at) {
    file[at] ^= 1;
    EXPECT_FALSE(event_file::read_event(file, one.size())) << at;
    file[at] ^= 1;
  }
}

TEST_F(MetricsTest, EventsBehindThePlaceOfAResumeAreRemoved) {
  const auto steps = [&] {
    std::multiset<std::int64_t> found;
    for (const auto& entry : fs::directory_iterator(path("tb"))) {
      const std::string bytes = content(entry.path());
      std::size_t at = 0;
      while (const auto event = event_file::read_event(bytes, at)) {
        at = event->next;
        if (event->event.find("interval/ce") != event->event.npos) found.insert(event_file::step_of(event->event));
      }
      EXPECT_EQ(at, bytes.size()) << entry.path();
    }
    return found;
  };
  const auto write = [&](const std::string& model, std::int64_t from, std::initializer_list<std::int64_t> positions) {
    const auto events = make_tensor_board(path("tb"), model);
    events->resume_at(from);
    for (const auto at : positions) events->write(interval(at));
  };
  using Steps = std::multiset<std::int64_t>;
  write("/a/net.dnn", -1, {10, 20, 30});
  write("/a/net.dnn", 20, {30, 40});
  EXPECT_EQ(steps(), (Steps{10, 20, 30, 40}));
  write("/a/net.dnn", 10, {20});
  EXPECT_EQ(steps(), (Steps{10, 20}));
  // Other runs in the same folder touch nothing, whatever their models are called.
  write("/a/other.dnn", -1, {7});
  write("/b/net.dnn", -1, {8});
  write("/a/other.net.dnn", -1, {9});
  EXPECT_EQ(steps(), (Steps{7, 8, 9, 10, 20}));
  write("/a/net.dnn", -1, {1});
  EXPECT_EQ(steps(), (Steps{1, 7, 8, 9}));
}

TEST_F(MetricsTest, AFileThatCannotBeWrittenIsNamedBefore) {
  std::ofstream(path("file")) << "x";
  EXPECT_EQ(why_unwritable(path("new/folder/run.jsonl"), false), "");
  EXPECT_EQ(why_unwritable(path("file"), false), "");
  EXPECT_NE(why_unwritable(path("file"), true), "");
  EXPECT_NE(why_unwritable(path("file/run.jsonl"), false), "");
  EXPECT_NE(why_unwritable(folder_.string(), false), "");
  EXPECT_EQ(why_unwritable(folder_.string(), true), "");
  EXPECT_NE(why_unwritable("/proc/new/run.jsonl", false), "");  // also for root
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "it leaves nothing behind";
}

}  // namespace
}  // namespace tutti::metrics_test

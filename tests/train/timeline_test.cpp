// SPDX-License-Identifier: Apache-2.0
#include "train/timeline_writer.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include <unistd.h>

#include "comm/threads.h"

namespace tutti::timeline_test {
namespace {

using namespace std::chrono_literals;

std::string file_name() { return ::testing::TempDir() + "/tutti-timeline-" + std::to_string(::getpid()) + ".json"; }

YAML::Node events(const std::string& path) {
  std::ifstream in(path);
  return YAML::Load(std::string(std::istreambuf_iterator<char>(in), {}))["traceEvents"];  // JSON is YAML
}

TEST(Timeline, RecordsOnlyWhatItIsToldTo) {
  Timeline timeline(2);
  const auto span = [] {
    const TimelineSpan s(Work::forward);
    std::this_thread::sleep_for(10us);
  };
  span();
  detail::recorded_thread = &timeline;
  timeline.at(0, 4);
  span();
  double seconds = 0;
  {
    const WorkTimer timer(seconds, Work::wait);
    std::this_thread::sleep_for(10us);
  }
  span();  // does not fit
  detail::recorded_thread = nullptr;
  span();
  ASSERT_EQ(timeline.spans().size(), 2u);
  EXPECT_EQ(timeline.lost(), 1);
  const Timeline::Span &first = timeline.spans()[0], &second = timeline.spans()[1];
  EXPECT_EQ(first.work, Work::forward);
  EXPECT_EQ(second.work, Work::wait);
  EXPECT_LE(first.end, second.begin);
  EXPECT_EQ(second.minibatch, 4);
  EXPECT_NEAR(seconds * 1e9, static_cast<double>(second.end - second.begin), 1);
}

// Ranks as threads have one clock: what is measured is the error.
TEST(TimelineWriter, MeasuresClocksWithinTheirUncertainty) {
  run_ranks(4, [](Communicator& comm) {
    const auto offsets = measure_clock_offsets(comm);
    ASSERT_EQ(offsets.size(), 4u);
    if (comm.rank() != 0) return;
    for (const ClockOffset& o : offsets) EXPECT_LE(std::abs(o.nanoseconds), o.uncertainty + 1);
  });
}

TEST(TimelineWriter, WritesTheSpansOfAllRanksAndIsValidAfterEveryFlush) {
  const std::string path = file_name();
  for (const int ranks : {1, 3}) {
    run_ranks(ranks, [&](Communicator& comm) {
      TimelineWriter writer(comm, path, 2);
      for (int epoch = 0; epoch < 2; ++epoch) {
        writer.start(epoch, 0);
        for (int step = 0; step < 3; ++step) {  // the third is not recorded
          {
            const TimelineSpan span(Work::forward);
            std::this_thread::sleep_for(20us);
          }
          writer.end_step(step + 1);
        }
        writer.flush();
        if (comm.rank() == 0) {
          EXPECT_EQ(events(path).size(), static_cast<std::size_t>(ranks * (3 + 2 * (epoch + 1))));
        }
        comm.barrier();
      }
    });
    std::map<std::pair<int, int>, int> seen;
    double before = -1;
    for (const auto& e : events(path)) {
      if (e["ph"].as<std::string>() == "M") continue;
      EXPECT_EQ(e["name"].as<std::string>(), "forward");
      ++seen[{e["pid"].as<int>(), e["args"]["epoch"].as<int>()}];
      EXPECT_GE(e["dur"].as<double>(), 20);
      if (e["pid"].as<int>() != 0) continue;
      EXPECT_GT(e["ts"].as<double>(), before);
      before = e["ts"].as<double>();
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(2 * ranks));
    for (const auto& [place, count] : seen) EXPECT_EQ(count, 2);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tutti::timeline_test

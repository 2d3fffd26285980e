// SPDX-License-Identifier: Apache-2.0
// Events in order, cores that are shared, links that keep every byte, and servers against closed forms.
#include "simulator/events.h"

#include <gtest/gtest.h>

#include "simulator/servers.h"

namespace tutti::simulator::events_test {
namespace {

TEST(Agenda, EventsComeByTimeThenByNumber) {
  Agenda agenda;
  std::vector<int> order;
  agenda.at(2, [&] { order.push_back(3); });
  agenda.at(1, [&] {
    order.push_back(1);
    agenda.at(1, [&] { order.push_back(2); });
  });
  agenda.run();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(agenda.now(), 2);
}

TEST(Core, JobsShareIt) {
  Agenda agenda;
  Core core(agenda);
  std::vector<double> ends;
  const auto end = [&] { ends.push_back(agenda.now()); };
  core.run(1, end);
  core.run(2, end);
  agenda.at(4, [&] { core.run(0.5, end); });  // alone
  agenda.run();
  // Each gets half until the first has ended at 2; one second of the second is left.
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_DOUBLE_EQ(ends[0], 2);
  EXPECT_DOUBLE_EQ(ends[1], 3);
  EXPECT_DOUBLE_EQ(ends[2], 4.5);
  EXPECT_DOUBLE_EQ(core.busy(), 3.5);
}

TEST(Links, PassOneMessageAfterTheOther) {
  Agenda agenda;
  Port a, b, c;
  const LinkTimes link{.bandwidth = 100, .latency = 0.5};
  std::vector<double> times;
  const auto arrived = [&] { times.push_back(agenda.now()); };
  send(agenda, a, b, 100, link, arrived);
  send(agenda, a, b, 200, link, arrived);
  send(agenda, c, b, 100, link, arrived);  // reaches b together with the first one
  agenda.run();
  ASSERT_EQ(times.size(), 3U);
  EXPECT_DOUBLE_EQ(times[0], 1.5);
  EXPECT_DOUBLE_EQ(times[1], 2.5);
  EXPECT_DOUBLE_EQ(times[2], 4.5);
  EXPECT_EQ(a.bytes_out + c.bytes_out, b.bytes_in);
}

TEST(Links, SendPartsInTurn) {
  Agenda agenda;
  Port a, b, c;
  const LinkTimes link{.bandwidth = 100, .latency = 0.5, .part = 50};
  std::vector<double> times;
  const auto arrived = [&] { times.push_back(agenda.now()); };
  send(agenda, a, b, 50, link, arrived);
  send(agenda, a, b, 100, link, arrived);
  send(agenda, a, c, 200, link, arrived);
  agenda.run();
  // To b, b, c, b, c, c, c: the second message to b waits for the first.
  ASSERT_EQ(times.size(), 3U);
  EXPECT_DOUBLE_EQ(times[0], 1);
  EXPECT_DOUBLE_EQ(times[1], 2.5);
  EXPECT_DOUBLE_EQ(times[2], 4);
  EXPECT_DOUBLE_EQ(b.bytes_in, 150);
  EXPECT_DOUBLE_EQ(c.bytes_in, 200);
}

// One worker and one server of its own.
TEST(Servers, OneWorkerIsAClosedForm) {
  const MessageCost cost{2e-6, 1e-9, 20e-6};
  const Cluster cluster{.ranks = 2, .bandwidth = 1e8, .latency = 1e-4};
  const double bytes = 60000, values = 15000;
  const ServerLoad load{.workers = 1,
                        .first_server = 1,
                        .servers = 1,
                        .naps = false,
                        .shards = {{.owner = 1, .values = values, .bytes = bytes}},
                        .block = 5e-3,
                        .encode = 1e-9,
                        .serve = 3e-9,
                        .decode = 2e-9};
  const double end = (2e-6 + bytes * 1e-9) / 2, on_link = bytes / 1e8 + 1e-4 + 20e-6;
  const double expected = 5e-3 + values * 6e-9 + 4 * end + 2 * on_link;
  const ServedRun run = run_servers(load, cost, cluster, 1, 5);
  EXPECT_NEAR(run.seconds, expected, 1e-12);
  EXPECT_DOUBLE_EQ(run.total_sent, 6 * 2 * bytes);
}

// Every rank works and serves.
ServerLoad symmetric(int ranks, double bytes) {
  ServerLoad load{
      .workers = ranks, .servers = ranks, .shards = {}, .block = 1e-3, .encode = 1e-9, .serve = 1e-9, .decode = 1e-9};
  for (int r = 0; r < ranks; ++r) load.shards.push_back({.owner = r, .values = bytes / 4, .bytes = bytes});
  return load;
}

TEST(Servers, EveryByteArrives) {
  for (const int ranks : {2, 3, 8}) {
    const ServerLoad load = symmetric(ranks, 1000);
    const ServedRun run = run_servers(load, {1e-6, 1e-9, 1e-5}, {.ranks = ranks, .bandwidth = 1e7}, 1, 3);
    // Requests and responses of all shards but the own one.
    EXPECT_DOUBLE_EQ(run.total_sent, 4.0 * 2 * ranks * (ranks - 1) * 1000);
    EXPECT_DOUBLE_EQ(run.total_received, run.total_sent);
  }
}

TEST(Servers, ASlowLinkDecides) {
  const ServedRun run = run_servers(symmetric(4, 1e6), {}, {.ranks = 4, .bandwidth = 1e6}, 1, 4);
  // A rank sends three requests and three responses of a second each; their order leaves few gaps.
  EXPECT_GE(run.seconds, 6);
  EXPECT_LE(run.seconds, 9);
}

TEST(Servers, SharedCoresAreShared) {
  ServerLoad load = symmetric(4, 1000);
  load.naps = false;
  const double own = run_servers(load, {}, {.ranks = 4}, 1, 4).seconds;
  const double shared = run_servers(load, {}, {.ranks = 4, .shared_cores = 1}, 1, 4).seconds;
  EXPECT_NEAR(shared / own, 4, 0.02);
}

}  // namespace
}  // namespace tutti::simulator::events_test

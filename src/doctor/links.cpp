// SPDX-License-Identifier: Apache-2.0
#include "doctor/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <span>

#include "base/clock.h"

namespace tutti::doctor {
namespace {

constexpr int kTag = 31007;
constexpr double kSlow = 500e6 / 8;     // bytes per second: below, exchanges decide how long a step takes
constexpr double kClockApart = 1;       // seconds
constexpr std::size_t kMostLines = 28;  // pairs of 8 hosts
constexpr double kEnough = 0.1;         // seconds of a message that is long enough to measure
constexpr std::size_t kLargest = 1 << 24;

double time_of_day() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// There and back, between this rank and the other; the one that asks gets the seconds.
double round_trip(Communicator& world, int other, bool asks, std::span<std::byte> bytes) {
  const auto start = Clock::now();
  if (asks) {
    world.send(other, kTag, bytes)->wait();
    world.receive(other, kTag, bytes)->wait();
  } else {
    world.receive(other, kTag, bytes)->wait();
    world.send(other, kTag, bytes)->wait();
  }
  return seconds_since(start);
}

// Both ranks of the pair call it; the result is that of the one that asks.
Link measure(Communicator& world, int other, bool asks) {
  Link link;
  std::array<std::byte, 8> small{};
  double best = 1e9;
  for (int i = 0; i < 30; ++i) best = std::min(best, round_trip(world, other, asks, small));
  link.latency = best / 2;
  std::vector<std::byte> large(1 << 16);
  for (;;) {
    double seconds = 1e9;
    for (int i = 0; i < 3; ++i) seconds = std::min(seconds, round_trip(world, other, asks, large));
    link.bandwidth = 2 * static_cast<double>(large.size()) / std::max(seconds, 1e-9);
    // The one that asks decides whether longer messages follow.
    std::array<std::byte, 1> more{std::byte(seconds < kEnough && large.size() < kLargest)};
    if (asks)
      world.send(other, kTag, more)->wait();
    else
      world.receive(other, kTag, more)->wait();
    if (more[0] == std::byte{0}) return link;
    large.resize(large.size() * 4);
  }
}

std::string rate_text(double bytes_per_second) {
  const double bits = bytes_per_second * 8;
  return bits < 1e9 ? fmt::format("{:.0f} Mbit/s", bits / 1e6) : fmt::format("{:.1f} Gbit/s", bits / 1e9);
}

std::string text_of(const std::vector<LinkEnd>& ends, const Link& l) {
  const bool within = ends[l.a].host == ends[l.b].host;
  return fmt::format(
      "{}: {:.0f} µs, {}",
      within ? fmt::format("ranks of {}", ends[l.a].host) : fmt::format("{} - {}", ends[l.a].host, ends[l.b].host),
      l.latency * 1e6, rate_text(l.bandwidth));
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

void look_at_clocks(Communicator& world, const std::vector<LinkEnd>& ends, Findings& findings) {
  double worst = 0;
  std::string host;
  for (std::size_t e = 1; e < ends.size(); ++e) {
    if (ends[e].host == ends[0].host) continue;
    double offset = 0, least = 1e9;
    for (int i = 0; i < 10; ++i) {
      double theirs = 0;
      if (world.rank() == ends[0].rank) {
        const auto start = Clock::now();
        std::byte ask{};
        world.send(ends[e].rank, kTag, std::span(&ask, 1))->wait();
        world.receive(ends[e].rank, kTag, std::as_writable_bytes(std::span(&theirs, 1)))->wait();
        const double taken = seconds_since(start);
        if (taken < least) least = taken, offset = theirs - (time_of_day() - taken / 2);
      } else if (world.rank() == ends[e].rank) {
        std::byte ask{};
        world.receive(ends[0].rank, kTag, std::span(&ask, 1))->wait();
        theirs = time_of_day();
        world.send(ends[0].rank, kTag, std::as_bytes(std::span(&theirs, 1)))->wait();
      }
    }
    if (std::abs(offset) > std::abs(worst)) worst = offset, host = ends[e].host;
    if (host.empty()) host = ends[e].host;
  }
  if (world.rank() != 0 || host.empty()) return;
  if (std::abs(worst) > kClockApart)
    findings.push_back(
        {Level::warning, "clock",
         fmt::format("the clock of {} is {:.1f} s {} that of {}: times in logs and of files cannot be compared", host,
                     std::abs(worst), worst > 0 ? "ahead of" : "behind", ends[0].host),
         "start an NTP client there (chrony, systemd-timesyncd)"});
  else
    findings.push_back(
        {Level::ok, "clock", fmt::format("the hosts' clocks differ by {:.3f} s at most", std::abs(worst))});
}

void look_at_links(Communicator& world, const std::vector<LinkEnd>& ends, Findings& findings) {
  std::vector<Link> links;
  for (std::size_t a = 0; a < ends.size(); ++a)
    for (std::size_t b = a + 1; b < ends.size(); ++b) {
      Link link;
      world.barrier();
      if (world.rank() == ends[a].rank) link = measure(world, ends[b].rank, true);
      if (world.rank() == ends[b].rank) measure(world, ends[a].rank, false);
      std::array<double, 2> of_link{link.latency, link.bandwidth};
      world.broadcast(ends[a].rank, std::as_writable_bytes(std::span(of_link)));
      links.push_back({a, b, of_link[0], of_link[1]});
    }
  if (world.rank() == 0) judge_links(ends, links, findings);
}

void judge_links(const std::vector<LinkEnd>& ends, const std::vector<Link>& links, Findings& findings) {
  if (links.empty()) return;
  std::vector<double> bandwidths;
  for (const Link& l : links) bandwidths.push_back(l.bandwidth);
  const double usual = median(bandwidths);
  std::size_t good = 0;
  for (const Link& l : links) {
    if (l.bandwidth < usual / 4)
      findings.push_back({Level::warning, "link",
                          fmt::format("{}, while most links have {}: all ranks wait for the slowest", text_of(ends, l),
                                      rate_text(usual)),
                          "look at cable, switch port and other traffic of these hosts, or leave one of them out"});
    else if (l.bandwidth < kSlow && ends[l.a].host != ends[l.b].host)
      findings.push_back({Level::warning, "link",
                          text_of(ends, l) + ": a million gradients in 32 bits take " +
                              fmt::format("{:.0f} ms", 32e6 / 8 / l.bandwidth * 1e3),
                          "gradientBits = 1, or a method that exchanges weights seldom (docs/methods/README.md)"});
    else if (++good <= kMostLines)
      findings.push_back({Level::ok, "link", text_of(ends, l)});
  }
  if (good > kMostLines) findings.push_back({Level::ok, "link", fmt::format("{} more like these", good - kMostLines)});
}

}  // namespace tutti::doctor

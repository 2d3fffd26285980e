// SPDX-License-Identifier: Apache-2.0
#include "comm/watch_verdict.h"

#include <fmt/format.h>

#include <cstring>
#include <tuple>

namespace tutti {
namespace {

double idle(const WatchedRank& r) { return static_cast<double>(r.beat.idle_ms) / 1000 + r.silent; }

WatchVerdict verdict(ExitCode code, const WatchedRank& r, const std::string& what) {
  return {code, r.rank, fmt::format("rank {} on {} {}", r.rank, r.host, what)};
}

std::optional<WatchVerdict> lost(const WatchedRank& r, double seconds, double closed) {
  if (!r.linked || r.done) return {};
  if (r.closed && r.why_closed == 0 && r.closed_for >= closed)
    return verdict(kRankDied, r, "died: its process has ended (killed, out of memory, or crashed?)");
  if (r.closed && r.why_closed != 0 && r.closed_for >= closed)
    return verdict(kLinkCut, r, fmt::format("cannot be reached: {}", std::strerror(r.why_closed)));
  if (r.closed || r.silent < seconds) return {};
  if (!r.acknowledged)
    return verdict(kLinkCut, r,
                   fmt::format("cannot be reached for {:.1f} s: its host acknowledges nothing (link cut, or host down)",
                               r.silent));
  return verdict(kRankFrozen, r,
                 fmt::format("is frozen for {:.1f} s: its host answers, its process does not run (SIGSTOP, swapping, "
                             "or suspended?)",
                             r.silent));
}

// Seconds. After three missed heartbeats a rank may be frozen: its idle time proves nothing.
constexpr double kUnheard = 1.5;

bool same_silence(const WatchedRank& r) { return r.linked && !r.done && !r.closed; }

}  // namespace

std::optional<WatchVerdict> judge(const std::vector<WatchedRank>& ranks, double seconds, double closed) {
  for (const WatchedRank& r : ranks)
    if (auto found = lost(r, seconds, closed)) return found;
  const WatchedRank* least = nullptr;
  bool all_wait = true;
  for (const WatchedRank& r : ranks) {
    if (!same_silence(r)) continue;
    if (!r.beat.training || r.silent > kUnheard || idle(r) < seconds) {
      all_wait = false;
      continue;
    }
    if (!r.beat.waiting)
      return verdict(
          kRankStalled, r,
          fmt::format("is late: it runs, but has made no progress for {:.1f} s (it {})", idle(r), r.beat.doing.data()));
    const auto place = [](const WatchedRank& w) { return std::tuple(w.beat.epoch, w.beat.minibatch); };
    if (!least || place(r) < place(*least)) least = &r;
  }
  if (!least || !all_wait) return {};
  for (const WatchedRank& r : ranks)
    if (!r.linked && !r.done)
      return verdict(kRankStalled, r,
                     fmt::format("is late: all others wait for {:.1f} s, and its watchdog has never connected (it is "
                                 "frozen since before, or a firewall lies between)",
                                 idle(*least)));
  return verdict(
      kRankStalled, *least,
      fmt::format("is late: all ranks wait for each other for {:.1f} s, and none is behind it", idle(*least)));
}

std::string where_it_is(const WatchedRank& r) {
  std::string text = fmt::format("rank {} on {}: ", r.rank, r.host);
  if (r.done) return text + "done";
  if (!r.linked) return text + "unknown: its watchdog has not connected";
  if (r.beat.epoch > 0) text += fmt::format("epoch {}, minibatch {}: ", r.beat.epoch, r.beat.minibatch);
  text += fmt::format("{}{}", r.beat.waiting ? "waits for " : "", r.beat.doing.data());
  if (r.beat.bucket >= 0) text += fmt::format(" of bucket {}", r.beat.bucket);
  if (r.beat.peer >= 0) text += fmt::format(" of rank {}", r.beat.peer);
  text += fmt::format(" since {:.1f} s", static_cast<double>(r.beat.idle_ms) / 1000);
  if (r.closed) return text + fmt::format("; its connection ended {:.1f} s ago", r.closed_for);
  if (r.silent > 2) text += fmt::format("; not heard of for {:.1f} s", r.silent);
  return text;
}

}  // namespace tutti

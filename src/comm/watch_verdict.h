// SPDX-License-Identifier: Apache-2.0
// watch_verdict.h -- from what a watchdog knows of the ranks to the one that is late, and the text about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/exit_codes.h"
#include "comm/watch_link.h"

namespace tutti {

// What is known of a rank.
struct WatchedRank {
  int rank = 0;
  std::string host;
  bool linked = false;  // it has connected
  bool done = false;    // it said goodbye
  bool closed = false;  // its connection ended
  int why_closed = 0;
  bool acknowledged = true;  // its host has acknowledged all that was sent
  double silent = 0;         // seconds since its last message
  double closed_for = 0;     // seconds since the connection ended
  WatchMessage beat;         // its last one
};

struct WatchLimits {
  double stall = 300;  // seconds until a rank counts as lost; stallTimeout
  double warn = 30;    // until a warning
  double grace = 25;   // from a signal to the end of the process; graceSeconds
  double closed = 1;   // from the end of a connection: the launcher should be first to say why
};

struct WatchVerdict {
  ExitCode code = kFailed;
  int rank = 0;
  std::string text;  // "rank 2 on node7 is frozen: ..."
};
// The rank that holds up the others, if there is one. With `seconds` = limits.warn, whom to warn about.
std::optional<WatchVerdict> judge(const std::vector<WatchedRank>&, double seconds, double closed);

// "rank 2 on node7: epoch 3, minibatch 17: waits for gradients of bucket 4 of rank 1 since 30.2 s".
std::string where_it_is(const WatchedRank&);

}  // namespace tutti

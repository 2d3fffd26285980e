// SPDX-License-Identifier: Apache-2.0
// watchdog.h -- one thread per rank that notices when another rank is dead, frozen, cut off or late, and ends the run
// with its name; and that lets all ranks stop after the same minibatch when a signal asks for it. Every rank sends rank
// 0 a heartbeat twice a second, and rank 0 one to every rank, over TCP connections of their own. Nothing of this is in
// the step: the training thread notes what it does (base/activity.h), which no rank waits for.
#pragma once

#include <memory>

#include "comm/watch_verdict.h"
#include "tutti/communicator.h"

namespace tutti {

class Watchdog {
 public:
  // Called on the thread of the watchdog. `ends` ends every rank and prints the text ("" = already printed); `leaves`
  // ends this process with exit code 0.
  struct Exits {
    void (*ends)(const std::string& text, int code);
    void (*leaves)();
  };
  // Collective.
  Watchdog(Communicator& world, Exits exits);
  // This rank is done: others no longer expect it.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;

  // This rank has failed: all others leave. Returns true when they are gone, false if some are still there after a
  // second. If several ranks call this, one of them returns, and the others leave.
  bool end_others();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Of this process; takes effect at once.
void set_watch_limits(const WatchLimits&);

}  // namespace tutti

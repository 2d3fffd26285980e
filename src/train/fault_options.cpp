// SPDX-License-Identifier: Apache-2.0
#include "train/fault_options.h"

#include <cmath>

#include "comm/watchdog.h"
#include "config/top_level.h"

namespace tutti {

void FaultOptions::describe(config::Fields& f) {
  config::describe_stall_limits(f, stall_timeout, stall_warning);
  f("graceSeconds", grace_seconds,
    "seconds from SIGTERM, SIGINT or SIGUSR1 in which the run makes a checkpoint and ends with exit code 75");
  f.choice<OnNan>(
      "onNaN", on_nan, {{"stop", OnNan::stop}, {"skip", OnNan::skip}, {"rewind", OnNan::rewind}},
      "when the criterion or a gradient is NaN: stop (exit code 85), skip the update, or rewind to the last "
      "checkpoint with a lower learning rate");
  f("nanRateFactor", nan_rate_factor, "factor of the learning rate at each rewind");
  f("maxRewinds", most_rewinds, "rewinds until the run ends");
  if (!(nan_rate_factor > 0 && nan_rate_factor <= 1))
    f.problem("nanRateFactor", "nanRateFactor must lie above 0, up to 1", "write 0.5 to halve the rate");
  if (most_rewinds < 1) f.problem("maxRewinds", "maxRewinds must be at least 1", "onNaN = stop does not rewind");
  f("keepCheckpoints", keep_checkpoints,
    "number of newest models and their states to keep; older ones are removed. 0 = keep all models");
  if (keep_checkpoints < 0) f.problem("keepCheckpoints", "a number of checkpoints cannot be negative", "0 keeps all");
  f("verifyReplicas", verify_replicas,
    "minibatches between two comparisons of the weights of all ranks, to find silent corruption; 0 = none");
  if (verify_replicas < 0)
    f.problem("verifyReplicas", "a number of minibatches cannot be negative", "0 compares nothing");
  f.choice<OnDivergence>(
      "onDivergence", on_divergence, {{"stop", OnDivergence::stop}, {"majority", OnDivergence::majority}},
      "when weights differ: stop (exit code 84), or take those of most ranks where there is a majority");
  if (f.given("onDivergence") && verify_replicas == 0)
    f.problem("onDivergence", "onDivergence has no effect without verifyReplicas", "add verifyReplicas = 100");
  f.choice<ChecksummedMessages>("messageChecksums", message_checksums,
                                {{"none", ChecksummedMessages::none},
                                 {"betweenHosts", ChecksummedMessages::between_hosts},
                                 {"all", ChecksummedMessages::all}},
                                "messages of the exchange that carry a checksum, which the receiver verifies");
  if (!(grace_seconds > 0 && std::isfinite(grace_seconds)))
    f.problem("graceSeconds", "graceSeconds must be a number of seconds above 0",
              "write 25, or less than the scheduler waits before it kills");
}

void apply(const FaultOptions& o) {
  set_watch_limits({.stall = o.stall_timeout, .warn = o.stall_warning, .grace = o.grace_seconds});
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// fault_options.h -- settings of the SGD block about what goes wrong while ranks train (docs/faults.md).
#pragma once

#include <cstdint>

#include "comm/checksums.h"
#include "tutti/config.h"

namespace tutti {

enum class OnDivergence { stop, majority };
enum class OnNan { stop, skip, rewind };

struct FaultOptions {
  double stall_timeout = 300, stall_warning = 30, grace_seconds = 25;
  OnNan on_nan = OnNan::stop;
  double nan_rate_factor = 0.5;
  std::int64_t most_rewinds = 3;
  std::int64_t keep_checkpoints = 0;
  std::int64_t verify_replicas = 0;  // steps between two comparisons; 0 = none
  OnDivergence on_divergence = OnDivergence::stop;
  ChecksummedMessages message_checksums = ChecksummedMessages::none;

  void describe(config::Fields&);
};

// Hands those of the watchdog to it.
void apply(const FaultOptions&);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// fault_options.h -- settings of the SGD block about what goes wrong while ranks train (docs/faults.md).
#pragma once

#include <cstdint>

#include "tutti/config.h"

namespace tutti {

struct FaultOptions {
  double stall_timeout = 300, stall_warning = 30, grace_seconds = 25;
  std::int64_t keep_checkpoints = 0;

  void describe(config::Fields&);
};

// Hands those of the watchdog to it.
void apply(const FaultOptions&);

}  // namespace tutti

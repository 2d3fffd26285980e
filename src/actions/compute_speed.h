// SPDX-License-Identifier: Apache-2.0
// compute_speed.h -- what computing costs on these ranks, for placements that `auto` chooses.
#pragma once

#include <string>

#include "parallel/hybrid/cost.h"
#include "tutti/backend.h"

namespace tutti::actions {

// Times products for some tenths of a second; the same result on all ranks. The defaults if a rank cannot allocate the
// operands: making the network then reports why. Collective.
ComputeSpeed measure_compute(const std::string& device, ComputeType, Communicator&);

}  // namespace tutti::actions

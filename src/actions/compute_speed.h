// SPDX-License-Identifier: Apache-2.0
// compute_speed.h -- what computing costs on these ranks, for placements that `auto` chooses.
#pragma once

#include <string>

#include "parallel/hybrid/cost.h"
#include "tutti/backend.h"

namespace tutti::actions {

// Times products for some hundredths of a second; the same result on all ranks. The defaults where a rank cannot make
// them: the network, which is made next, says why. Collective.
ComputeSpeed measure_compute(const std::string& device, ComputeType, Communicator&);

}  // namespace tutti::actions

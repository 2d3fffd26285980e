// SPDX-License-Identifier: Apache-2.0
// binding.h -- which rank runs on which cores, for the settings that are printed at start.
#pragma once

#include <string>
#include <vector>

#include "tutti/communicator.h"

namespace tutti::actions {

// "0-3,8" for {0, 1, 2, 3, 8}.
std::string core_list(const std::vector<unsigned>& ascending);

// One line per host: "  binding    node1: rank 0 on cores 0-3, rank 1 on cores 4-7". `cores`: those of this rank.
// Collective.
std::vector<std::string> binding_lines(Communicator&, const std::string& cores);

}  // namespace tutti::actions

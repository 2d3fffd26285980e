// SPDX-License-Identifier: Apache-2.0
// groups.h -- one method inside groups of ranks and another one between the groups. Decides which methods, those that
// sum gradients and those that exchange weights, can be combined.
#pragma once

#include <string>

#include "parallel/options.h"

namespace tutti {

// Collective. Impossible groups throw ConfigError.
ParallelMethod make_grouped(const ParallelTrainOptions&, const MethodContext&);
// Collective. A notice if `groups` results in a single group of several ranks; otherwise empty.
std::string single_group_warning(const ParallelTrainOptions&, Communicator&);

}  // namespace tutti

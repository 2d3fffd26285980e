// SPDX-License-Identifier: Apache-2.0
// groups.h -- one method within groups of ranks and another between the groups. Two kinds of methods exist, those that
// sum gradients and those that exchange weights; what works together is decided here.
#pragma once

#include <string>

#include "parallel/options.h"

namespace tutti {

// Collective. Groups that cannot be are a ConfigError.
ParallelMethod make_grouped(const ParallelTrainOptions&, const MethodContext&);
// Collective. What to tell the user where `groups` leaves one group of several ranks; empty otherwise.
std::string single_group_warning(const ParallelTrainOptions&, Communicator&);

}  // namespace tutti

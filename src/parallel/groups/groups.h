// SPDX-License-Identifier: Apache-2.0
// groups.h -- one method within groups of ranks and another between the groups. Two kinds of methods exist, those that
// sum gradients and those that exchange weights; what works together is decided here.
#pragma once

#include <memory>
#include <string>

#include "parallel/options.h"
#include "tutti/communicator.h"
#include "tutti/strategy.h"

namespace tutti {

// Collective. The communicator outlives the strategy. Groups that cannot be are a ConfigError.
std::unique_ptr<Strategy> make_grouped(const ParallelTrainOptions&, Communicator&);
// Collective. What to tell the user where `groups` leaves one group of several ranks; empty otherwise.
std::string single_group_warning(const ParallelTrainOptions&, Communicator&);

}  // namespace tutti

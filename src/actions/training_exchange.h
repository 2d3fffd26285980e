// SPDX-License-Identifier: Apache-2.0
// training_exchange.h -- how the ranks of a training exchange, and the memory for the share of a minibatch that this
// rank computes.
#pragma once

#include <cstdint>

#include "actions/action.h"
#include "train/training.h"

namespace tutti::actions {

// The most samples that one of so many ranks computes at once.
std::int64_t largest_share(const SgdOptions&, int ranks);

// Makes the methods of the training, with the network planned for this rank's share. Reports settings that do not go
// with this run's ranks, and leaves Training::parallel null if it cannot run. Collective.
void make_exchange(const ActionContext&, Training&);

}  // namespace tutti::actions

// SPDX-License-Identifier: Apache-2.0
// training_settings.h -- what a training prints of its settings at start.
#pragma once

#include <string>

#include "actions/action.h"
#include "train/training.h"

namespace tutti::actions {

// The effective settings, one per line: model, network, optimizer, schedule, exchange, threads.
std::string settings_text(const Training&);

}  // namespace tutti::actions

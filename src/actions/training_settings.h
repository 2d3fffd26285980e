// SPDX-License-Identifier: Apache-2.0
// training_settings.h -- what a training prints of its settings at start, and the files of its metrics.
#pragma once

#include <string>

#include "actions/action.h"
#include "train/training.h"

namespace tutti::actions {

// The effective settings, one per line: model, network, optimizer, schedule, exchange, threads.
std::string settings_text(const Training&);

// Checks the files of SGD.metrics and SGD.timeline, and creates what writes the former on rank 0.
void make_metrics(const ActionContext&, Training&);

}  // namespace tutti::actions

// SPDX-License-Identifier: Apache-2.0
// training_settings.h -- what a training says about its settings at start, and the files of its metrics.
#pragma once

#include <string>

#include "actions/action.h"
#include "train/training.h"

namespace tutti::actions {

// The effective settings, one per line: model, network, optimizer, schedule, exchange, threads.
std::string settings_text(const Training&);

// Notes settings of the SGD block that have no effect.
void note_unused_settings(const ActionContext&, const Training&);

// Checks the files of SGD.metrics and SGD.timeline, and creates what writes the former on rank 0.
void make_metrics(const ActionContext&, Training&);

}  // namespace tutti::actions

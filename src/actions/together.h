// SPDX-License-Identifier: Apache-2.0
// together.h -- a step that may fail on some ranks only (a file missing on one host) and must end all of them alike.
#pragma once

#include <functional>

#include "tutti/communicator.h"

namespace tutti::actions {

// Runs `part` on every rank. When it throws on any, rank 0 prints what the first such rank has to say, once, and
// every rank gets false. Collective.
bool together(Communicator& world, const std::function<void()>& part);

}  // namespace tutti::actions

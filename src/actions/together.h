// SPDX-License-Identifier: Apache-2.0
// together.h -- a step that may fail on some ranks only (such as a file missing on one host) and must then end all
// ranks.
#pragma once

#include <functional>

#include "tutti/communicator.h"

namespace tutti::actions {

constexpr int wrong_configuration = 2;  // the exit code

// Runs `part` on every rank. If it throws on any rank, rank 0 prints the message of the first such rank once, and every
// rank returns false. If that rank is out of memory, every rank throws an Error instead. Collective.
bool together(Communicator& world, const std::function<void()>& part);

}  // namespace tutti::actions

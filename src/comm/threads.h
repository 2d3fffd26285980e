// SPDX-License-Identifier: Apache-2.0
// threads.h -- ranks as threads of one process: used by tests, and as the world of a single process.
#pragma once

#include <functional>
#include <memory>

#include "tutti/communicator.h"

namespace tutti {

std::unique_ptr<Communicator> make_solo_communicator();

// Runs fn once per rank, each on its own thread, and rethrows the first exception. If a rank throws, the others stop
// waiting. A send completes only when it is received, so buffering hides no deadlock.
void run_ranks(int ranks, const std::function<void(Communicator&)>& fn);

}  // namespace tutti

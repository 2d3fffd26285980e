// SPDX-License-Identifier: Apache-2.0
// threads.h -- ranks as threads of one process: how tests run strategies, and what a lone process uses as its world.
#pragma once

#include <functional>
#include <memory>

#include "tutti/communicator.h"

namespace tutti {

std::unique_ptr<Communicator> make_solo_communicator();

// Runs fn once per rank, each in a thread of its own, and re-throws the first exception. When a rank throws, the others
// leave whatever they wait for. A send completes only when its receiver has it: deadlocks do not hide behind buffers.
void run_ranks(int ranks, const std::function<void(Communicator&)>& fn);

}  // namespace tutti

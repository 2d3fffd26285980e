// SPDX-License-Identifier: Apache-2.0
// shared_pages.h -- memory that several processes of one host map: a file without a name, which the system drops with
// the last process that has it, however that ends.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "tutti/communicator.h"
#include "tutti/shared_memory.h"

namespace tutti {

// Collective; null on every rank when one cannot. All ranks sit on one host. `poll` drives the transport.
std::unique_ptr<SharedMemory> share_pages(Communicator&, std::size_t bytes, std::function<void()> poll);

}  // namespace tutti

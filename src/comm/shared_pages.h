// SPDX-License-Identifier: Apache-2.0
// shared_pages.h -- memory that several processes of one host map: an unnamed file, which the system frees with the
// last process that maps it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "tutti/communicator.h"
#include "tutti/shared_memory.h"

namespace tutti {

// Collective; returns null on every rank if one fails. All ranks must be on one host. `poll` makes progress on the
// transport.
std::unique_ptr<SharedMemory> share_pages(Communicator&, std::size_t bytes, std::function<void()> poll);

}  // namespace tutti

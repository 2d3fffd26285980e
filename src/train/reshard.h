// SPDX-License-Identifier: Apache-2.0
// reshard.h -- maps the local state of ranks to another number of ranks, by the names of entries
// (include/tutti/archive.h). Called by rank_state.cpp on rank 0.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "train/container.h"

namespace tutti {

using GiveEntry = std::function<void(std::string_view name, EntryType, std::span<const std::byte>)>;

// The entries that rank `rank` of `ranks` gets from those that `old_ranks` ranks wrote.
void reshard(const ContainerReader&, int old_ranks, int ranks, int rank, const GiveEntry&);
// Describes what is lost with missing ranks.
std::set<std::string> gone_with_ranks(const ContainerReader&, int old_ranks, int ranks);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// reshard.h -- the ranks' own state for another number of ranks than the one that wrote it, as include/tutti/archive.h
// says by the names of entries. Called by rank_state.cpp on rank 0.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "train/container.h"

namespace tutti {

using GiveEntry = std::function<void(std::string_view name, EntryType, std::span<const std::byte>)>;

// Every entry that rank `rank` of `ranks` gets of what `old_ranks` ranks have written.
void reshard(const ContainerReader&, int old_ranks, int ranks, int rank, const GiveEntry&);
// What is lost with those of them that do not go on, in words.
std::set<std::string> gone_with_ranks(const ContainerReader&, int old_ranks, int ranks);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// rank_state.h -- moves state between rank 0, which alone accesses files, and the other ranks. Common state is
// broadcast; local state is gathered into one file and scattered again. So a checkpoint is one consistent set without a
// shared file system.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "train/container.h"
#include "train/model_file.h"
#include "tutti/communicator.h"

namespace tutti {

using Visit = std::function<void(Archive&)>;

// Runs `work` on rank 0. If it throws, every rank throws the same Error. Collective.
void on_rank_0(Communicator&, const std::function<void()>& work);
void broadcast_text(Communicator&, std::string&, int root = 0);

// Rank 0 writes the entries of every rank as "rank <r>/<name>"; `writer` is null on the other ranks. Collective.
void gather_state(Communicator&, ContainerWriter* writer, const Visit&);
// Loads what `old_ranks` ranks wrote; `reader` is null on the other ranks. If the number has changed, entries are
// mapped as their names say (include/tutti/archive.h). Collective.
void spread_state(Communicator&, const ContainerReader* reader, int old_ranks, const Visit&);
// reshard.cpp: gives the entries that rank `rank` of `ranks` gets from those that `old_ranks` ranks wrote.
using GiveEntry = std::function<void(std::string_view name, EntryType, std::span<const std::byte>)>;
void reshard(const ContainerReader&, int old_ranks, int ranks, int rank, const GiveEntry&);
std::string rank_prefix(int rank);  // of its entries
// Describes what is lost with missing ranks.
std::set<std::string> gone_with_ranks(const ContainerReader&, int old_ranks, int ranks);
// Whether the state of the exchange, common or of a rank, has residuals or weights, not only counts, zeros and the loss
// scale.
bool holds_exchange_values(const ContainerReader&);
// Every rank loads the same entries "<prefix><name>". Collective.
void broadcast_state(Communicator&, const ContainerReader* reader, const std::string& prefix, const Visit&);
// The same from another archive; `source` is null on the ranks other than 0.
void broadcast_state(Communicator&, ByteArchive* source, const Visit&);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// rank_state.h -- moving state between rank 0, which alone touches files, and the other ranks: what is equal everywhere
// is broadcast, what each rank has for itself is gathered into one file and spread over the ranks again. So a
// checkpoint is one consistent set wherever the ranks run, without a shared file system.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/container.h"
#include "train/model_file.h"
#include "tutti/communicator.h"

namespace tutti {

using Visit = std::function<void(Archive&)>;

// Runs `work` on rank 0; when it throws, every rank throws the same Error. Collective.
void on_rank_0(Communicator&, const std::function<void()>& work);
void broadcast_text(Communicator&, std::string&);
void broadcast_values(ModelView&, Communicator&);

// Collective. Rank 0 writes every rank's entries as "rank <r>/<name>"; `writer` is null on the other ranks.
void gather_state(Communicator&, ContainerWriter* writer, const Visit&);
// Collective, the way back; `reader` is null on the other ranks.
void spread_state(Communicator&, const ContainerReader* reader, const Visit&);
// Collective, the way back to another number of ranks than the `old_ranks` that wrote: see reshard.h.
void reshard_state(Communicator&, const ContainerReader* reader, int old_ranks, const Visit&);
// Collective: every rank loads the same entries "<prefix><name>".
void broadcast_state(Communicator&, const ContainerReader* reader, const std::string& prefix, const Visit&);

}  // namespace tutti

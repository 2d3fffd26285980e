// SPDX-License-Identifier: Apache-2.0
// measure.h -- measures on this host what the models need, with the network, data and codecs of a config.
#pragma once

#include <string>
#include <vector>

#include "config/command_line.h"
#include "simulator/models.h"
#include "tutti/communicator.h"

namespace tutti::simulator {

struct Measured {
  Parts parts;
  Workload workload;
  double weights = 0;
};
// `ranks`: numbers of ranks that the minibatch is divided among, or `per_rank` samples for each if that is not 0. Rank
// 0 computes alone; with `shared_cores` > 0 the first n ranks compute at once, for each n of `ranks`, or all that are
// there. Collective; complete on rank 0.
Measured measure(const std::vector<std::string>& words, const std::vector<int>& ranks, std::int64_t per_rank,
                 int shared_cores, Communicator& world);

// Ranks that have nothing to do sleep until rank 0 wakes those from `from` on.
void sleep_until_woken(Communicator& world);
void wake(Communicator& world, int from);

CodecCost measure_codec(const Parameters& layout, const std::string& coding);
double measure_pass(const Parameters& layout);  // seconds per value
// All ranks send to all others, `ranks_per_core` of them on a core. The same results on all ranks: MessageCost's
// figures.
double measure_latency(Communicator&);
double measure_messages(Communicator&, double ranks_per_core);
double measure_bytes(Communicator&, double ranks_per_core, double per_message);

}  // namespace tutti::simulator

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
// `shares`: samples of a rank in a step; 0 stands for the config's minibatch. The first `busy` ranks compute at once,
// as ranks that share the cores of a machine do. Collective; complete on rank 0.
Measured measure(const std::vector<std::string>& words, const std::vector<int>& ranks, std::int64_t per_rank, int busy,
                 Communicator& world);

// Ranks that have nothing to do sleep until rank 0 wakes those from `from` on.
void sleep_until_woken(Communicator& world);
void wake(Communicator& world, int from);

CodecCost measure_codec(const Parameters& layout, const std::string& coding);
double measure_pass(const Parameters& layout);  // seconds per value
MessageCost measure_messages(Communicator&);    // between neighbours of a ring; the same on all ranks

}  // namespace tutti::simulator

// SPDX-License-Identifier: Apache-2.0
// batch_statistics.h -- running mean and variance of batch normalisation, computed anew from data (action bnstat).
#pragma once

#include <cstdint>

#include "tutti/communicator.h"
#include "tutti/network.h"
#include "tutti/reader.h"

namespace tutti {

struct BatchStatisticsPlan {
  std::int64_t minibatch = 256;  // samples over all ranks
  std::int64_t iterations = 30;  // minibatches for each node
  int rank = 0, ranks = 1;       // that share the data
};

// One node after the other, inputs before users: those in front already work with their new statistics. Mean and
// variance are those of each minibatch over all ranks, averaged with the number of samples as weight. Collective;
// returns the number of nodes.
std::size_t recompute_batch_statistics(Network&, Reader&, Communicator&, const BatchStatisticsPlan&);

}  // namespace tutti

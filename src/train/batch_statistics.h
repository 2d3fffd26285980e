// SPDX-License-Identifier: Apache-2.0
// batch_statistics.h -- recomputes the running mean and variance of batch normalisation from data (action bnstat).
#pragma once

#include <cstdint>

#include "tutti/communicator.h"
#include "tutti/network.h"
#include "tutti/reader.h"

namespace tutti {

struct BatchStatisticsPlan {
  std::int64_t minibatch = 256;  // samples over all ranks
  std::int64_t iterations = 30;  // minibatches per node
  int rank = 0, ranks = 1;       // the ranks that share the data
};

// Processes one node after the other, inputs first, so that each uses the new statistics of its inputs. Mean and
// variance are those of each minibatch over all ranks, averaged by number of samples. Collective. Returns the number of
// nodes.
std::size_t recompute_batch_statistics(Network&, Reader&, Communicator&, const BatchStatisticsPlan&);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "strategy/local.h"

namespace tutti {

void broadcast_weights(Communicator& comm, Parameters& parameters) {
  if (comm.size() > 1) comm.broadcast(0, std::as_writable_bytes(parameters.weights.span()));
}

bool all_agree(Communicator& comm, bool mine) {
  std::int64_t against = mine ? 0 : 1;
  if (comm.size() > 1) comm.all_reduce_sum(std::span(&against, 1));
  return against == 0;
}

}  // namespace tutti

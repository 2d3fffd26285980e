// SPDX-License-Identifier: Apache-2.0
#include "strategy/local.h"

namespace tutti {

void broadcast_weights(Communicator& comm, Parameters& parameters) {
  if (comm.size() > 1) comm.broadcast(0, std::as_writable_bytes(parameters.weights.span()));
}

}  // namespace tutti

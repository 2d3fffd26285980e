// SPDX-License-Identifier: Apache-2.0
#include "strategy/local.h"

namespace tutti {

void broadcast_weights(Communicator& comm, Parameters& parameters) {
  parameters.weights.memory().finish();
  if (comm.size() > 1) comm.broadcast(0, std::as_writable_bytes(parameters.weights.span()));
}

void count_library_sum(ExchangeStats& stats, std::size_t values, int ranks) {
  const auto sent = static_cast<std::int64_t>(values) * 2 * (ranks - 1) / ranks;
  stats.values_sent += sent, stats.bytes_sent += static_cast<std::int64_t>(sizeof(float)) * sent;
}

}  // namespace tutti

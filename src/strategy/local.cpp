// SPDX-License-Identifier: Apache-2.0
#include "strategy/local.h"

#include <numeric>

namespace tutti {

void broadcast_weights(Communicator& comm, Parameters& parameters) {
  parameters.weights.memory().synchronize();
  if (comm.size() > 1) comm.broadcast(0, std::as_writable_bytes(parameters.weights.span()));
}

std::vector<std::size_t> all_chunks(const Parameters& parameters) {
  std::vector<std::size_t> numbers(parameters.chunks.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return numbers;
}

void count_library_sum(ExchangeStats& stats, std::size_t values, int ranks) {
  const auto sent = static_cast<std::int64_t>(values) * 2 * (ranks - 1) / ranks;
  stats.values_sent += sent, stats.bytes_sent += static_cast<std::int64_t>(sizeof(float)) * sent;
}

}  // namespace tutti

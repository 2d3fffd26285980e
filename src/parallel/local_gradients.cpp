// SPDX-License-Identifier: Apache-2.0
#include "parallel/local_gradients.h"

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

}  // namespace tutti

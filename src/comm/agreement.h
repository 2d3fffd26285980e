// SPDX-License-Identifier: Apache-2.0
// agreement.h -- what every rank of a communicator says, and whether every one can continue, for conditions that a
// single rank may fail.
#pragma once

#include <span>
#include <vector>

#include "tutti/communicator.h"

namespace tutti {

// True on every rank when `mine` is true on every rank. Collective.
bool all_agree(Communicator&, bool mine);

// A value of each rank, in rank order. Collective.
template <class T>
std::vector<T> from_all(Communicator& comm, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

}  // namespace tutti

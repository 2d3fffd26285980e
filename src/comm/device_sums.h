// SPDX-License-Identifier: Apache-2.0
// device_sums.h -- sums over the ranks of values in the memory of their GPUs, made by the GPUs' own library (NCCL) in
// the queue of their work, without the host.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tutti/communicator.h"

namespace tutti {

class DeviceSums {
 public:
  virtual ~DeviceSums() = default;
  virtual std::string name() const = 0;
  // In place, behind what this thread has queued; the library chooses the order, the same on all ranks. Every rank
  // calls this in the same order.
  virtual void sum(float* values, std::size_t count) = 0;
};

// Collective, by threads whose current queue is a GPU's. Null on all ranks where it cannot be, and why: the library is
// not there, or two ranks share a GPU.
std::unique_ptr<DeviceSums> make_device_sums(Communicator&, std::string& why);

}  // namespace tutti

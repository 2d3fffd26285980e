// SPDX-License-Identifier: Apache-2.0
// device_sums.h -- sums over the ranks of values in the memory of their GPUs, made by the GPUs' own library (NCCL)
// beside their other work, without the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tutti/communicator.h"

namespace tutti {

class DeviceSums {
 public:
  struct Run {
    const float* values = nullptr;
    float* sums = nullptr;  // may be the place of the values
    std::size_t count = 0;
  };
  // After a failure what is still in flight is given up.
  virtual ~DeviceSums() = default;
  virtual std::string name() const = 0;
  // Behind what this thread has queued so far, and beside what it queues from now on. Returns at once; the library
  // chooses the order of the sums, the same on all ranks. Every rank calls this in the same order, with runs of the
  // same lengths.
  virtual std::uint64_t sum(std::span<const Run>) = 0;
  // Of what sum() has returned: whether it is done. follow(): what this thread queues from now on comes behind it.
  virtual bool query(std::uint64_t event) = 0;
  virtual void follow(std::uint64_t sum) = 0;
};

// Collective, by threads whose current queue is a GPU's. Null on all ranks where it cannot be, and why: the library is
// not there, or two ranks share a GPU. A failure of the library ends all ranks by Communicator::fail().
std::unique_ptr<DeviceSums> make_device_sums(Communicator&, std::string& why);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// device_sums.h -- all-reduce over values in GPU memory by the GPUs' own library (NCCL), asynchronously.
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
  // After a failure, aborts what is in flight.
  virtual ~DeviceSums() = default;
  virtual std::string name() const = 0;
  // Sums the runs after the work that this thread has enqueued so far, concurrently with what it enqueues later.
  // Returns at once. The library chooses the order of summation, equal on all ranks. Every rank must call this in the
  // same order, with runs of equal lengths.
  virtual std::uint64_t sum(std::span<const Run>) = 0;
  // Whether the sum with this number, returned by sum(), is done. follow(): work that this thread enqueues later waits
  // for it.
  virtual bool query(std::uint64_t event) = 0;
  virtual void follow(std::uint64_t sum) = 0;
};

// Collective, on threads whose current device is a GPU. Returns null on all ranks, and the reason, if the library is
// missing or two ranks share a GPU. A failure of the library ends all ranks with Communicator::fail().
std::unique_ptr<DeviceSums> make_device_sums(Communicator&, std::string& why);

}  // namespace tutti

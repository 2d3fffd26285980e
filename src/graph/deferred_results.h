// SPDX-License-Identifier: Apache-2.0
// deferred_results.h -- criteria of steps that are still running on a device. The host reads them some steps later, so
// that the device always has the next steps in its queue.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/backend.h"
#include "tutti/reader.h"

namespace tutti::graph {

class DeferredResults {
 public:
  static constexpr std::size_t steps = 4;  // maximum number in flight

  // Of a part of a share: sums by tensor, and the number of columns of each dynamic axis.
  struct Part {
    std::shared_ptr<double[]> sums;
    std::vector<std::size_t> columns;
  };
  struct Step {
    std::vector<Part> parts;  // the first `used` are valid; the others keep their memory
    std::size_t used = 0;
    std::uint64_t event = 0;  // behind all of them
    std::int64_t position = 0, minibatch = 0;
  };

  bool empty() const { return waiting_ == 0; }
  bool full() const { return waiting_ > steps; }
  const Step& earliest() const { return ring_[first_]; }
  void drop_earliest() { first_ = (first_ + 1) % ring_.size(), --waiting_; }

  void begin_step(const Batch& batch) {
    Step& step = ring_[(first_ + waiting_++) % ring_.size()];
    step.used = 0, step.event = 0;
    step.position = batch.position, step.minibatch = batch.minibatch;
  }
  // The sums of a part, right after its forward pass.
  void keep(Backend& backend, std::span<const std::size_t> columns, const double* sums, std::size_t tensors,
            std::size_t criterion) {
    Step& step = ring_[(first_ + waiting_ - 1) % ring_.size()];
    if (step.used == step.parts.size()) step.parts.push_back({backend.make_sums(tensors), {}});
    Part& part = step.parts[step.used++];
    part.columns.assign(columns.begin(), columns.end());
    backend.keep_sums(sums, tensors, criterion, part.sums.get());
    step.event = backend.record_event();
  }

 private:
  std::array<Step, steps + 1> ring_;
  std::size_t first_ = 0, waiting_ = 0;
};

}  // namespace tutti::graph

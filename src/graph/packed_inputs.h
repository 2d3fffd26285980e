// SPDX-License-Identifier: Apache-2.0
// packed_inputs.h -- brings the streams of a minibatch into packed order: dense streams are copied, sparse ones are
// gathered column by column and stay sparse. Memory is reused between minibatches.
#pragma once

#include <vector>

#include "graph/sequences.h"
#include "tutti/backend.h"
#include "tutti/parameters.h"

namespace tutti::graph {

class PackedInputs {
 public:
  // `stream` is device memory; up to `planned` columns. Returns the stream's own pointer if the order is the same.
  const float* dense(Backend& backend, const SequenceTable& table, std::size_t tensor, const float* stream,
                     std::size_t elements, std::size_t planned);
  SparseView sparse(const SequenceTable& table, std::size_t tensor, const SparseView& stream);

 private:
  struct Sparse {
    std::vector<float> values;
    std::vector<std::int32_t> indices;
    std::vector<std::int64_t> begin;
  };
  std::vector<DeviceBuffer> dense_;
  std::vector<Sparse> sparse_;
};

}  // namespace tutti::graph

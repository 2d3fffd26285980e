// SPDX-License-Identifier: Apache-2.0
// node_writer.h -- receives the values of one node from the write action, minibatch by minibatch.
#pragma once

#include <cstdint>
#include <span>

#include "tutti/network.h"

namespace tutti {

class NodeWriter {
 public:
  virtual ~NodeWriter() = default;
  // sequence_begin: sequences + 1 column offsets into `output`.
  virtual void write(const Network::Output& output, std::span<const std::int64_t> sequence_begin,
                     std::int64_t minibatch) = 0;
  virtual void finish() = 0;
};

}  // namespace tutti

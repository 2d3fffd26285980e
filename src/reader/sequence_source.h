// SPDX-License-Identifier: Apache-2.0
// sequence_source.h -- all that a data format has to offer: an index of its sequences, the same on every rank, and the
// data of any of them. Order, dealing to ranks, minibatches and prefetch are the same for all formats.
#pragma once

#include <span>
#include <vector>

#include "reader/sequence_index.h"
#include "reader/share.h"

namespace tutti::reader {

class SequenceSource {
 public:
  virtual ~SequenceSource() = default;
  virtual const std::vector<StreamInfo>& streams() const = 0;
  // May scan the data on the first call.
  virtual const SequenceIndex& index() = 0;
  // Called before an epoch is read; throws when the data are no longer those of the index.
  virtual void begin_epoch() {}
  // Appends these sequences in this order. Called by the prefetch thread, never by two threads at once.
  virtual void read(std::span<const std::uint32_t> sequences, Share&) = 0;
};

}  // namespace tutti::reader

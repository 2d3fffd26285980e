// SPDX-License-Identifier: Apache-2.0
// sequence_source.h -- all that a data format has to offer: an index of its sequences, the same on every rank, and the
// data of any of them. Order, division to ranks, minibatches and prefetch are the same for all formats.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reader/sequence_index.h"
#include "reader/share.h"

namespace tutti::reader {

// The key of a frame. The first frame has the key of its sequence, so that it matches a source of whole sequences.
inline std::string key_of_frame(const std::string& sequence, std::uint64_t frame) {
  return frame == 0 ? sequence : sequence + '#' + std::to_string(frame);
}

class SequenceSource {
 public:
  virtual ~SequenceSource() = default;
  virtual const std::vector<StreamInfo>& streams() const = 0;
  // May scan the data on the first call.
  virtual const SequenceIndex& index() = 0;
  // Called before an epoch is read; throws when the data are no longer those of the index.
  virtual void begin_epoch() {}
  // The sweep that the next reads belong to: what is drawn at random for a sequence (crops, flips) is a function of the
  // seed, the sweep and the sequence.
  virtual void begin_sweep(std::int64_t sweep) { (void)sweep; }
  // Appends these sequences in this order. Called by the prefetch thread, never by two threads at once. A sequence
  // whose data turn out to be damaged, within the errors that are tolerated, is left out and noted in
  // Share::left_out().
  virtual void read(std::span<const std::uint32_t> sequences, Share&) = 0;
  // By which name a CompositeDataReader finds this sequence in other files; without names of their own sequences count
  // from 0. Only asked for after index().
  virtual std::string key(std::uint32_t sequence) { return std::to_string(sequence); }
  // For sources whose sequences are single frames of utterances: if this frame is the last one of its utterance, the
  // key that a further frame would have, else "".
  virtual std::string key_behind(std::uint32_t sequence) { return (void)sequence, std::string(); }
  // Where the sequence stands, for messages: "train_map.txt:17".
  virtual std::string place(std::uint32_t sequence) { return "sequence " + std::to_string(sequence); }
};

}  // namespace tutti::reader

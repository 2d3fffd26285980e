// SPDX-License-Identifier: Apache-2.0
// utterance_stream.h -- one stream of a speech corpus: named utterances, each a number of frames. The streams of a
// corpus are joined by these names.
#pragma once

#include <string>
#include <string_view>

#include "reader/share.h"

namespace tutti::reader {

class UtteranceStream {
 public:
  virtual ~UtteranceStream() = default;
  virtual const StreamInfo& info() const = 0;
  virtual std::size_t utterances() const = 0;
  virtual std::string_view key(std::size_t utterance) const = 0;
  virtual std::uint32_t frames(std::size_t utterance) const = 0;
  // The utterance with this name, or `none`.
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  virtual std::size_t find(std::string_view key) const = 0;
  // Its single frame is used for each frame of the utterance that it is joined with.
  virtual bool expands() const { return false; }
  virtual std::string place(std::size_t utterance) const = 0;
  // Appends columns [first, first + count); throws Error if the data cannot be read or are not finite.
  virtual void append(std::size_t utterance, std::uint32_t first, std::uint32_t count, StreamBuffer&) = 0;
  // All data, as floats.
  virtual std::uint64_t bytes() const { return 0; }
  virtual void keep() {}
};

}  // namespace tutti::reader

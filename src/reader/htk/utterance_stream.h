// SPDX-License-Identifier: Apache-2.0
// utterance_stream.h -- one stream of a speech corpus: named utterances, each a number of frames. The streams of a
// corpus are joined by these names.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reader/share.h"

namespace tutti::reader {

class UtteranceStream {
 public:
  explicit UtteranceStream(StreamInfo info) : info_(std::move(info)) {}
  virtual ~UtteranceStream() = default;
  const StreamInfo& info() const { return info_; }
  std::size_t utterances() const { return utterances_.size(); }
  std::string_view key(std::size_t utterance) const { return utterances_[utterance].key; }
  std::uint32_t frames(std::size_t utterance) const { return utterances_[utterance].frames; }
  // The utterance with this name, or `none`.
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  virtual std::size_t find(std::string_view key) const {
    const auto known = by_key_.find(key);
    return known == by_key_.end() ? none : known->second;
  }
  // Whether a fault was counted for this utterance when it was read.
  virtual bool dropped(std::string_view key) const { return dropped_.contains(key); }
  // How many names such utterances have.
  std::size_t dropped_names() const { return dropped_.size(); }
  // Its single frame is used for each frame of the utterance that it is joined with.
  virtual bool expands() const { return false; }
  virtual std::string place(std::size_t utterance) const = 0;
  // Appends columns [first, first + count); throws Error if the data cannot be read or are not finite.
  virtual void append(std::size_t utterance, std::uint32_t first, std::uint32_t count, StreamBuffer&) = 0;
  // All data, as floats.
  virtual std::uint64_t bytes() const { return 0; }
  virtual void keep() {}

 protected:
  struct Utterance {
    std::string key;
    std::uint32_t frames = 0, line = 0;
    std::uint32_t file = 0;
    std::size_t first = 0;    // frame of the file, or run of labels
    bool any_folder = false;  // labels written as "*/name"
  };
  // Fills by_key_; calls twice(u) for utterances whose name occurred before.
  template <class Twice>
  void index_names(const Twice& twice) {
    for (std::size_t u = 0; u < utterances_.size(); ++u)
      if (!by_key_.emplace(utterances_[u].key, u).second) twice(u);
  }

  StreamInfo info_;
  std::vector<Utterance> utterances_;
  std::unordered_map<std::string_view, std::size_t> by_key_;
  std::set<std::string, std::less<>> dropped_;  // names; "*/name" of labels for any folder
};

// The name of an utterance: the path without its extension.
inline std::string without_extension(const std::string& path) {
  const std::size_t dot = path.rfind('.'), slash = path.find_last_of("/\\");
  return dot == std::string::npos || (slash != std::string::npos && dot < slash) ? path : path.substr(0, dot);
}

}  // namespace tutti::reader

// SPDX-License-Identifier: Apache-2.0
// sequence_cache.h -- sequences that were parsed once, kept as they lie in a share. A rank parses only its own share
// and keeps it for later sweeps.
#pragma once

#include <memory>
#include <vector>

#include "reader/share.h"

namespace tutti::reader {

class SequenceCache {
 public:
  explicit SequenceCache(std::size_t sequences) : at_(sequences, nullptr) {}
  // Appends the sequence to the share; false when it is not here.
  bool copy(std::uint32_t sequence, Share&) const;
  // Keeps the sequence that was appended last.
  void keep(std::uint32_t sequence, Share&);

 private:
  using Word = std::uint32_t;
  static_assert(sizeof(float) == sizeof(Word) && sizeof(std::int32_t) == sizeof(Word));
  Word* allocate(std::size_t words);

  std::vector<const Word*> at_;
  std::vector<std::unique_ptr<Word[]>> blocks_;
  std::size_t left_ = 0;  // words free in the last block
  Word* free_ = nullptr;
};

}  // namespace tutti::reader

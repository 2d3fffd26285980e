// SPDX-License-Identifier: Apache-2.0
// key_table.h -- finds the sequence of a source by its key, with 16 bytes per sequence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reader/sequence_source.h"

namespace tutti::reader {

class KeyTable {
 public:
  struct Twice {
    std::uint32_t first, second;
  };
  // `numeric`: compares keys as numbers ("007" is "7"); throws Error if one is not a number.
  KeyTable(SequenceSource&, bool numeric);
  std::optional<std::uint32_t> find(const std::string& key);
  // Sequences whose key occurred before.
  const std::vector<Twice>& twice() const { return twice_; }

  // "007" becomes "7" if keys are numbers.
  static std::string canonical(std::string key, bool numeric);

 private:
  struct Place {
    std::uint64_t hash;
    std::uint32_t sequence;
  };
  SequenceSource& source_;
  bool numeric_;
  std::vector<Place> places_;  // by hash, then sequence
  std::vector<Twice> twice_;
};

}  // namespace tutti::reader

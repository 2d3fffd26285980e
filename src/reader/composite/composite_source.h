// SPDX-License-Identifier: Apache-2.0
// composite_source.h -- sequences whose streams come from several sources, joined by sequence key. The first source
// defines the sequences and their order.
#pragma once

#include <memory>
#include <optional>
#include <unordered_set>

#include "reader/fault_budget.h"
#include "reader/sequence_source.h"

namespace tutti::reader {

// Finds the sequence of a source by its key, with 16 bytes per sequence.
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

class CompositeSource final : public SequenceSource {
 public:
  CompositeSource(std::vector<std::unique_ptr<SequenceSource>> sources, bool numeric_keys, std::int64_t max_errors);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override;
  void begin_epoch() override;
  void begin_sweep(std::int64_t sweep) override;
  void read(std::span<const std::uint32_t> sequences, Share&) override;
  std::string key(std::uint32_t sequence) override { return parts_[0].source->key(in_part(0, sequence)); }
  std::string place(std::uint32_t sequence) override { return parts_[0].source->place(in_part(0, sequence)); }

 private:
  struct Part {
    std::unique_ptr<SequenceSource> source;
    std::vector<std::uint32_t> sequence_of;  // its sequence for each of the whole; empty when they are the same
    Share share;                             // what was read of it, until it is handed on
    std::vector<std::uint32_t> wanted;
  };

  std::uint32_t in_part(std::size_t part, std::uint32_t sequence) const {
    const auto& of = parts_[part].sequence_of;
    return of.empty() ? sequence : of[sequence];
  }
  bool keys_agree(std::size_t part) const;
  std::vector<std::uint32_t> match(std::size_t part);
  void drop_shorter(std::size_t part, KeyTable&, std::vector<std::uint32_t>& match);
  void join(std::vector<std::vector<std::uint32_t>> matches);
  void add_up();
  bool read_parts();
  void note_left_out(std::size_t part);

  std::vector<Part> parts_;
  bool numeric_keys_;
  std::vector<StreamInfo> infos_;
  FaultBudget budget_;
  std::optional<SequenceIndex> index_;
  std::vector<std::uint32_t> kept_;
  std::unordered_set<std::uint32_t> damaged_;  // that some part leaves out
};

}  // namespace tutti::reader

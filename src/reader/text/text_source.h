// SPDX-License-Identifier: Apache-2.0
// text_source.h -- the sequences of a text file: found by one scan, parsed from their place in the mapped file when a
// minibatch needs them, kept for the next sweep where memory allows.
#pragma once

#include <optional>

#include "reader/mapped_file.h"
#include "reader/sequence_source.h"
#include "reader/text/sequence_cache.h"
#include "reader/text/text_index.h"

namespace tutti::reader {

struct TextSourceOptions {
  std::string path;
  std::vector<TextStream> streams;
  TextIndexOptions index;
  bool scattered = false;                             // read in random order over the whole file
  bool keep_always = false;                           // keepDataInMemory
  std::uint64_t keep_bytes = std::uint64_t{1} << 30;  // parsed data up to this size are kept
};

class TextSource final : public SequenceSource {
 public:
  explicit TextSource(TextSourceOptions);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override { return text_index().sequences; }
  void begin_epoch() override;
  void read(std::span<const std::uint32_t> sequences, Share&) override;
  std::string key(std::uint32_t sequence) override;
  std::string place(std::uint32_t sequence) override;

 private:
  const TextIndex& text_index();

  TextSourceOptions options_;
  TextLayout layout_;
  std::vector<StreamInfo> infos_;
  MappedFile file_;
  std::optional<TextIndex> index_;
  std::optional<SequenceCache> cache_;
  std::vector<std::uint32_t> scratch_;
  std::size_t sparse_rows_ = 0;  // bytes parsed since pages were last given back
};

}  // namespace tutti::reader

// SPDX-License-Identifier: Apache-2.0
// text_source.h -- the sequences of a text file: found by one scan, parsed from their place in the mapped file when a
// minibatch needs them, kept for the next sweep where memory allows.
#pragma once

#include <memory>
#include <optional>

#include "reader/mapped_file.h"
#include "reader/order_options.h"
#include "reader/sequence_source.h"
#include "reader/text/row_parser.h"

namespace tutti::reader {

struct TextStreamOptions {
  std::string alias;
  std::int64_t dim = 0;
  bool sparse = false;
  void describe(config::Fields& f);
};

// The block of readerType = "CNTKTextFormatReader", or of a CNTKTextFormatDeserializer.
struct TextReaderOptions : DataLimits {
  bool deserializer = false;
  std::string file;
  std::vector<std::pair<std::string, TextStreamOptions>> input;
  OrderOptions order;
  TruncationOptions truncation;
  bool skip_sequence_ids = false;
  bool frame_mode = false;
  bool keep_in_memory = false;
  std::string precision = "float";
  void describe(config::Fields& f);
  TextLayout layout() const;
};

struct TextIndex {
  SequenceIndex sequences;
  std::vector<std::uint64_t> offsets;  // of each sequence
  std::uint64_t end = 0;               // behind the last whole line
  bool ids = true;                     // whether lines are joined by id
  // Without ids: the number of each sequence among all of the file; empty if none was dropped.
  std::vector<std::uint32_t> numbers;
  // Of a deserializer in frame mode whose lines have ids: the id of each line and its number among the lines of that
  // id. `behind`: lines of the id, at its last line that is kept; 0 at others.
  struct Frame {
    std::uint64_t id = 0;
    std::uint32_t number = 0, behind = 0;
  };
  std::vector<Frame> frames;
  std::uint64_t parsed_bytes = 0;  // what all sequences take in memory once parsed
};

// One pass over a text file that checks every line and finds where each sequence starts. It needs no random access and
// no number is converted, so it runs at the speed of the file cache.
TextIndex scan_text(const MappedFile&, const TextReaderOptions&);

// Sequences that were parsed once, kept as they lie in a share. A rank parses only its own share and keeps it for later
// sweeps.
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

class TextSource final : public SequenceSource {
 public:
  explicit TextSource(TextReaderOptions);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override { return text_index().sequences; }
  void begin_epoch() override { file_.check_unchanged(); }
  void read(std::span<const std::uint32_t> sequences, Share&) override;
  std::string key(std::uint32_t sequence) override;
  std::string key_behind(std::uint32_t sequence) override;
  std::string place(std::uint32_t sequence) override;

 private:
  const TextIndex& text_index();

  TextReaderOptions options_;
  TextLayout layout_;
  std::vector<StreamInfo> infos_;
  MappedFile file_;
  std::optional<TextIndex> index_;
  std::optional<SequenceCache> cache_;
  std::vector<std::uint32_t> scratch_;
  std::size_t sparse_rows_ = 0;  // bytes parsed since pages were last given back
};

}  // namespace tutti::reader

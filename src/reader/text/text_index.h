// SPDX-License-Identifier: Apache-2.0
// text_index.h -- one pass over a text file that checks every line and finds where each sequence starts. It needs no
// random access and no number is converted, so it runs at the speed of the file cache.
#pragma once

#include "reader/mapped_file.h"
#include "reader/sequence_index.h"
#include "reader/text/text_faults.h"

namespace tutti::reader {

struct TextIndex {
  SequenceIndex sequences;
  std::vector<std::uint64_t> offsets;  // of each sequence
  std::uint64_t end = 0;               // behind the last whole line
  bool ids = true;                     // whether lines are joined by id
  std::uint64_t parsed_bytes = 0;      // what all sequences take in memory once parsed
};

struct TextIndexOptions {
  bool join_ids = true;  // false with skipSequenceIds and in frame mode
  std::int64_t chunk_bytes = 33'554'432;
  std::int64_t max_errors = 0;
  std::int64_t trace_level = 0;
};

TextIndex scan_text(const MappedFile&, TextLayout, const TextIndexOptions&);

}  // namespace tutti::reader

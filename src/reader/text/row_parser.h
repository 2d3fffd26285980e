// SPDX-License-Identifier: Apache-2.0
// row_parser.h -- one line of the text format: [id] |name value ... |name index:value ... |# comment. The same code
// scans a file (RowParser<false>: verdicts only, faults are told) and reads it (RowParser<true>: values go to a share,
// faults are known already), so that both always agree on what a good sample is.
#pragma once

#include <string>

#include "reader/share.h"
#include "reader/text/layout.h"
#include "reader/text/number.h"

namespace tutti::reader {

// What is told about a file while it is scanned. Pointers lead into the text.
class RowFaults {
 public:
  virtual ~RowFaults() = default;
  virtual void fault(const char* at, std::size_t length, std::string message, std::string fix) = 0;
  virtual void short_sample(const char* at, std::size_t stream, std::size_t numbers) = 0;
  virtual void unknown_stream(const char* at, std::string_view name) = 0;
};

template <bool Store>
class RowParser {
 public:
  // Every line ends with '\n' before `end`.
  RowParser(const TextLayout& layout, const char* begin, const char* end, RowFaults* faults, Share* share)
      : layout_(layout), fast_end_(end - begin >= 8 ? end - 7 : begin), faults_(faults), share_(share) {}

  // Reads the line at p and returns the start of the next one. samples[s] grows by the samples of stream s.
  const char* row(const char* p, std::uint32_t* samples);
  std::uint64_t sparse_items() const { return sparse_items_; }

 private:
  bool sample(const char*& p, std::uint32_t* samples);
  bool dense(const char*& p, const char* name, std::size_t stream);
  bool sparse(const char*& p, std::size_t stream);
  bool index(const char*& p, std::size_t stream, std::size_t dim, std::int32_t& value);
  bool number(const char*& p, float& value);
  void fault(const char* at, const char* to, std::string message, std::string fix);
  static const char* next_stream(const char* p) {
    while (*p != '|' && *p != '\n') ++p;
    return p;
  }
  static bool blank(char c) { return c == ' ' || c == '\t'; }
  static bool control(char c) { return static_cast<unsigned char>(c) < ' '; }
  static const char* word_end(const char* p) {
    while (!control(*p) && *p != ' ' && *p != '|') ++p;
    return p;
  }

  const TextLayout& layout_;
  const char* fast_end_;
  RowFaults* faults_;
  Share* share_;
  std::size_t guess_ = 0;
  std::uint64_t sparse_items_ = 0;  // read so far
};

extern template class RowParser<false>;
extern template class RowParser<true>;

// Reads the sequence that starts at p; Good samples only, at most one per line and stream. Returns its end.
const char* read_sequence(RowParser<true>&, const TextLayout&, const char* p, const char* end, Share&,
                          std::vector<std::uint32_t>& scratch);

// The id at the line start, in `id`; returns whether there is one.
inline bool sequence_id(const char* p, std::uint64_t& id) {
  if (!is_digit(*p)) return false;
  id = 0;
  for (; is_digit(*p); ++p) id = id * 10 + static_cast<std::uint64_t>(*p - '0');
  return true;
}

}  // namespace tutti::reader

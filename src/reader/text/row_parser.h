// SPDX-License-Identifier: Apache-2.0
// row_parser.h -- one line of the text format: [id] |name value ... |name index:value ... |# comment. The same code
// scans a file (RowParser<false>: verdicts only, faults are told) and reads it (RowParser<true>: values go to a share,
// faults are known already), so that both always agree on what a good sample is.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reader/fault_budget.h"
#include "reader/share.h"
#include "reader/text/number.h"

namespace tutti::reader {

// Which streams of a text file are wanted, and under which names they stand in it.
struct TextStream {
  std::string name;   // of the network's input
  std::string alias;  // in the file
  std::size_t dim = 0;
  bool sparse = false;
};

struct TextLayout {
  std::vector<TextStream> streams;
  bool ids = true;  // lines with one sequence id belong together; else every line is a sequence

  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  // `guess` is looked at first: most files repeat the same streams in the same order.
  std::size_t find(std::string_view alias, std::size_t guess) const {
    if (guess < streams.size() && streams[guess].alias == alias) return guess;
    for (std::size_t s = 0; s < streams.size(); ++s)
      if (streams[s].alias == alias) return s;
    return none;
  }
};

// What is wrong with a text file, shown as place, line and caret; pointers lead into the text. The whole file is
// checked on every rank alike, so all ranks end alike.
class TextFaults {
 public:
  TextFaults(const std::string& path, std::string_view text, const TextLayout& layout, std::int64_t max_errors,
             std::int64_t trace_level);

  void fault(const char* at, std::size_t length, std::string message, std::string fix);
  void short_sample(const char* at, std::size_t stream, std::size_t numbers);
  void unknown_stream(const char* at, std::string_view name);

  // Ends the run whatever maxErrors is.
  [[noreturn]] void fatal(const char* at, std::size_t length, std::string message, std::string fix);
  // What the warnings amount to, once the file is scanned.
  void summarize(std::size_t dropped_sequences) const;

  std::int64_t errors() const { return budget_.errors(); }

 private:
  Diagnostic diagnostic(const char* at, std::size_t length, std::string message, std::string fix);

  std::string path_;
  std::string_view text_;
  const TextLayout& layout_;
  std::int64_t trace_level_;
  FaultBudget budget_;
  std::map<std::size_t, std::int64_t> short_;
  std::set<std::string, std::less<>> unknown_;
  const char* counted_to_;  // line numbers are counted on from the last place that was shown
  std::size_t line_ = 1;
};

template <bool Store>
class RowParser {
 public:
  // Every line ends with '\n' before `end`.
  RowParser(const TextLayout& layout, const char* begin, const char* end, TextFaults* faults, Share* share)
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
  TextFaults* faults_;
  Share* share_;
  std::size_t guess_ = 0;
  std::uint64_t sparse_items_ = 0;  // read so far
};

extern template class RowParser<false>;
extern template class RowParser<true>;

// The id at the line start, in `id`; returns whether there is one.
inline bool sequence_id(const char* p, std::uint64_t& id) {
  if (!is_digit(*p)) return false;
  id = 0;
  for (; is_digit(*p); ++p) id = id * 10 + static_cast<std::uint64_t>(*p - '0');
  return true;
}

// Moves p behind the rows of the sequence that starts there, at most to `end`; returns how many there are.
template <bool Store>
std::uint32_t rows_of_sequence(RowParser<Store>& parser, const TextLayout& layout, const char*& p, const char* end,
                               std::uint32_t* samples) {
  std::uint64_t id = 0, other = 0;
  sequence_id(p, id);
  std::uint32_t rows = 0;
  do {
    p = parser.row(p, samples);
    ++rows;
  } while (layout.ids && p < end && !(sequence_id(p, other) && other != id));
  return rows;
}

// Reads the sequence that starts at p; Good samples only, at most one per line and stream. Returns its end.
const char* read_sequence(RowParser<true>&, const TextLayout&, const char* p, const char* end, Share&,
                          std::vector<std::uint32_t>& scratch);

}  // namespace tutti::reader

// SPDX-License-Identifier: Apache-2.0
// text_faults.h -- the error budget of a text file: counts what is wrong with it, shows it as place, line and caret,
// and ends the run when maxErrors is exceeded. The whole file is checked on every rank alike, so all ranks end alike.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reader/text/row_parser.h"
#include "tutti/error.h"

namespace tutti::reader {

class TextFaults final : public RowFaults {
 public:
  // Warnings (tolerated errors among them) are shown from trace level 1 on.
  TextFaults(std::string path, std::string_view text, const TextLayout& layout, std::int64_t max_errors,
             std::int64_t trace_level);

  void fault(const char* at, std::size_t length, std::string message, std::string fix) override;
  void short_sample(const char* at, std::size_t stream, std::size_t numbers) override;
  void unknown_stream(const char* at, std::string_view name) override;

  // Ends the run whatever maxErrors is.
  [[noreturn]] void fatal(const char* at, std::size_t length, std::string message, std::string fix);
  // What the warnings amount to, once the file is scanned.
  void summarize(std::size_t dropped_sequences);

  std::int64_t errors() const { return errors_; }

 private:
  Diagnostic diagnostic(const char* at, std::size_t length, std::string message, std::string fix);
  void show(const Diagnostic&);

  std::string path_;
  std::string_view text_;
  const TextLayout& layout_;
  std::int64_t max_errors_, trace_level_;
  std::int64_t errors_ = 0;
  std::vector<Diagnostic> first_;  // shown when the budget is used up
  std::map<std::size_t, std::int64_t> short_;
  std::set<std::string, std::less<>> unknown_;
  const char* counted_to_;  // line numbers are counted on from the last place that was shown
  std::size_t line_ = 1;
};

}  // namespace tutti::reader

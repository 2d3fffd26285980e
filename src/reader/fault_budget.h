// SPDX-License-Identifier: Apache-2.0
// fault_budget.h -- counts what is wrong with data and ends the run when maxErrors is exceeded. Sources judge their
// data while they make their index, on every rank alike, so all ranks leave out the same and end alike; what shows only
// when data are read is counted by the rank that reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.h"

namespace tutti::reader {

class FaultBudget {
 public:
  // `title` is the data's name in messages; warnings are shown from trace level 1 on.
  FaultBudget(std::string title, std::int64_t max_errors, std::int64_t trace_level);

  void fault(Diagnostic);
  // The same for what this rank alone has met: it speaks for itself, even when it has no log of its own.
  void fault_here(Diagnostic);
  void fault(std::string message, std::string fix) { fault(Diagnostic{{}, std::move(message), std::move(fix)}); }
  // The one word on what was tolerated, once all data have been looked at.
  void summarize(std::size_t dropped_sequences) const;

  std::int64_t errors() const { return errors_; }

 private:
  void count(Diagnostic, void (*say)(std::string_view));

  std::string title_;
  std::int64_t max_errors_, trace_level_;
  std::int64_t errors_ = 0;
  std::vector<Diagnostic> first_;  // shown when the budget is used up
};

// A place in a text file that is not held: `line` counts from 1, `column` from 0.
SourcePos line_place(const std::string& path, std::size_t line, std::string_view text, std::size_t column = 0,
                     std::size_t length = 1);

}  // namespace tutti::reader

// SPDX-License-Identifier: Apache-2.0
// fault_budget.h -- counts faults in the data and ends the run when maxErrors is exceeded. Sources check their data
// while they build their index, on every rank alike, so all ranks skip the same samples and end together. Faults found
// only during reading are counted by the rank that reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.h"

namespace tutti::reader {

class FaultBudget {
 public:
  // `title` names the data in messages; warnings are shown from traceLevel 1 on.
  FaultBudget(std::string title, std::int64_t max_errors, std::int64_t trace_level);

  void fault(Diagnostic);
  // The same for a fault that only this rank has seen: it is reported even without a log of its own.
  void fault_here(Diagnostic);
  void fault(std::string message, std::string fix) { fault(Diagnostic{{}, std::move(message), std::move(fix)}); }
  // One summary of the tolerated faults, once all data have been checked.
  void summarize(std::size_t dropped_sequences) const;

  std::int64_t errors() const { return errors_; }

 private:
  void count(Diagnostic, void (*say)(std::string_view));

  std::string title_;
  std::int64_t max_errors_, trace_level_;
  std::int64_t errors_ = 0;
  std::vector<Diagnostic> first_;  // shown when the budget is used up
};

// A place in a text file that is not in memory: `line` counts from 1, `column` from 0.
SourcePos line_place(const std::string& path, std::size_t line, std::string_view text, std::size_t column = 0,
                     std::size_t length = 1);

}  // namespace tutti::reader

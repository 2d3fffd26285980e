// SPDX-License-Identifier: Apache-2.0
// fault_budget.h -- counts faults in the data and ends the run when maxErrors is exceeded. Sources check their data
// while they build their index, on every rank alike, so all ranks skip the same samples and end together. Faults found
// only during reading are counted by the rank that reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/config.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti::reader {

class FaultBudget {
 public:
  // `title` names the data in messages, `what` is to be corrected; warnings are shown from traceLevel 1 on.
  FaultBudget(std::string title, std::int64_t max_errors, std::int64_t trace_level, std::string what = "data");

  void fault(Diagnostic);
  // The same for a fault that only this rank has seen: it is reported even without a log of its own.
  void fault_here(Diagnostic);
  void fault(std::string message, std::string fix) { fault(Diagnostic{{}, std::move(message), std::move(fix)}); }
  // Whether the next fault will be shown: others need no place.
  bool shows_next() const { return first_.size() < most_shown || errors_ >= max_errors_; }
  // Something that is no error.
  void warn(const Diagnostic&, void (*say)(std::string_view) = log::warning) const;
  // One summary of the tolerated faults, once all data have been checked.
  void summarize(std::size_t dropped_sequences) const;

  std::int64_t errors() const { return errors_; }

 private:
  void count(Diagnostic, void (*say)(std::string_view));

  static constexpr std::size_t most_shown = 10;
  std::string title_, what_;
  std::int64_t max_errors_, trace_level_;
  std::int64_t errors_ = 0;
  std::vector<Diagnostic> first_;  // shown when the budget is used up
};

// What is wrong with a line of a text file, and with which part of it.
struct LineFault {
  std::string_view part;
  std::string message, fix;
};

// Data as a terminal may show them: other control characters than tabs and line ends become '?'.
std::string printable(std::string_view text);

// A place in a text file that is not in memory: `line` counts from 1, `column` from 0.
SourcePos line_place(const std::string& path, std::size_t line, std::string_view text, std::size_t column = 0,
                     std::size_t length = 1);
inline SourcePos line_place(const std::string& path, std::size_t line, std::string_view text, std::string_view part) {
  return line_place(path, line, text, static_cast<std::size_t>(part.data() - text.data()), part.size());
}

// Data with more classes (or a larger index) than the configuration says: the line of the data may be wrong, or the
// setting. Readers word the way out alike, and the error then shows the place of the setting as well.

// The `fix:` of an error about a number that needs a larger dim: "correct it, or labelDim = 8 of stream 'labels'".
// `key` is "labelDim" or "dim", `number` the class or index that was met.
std::string dim_fix(const std::string& key, std::int64_t number, const std::string& stream = {});

// Returns the error with one more diagnostic, in front of the first one with such a fix: the place of the setting that
// this fix names, in this reader block.
ConfigError with_place_of_dim(const ConfigError&, const config::Record& block);

}  // namespace tutti::reader

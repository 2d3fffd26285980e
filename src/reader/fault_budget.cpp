// SPDX-License-Identifier: Apache-2.0
// The budget of tolerated errors.
#include "reader/fault_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tutti/log.h"

namespace tutti::reader {
namespace {

constexpr std::size_t most_shown = 10;

}  // namespace

FaultBudget::FaultBudget(std::string title, std::int64_t max_errors, std::int64_t trace_level)
    : title_(std::move(title)), max_errors_(max_errors), trace_level_(trace_level) {}

void FaultBudget::fault(Diagnostic d) { count(std::move(d), log::warning); }
void FaultBudget::fault_here(Diagnostic d) { count(std::move(d), log::warning_of_rank); }

void FaultBudget::count(Diagnostic d, void (*say)(std::string_view)) {
  ++errors_;
  if (errors_ <= max_errors_ && trace_level_ >= 1 && errors_ <= static_cast<std::int64_t>(most_shown)) {
    std::string text = render(d, "warning");
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (text.starts_with("warning: ")) text.erase(0, 9);  // without a place; the log says so anyway
    say(text);
  }
  if (first_.size() < most_shown || errors_ > max_errors_) first_.push_back(std::move(d));
  if (errors_ <= max_errors_) return;
  first_.push_back({{},
                    fmt::format("Reached the maximum number of allowed errors while reading {}.", title_),
                    fmt::format("correct the data; maxErrors = {} is how many errors are tolerated", max_errors_)});
  throw ConfigError(first_);
}

void FaultBudget::summarize(std::size_t dropped) const {
  if (errors_ > 0 && trace_level_ >= 1)
    log::warning(fmt::format("{}: {} error{} tolerated (maxErrors = {}), {} sequence{} left out", title_, errors_,
                             errors_ == 1 ? "" : "s", max_errors_, dropped, dropped == 1 ? "" : "s"));
}

SourcePos line_place(const std::string& path, std::size_t line, std::string_view text, std::size_t column,
                     std::size_t length) {
  constexpr std::size_t longest = 1000;  // enough to see; a line of data can be megabytes long
  const std::size_t from = column > longest / 2 ? column - longest / 2 : 0;
  auto source =
      std::make_shared<const Source>(Source{path, std::string(text.substr(0, from + longest)), nullptr, line});
  return {std::move(source), column, std::max<std::size_t>(length, 1)};
}

}  // namespace tutti::reader

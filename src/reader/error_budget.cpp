// SPDX-License-Identifier: Apache-2.0
#include "reader/error_budget.h"

#include <fmt/format.h>

#include "tutti/log.h"

namespace tutti::reader {

void ErrorBudget::fault(const std::function<Diagnostic()>& diagnostic, bool everywhere) {
  constexpr std::size_t most_shown = 10;
  ++errors_;
  if (errors_ <= max_errors_) {
    if (first_.size() < most_shown) {
      first_.push_back(diagnostic());
      std::string text = render(first_.back(), "warning");
      while (!text.empty() && text.back() == '\n') text.pop_back();
      everywhere ? log::warning(text) : log::warning_of_rank(text);
    }
    return;
  }
  first_.push_back(diagnostic());
  first_.push_back(
      {{},
       fmt::format("Reached the maximum number of allowed errors while reading the input file ({}).", path_),
       fmt::format("correct the file; maxErrors = {} is how many errors are tolerated", max_errors_)});
  throw ConfigError(first_);
}

}  // namespace tutti::reader

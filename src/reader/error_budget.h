// SPDX-License-Identifier: Apache-2.0
// error_budget.h -- counts what is wrong with a data set, shows it with its place, and ends the run when it is more
// than maxErrors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/error.h"

namespace tutti::reader {

class ErrorBudget {
 public:
  ErrorBudget(std::string path, std::int64_t max_errors) : path_(std::move(path)), max_errors_(max_errors) {}

  // `everywhere`: every rank meets this error, so one of them speaks for all; else it is this rank's own.
  // Only the first errors are shown, and made to be shown. Throws ConfigError when there are too many.
  void fault(const std::function<Diagnostic()>& diagnostic, bool everywhere);
  std::int64_t errors() const { return errors_; }
  std::int64_t max_errors() const { return max_errors_; }

 private:
  std::string path_;
  std::int64_t max_errors_, errors_ = 0;
  std::vector<Diagnostic> first_;
};

}  // namespace tutti::reader

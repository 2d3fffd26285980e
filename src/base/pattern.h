// SPDX-License-Identifier: Apache-2.0
// pattern.h -- regular expressions (ECMAScript). <regex> takes seconds to compile wherever it is included; here it is
// included by pattern.cpp alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti {

// A text that is no regular expression.
class PatternError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Pattern {
 public:
  // The text found, then the groups; a group that took no part is empty.
  using Match = std::vector<std::string>;

  explicit Pattern(const std::string& pattern);  // throws PatternError

  // The whole text.
  std::optional<Match> match(const std::string& text) const;
  // The first place in the text; all of them.
  std::optional<Match> search(const std::string& text) const;
  std::vector<Match> search_all(const std::string& text) const;
  // The text with every place replaced by what `by` returns for it.
  std::string replace(const std::string& text, const std::function<std::string(const Match&)>& by) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace tutti

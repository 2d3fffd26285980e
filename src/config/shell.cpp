// SPDX-License-Identifier: Apache-2.0
#include "config/shell.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace tutti::config {
namespace {

// The closing characters of everything that is open at the end of the text; `first` is the place of the first opening.
// Text with a surplus or wrong bracket was not split by the shell.
std::string missing_at_end(std::string_view text, std::size_t& first) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const std::size_t end = text.find('"', i + 1);
      if (end == std::string_view::npos) {
        open.push_back(i);
        break;
      }
      i = end;
    } else if (c == '[' || c == '{' || c == '(') {
      open.push_back(i);
    } else if (c == ']' || c == '}' || c == ')') {
      if (open.empty()) return {};
      open.pop_back();
    }
  }
  std::string missing;
  for (auto at = open.rbegin(); at != open.rend(); ++at) {
    const char c = text[*at];
    missing += c == '[' ? ']' : c == '{' ? '}' : c == '(' ? ')' : '"';
  }
  if (!open.empty()) first = open.front();
  return missing;
}

}  // namespace

std::vector<bool> check_arguments(const std::vector<std::string>& words, const std::vector<bool>& is_flag,
                                  Problems& problems) {
  std::vector<bool> cut(words.size(), false);
  std::size_t at = 0;
  for (std::size_t i = 0; i < words.size(); at += words[i++].size() + 1) {
    std::size_t first = 0, ignored = 0, end = i + 1;
    const std::string missing = is_flag[i] || cut[i] ? "" : missing_at_end(words[i], first);
    if (missing.empty()) continue;
    // After a split at a blank, the rest is in the following words.
    std::string whole = words[i], still = missing;
    while (end < words.size() && !still.empty()) {
      whole += " " + words[end++];
      still = missing_at_end(whole, ignored);
    }
    std::string fix = fmt::format("the shell splits arguments at blanks; quote the argument: '{}'", whole);
    if (!still.empty()) {
      end = i + 1;
      fix = fmt::format(
          "the shell ends a command at ';' unless the argument stands in quotes: write '{0};...{1}' with the quotes; "
          "if "
          "nothing was cut off, add the missing {1}",
          words[i], missing);
    }
    std::fill(cut.begin() + static_cast<long>(i), cut.begin() + static_cast<long>(end), true);
    const auto source =
        std::make_shared<Source>(Source{"<command line>", fmt::format("{}", fmt::join(words, "\n")), nullptr});
    problems.add(Diagnostic{
        {source, at + first, 1},
        fmt::format("no closing '{}' found: the argument '{}' ends within its brackets", missing.back(), words[i]),
        std::move(fix)});
  }
  return cut;
}

}  // namespace tutti::config

// SPDX-License-Identifier: Apache-2.0
// trimmed.h -- a text without the blanks around it.
#pragma once

#include <string_view>

namespace tutti {

constexpr std::string_view kBlanks = " \t\r\n";

inline std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// A blank for readers of text: control characters, such as form feeds, too.
inline bool is_blank(char c) { return static_cast<unsigned char>(c) <= ' '; }

inline std::string_view trimmed(std::string_view text, bool (*blank)(char)) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace tutti

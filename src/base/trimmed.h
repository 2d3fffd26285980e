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

}  // namespace tutti

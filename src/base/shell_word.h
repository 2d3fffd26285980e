// SPDX-License-Identifier: Apache-2.0
// shell_word.h -- a word of a command line as one would type it.
#pragma once

#include <string>

namespace tutti {

// In quotes where a shell needs them.
inline std::string shell_word(const std::string& word) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace tutti

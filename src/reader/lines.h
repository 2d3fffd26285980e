// SPDX-License-Identifier: Apache-2.0
// lines.h -- lines, words and numbers of text files.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/trimmed.h"

namespace tutti::reader {

inline std::string_view trimmed(std::string_view s, bool (*blank)(char) = is_blank) { return tutti::trimmed(s, blank); }

// Removes and returns the next word; "" at the end.
inline std::string_view take_word(std::string_view& rest) {
  rest = trimmed(rest);
  const std::string_view word = rest.substr(0, std::find_if(rest.begin(), rest.end(), is_blank) - rest.begin());
  rest.remove_prefix(word.size());
  return word;
}

inline void split_words(std::string_view line, std::vector<std::string_view>& words) {
  words.clear();
  for (std::string_view word; !(word = take_word(line)).empty();) words.push_back(word);
}

// Whether the whole text is a number of this type.
template <class T>
bool read_whole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// The line of a text that begins at `offset`, without its end.
inline std::string_view line_at(std::string_view text, std::uint64_t offset) {
  text = text.substr(offset);
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

// Which line that is, from 1.
inline std::size_t line_number(std::string_view text, std::uint64_t offset) {
  return 1 + static_cast<std::size_t>(std::count(text.data(), text.data() + offset, '\n'));
}

// Calls f(number, offset, line) for each line of the text.
template <class F>
void each_line_of(std::string_view text, const F& f) {
  for (std::size_t number = 1, at = 0; at < text.size(); ++number) {
    f(number, at, line_at(text, at));
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  }
}

inline void split_at(std::string_view line, char delimiter, std::vector<std::string_view>& columns) {
  columns.clear();
  for (;;) {
    const std::size_t end = line.find(delimiter);
    columns.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

// Calls f(number, line) for each line that has more than blanks, without the blanks at its end. False, with the reason
// in errno, when the file cannot be opened.
bool each_line(const std::string& path, const std::function<void(std::size_t, const std::string&)>& f);

// Throws ConfigError if the contents of a text file are compressed.
void refuse_gzip(const std::string& path, std::string_view contents);

// The names in a labelMappingFile, without the blanks around them: line n names class n - 1. Nothing if the file cannot
// be opened, with the reason in errno. Throws ConfigError for an empty line before the last name. A line of blanks is
// the name of the blank, as in lists of characters.
std::optional<std::vector<std::string>> label_mapping_lines(const std::string& path);

using ClassNames = std::unordered_map<std::string, std::int32_t>;

// A labelMappingFile: a name on each line, whose number is the class. `what` is named so, and all that a line says or
// its first word. Throws ConfigError, also when there are more than the `classes` of the stream.
ClassNames read_class_names(const std::string& path, const std::string& what, bool first_word, std::int64_t classes,
                            const std::string& stream);

}  // namespace tutti::reader

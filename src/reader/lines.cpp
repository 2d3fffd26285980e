// SPDX-License-Identifier: Apache-2.0
#include "reader/lines.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/utf8.h"
#include "reader/fault_budget.h"

namespace tutti::reader {

bool each_line(const std::string& path, const std::function<void(std::size_t, const std::string&)>& f) {
  std::ifstream in(path);
  if (!in) return false;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (number == 1) line.erase(0, byte_order_mark_size(line));
    while (!line.empty() && is_blank(line.back())) line.pop_back();
    if (!line.empty()) f(number, line);
  }
  return true;
}

void refuse_gzip(const std::string& path, std::string_view contents) {
  if (contents.starts_with("\x1f\x8b"))
    throw ConfigError({}, fmt::format("{}: the file is compressed (gzip)", path), "unpack it with gunzip");
}

std::optional<std::vector<std::string>> label_mapping_lines(const std::string& path) {
  std::ifstream in(path);
  if (!in) return {};
  std::vector<std::string> names;
  std::size_t empty = 0;  // the first empty line
  std::size_t last = 0;   // the last line that is not empty
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (number == 1) line.erase(0, byte_order_mark_size(line));
    if (line.ends_with('\r')) line.pop_back();
    const std::string_view name = trimmed(line);
    names.emplace_back(name.empty() ? " " : name);
    if (line.empty()) {
      if (empty == 0) empty = number;
      continue;
    }
    if (name.empty() && empty > 0) continue;
    last = number;
    if (empty > 0)
      throw ConfigError(line_place(path, empty, {}), "an empty line among the names of classes",
                        "remove it: the number of a line is the class");
  }
  names.resize(last);
  return names;
}

ClassNames read_class_names(const std::string& path, const std::string& what, bool first_word, std::int64_t classes,
                            const std::string& stream) {
  const auto lines = label_mapping_lines(path);
  if (!lines)
    throw ConfigError({}, fmt::format("the labelMappingFile '{}' cannot be read: {}", path, std::strerror(errno)),
                      fmt::format("it has one {} per line, whose number is the class", what));
  ClassNames names;
  for (const std::string& line : *lines) {
    std::string_view rest = line;
    const std::string_view name = first_word ? take_word(rest) : rest;
    const std::size_t number = names.size() + 1;
    if (!names.emplace(name, static_cast<std::int32_t>(number - 1)).second)
      throw ConfigError(line_place(path, number, line, 0, line.size()), fmt::format("'{}' appears a second time", name),
                        fmt::format("every {} has one line, whose number is its class", what));
  }
  const auto count = static_cast<std::int64_t>(names.size());
  if (count > classes)
    throw ConfigError(
        {}, fmt::format("'{}' has {} {}s, more than labelDim = {} of stream '{}'", path, count, what, classes, stream),
        dim_fix("labelDim", count - 1, stream));
  return names;
}

}  // namespace tutti::reader

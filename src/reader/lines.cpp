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

ClassNames read_class_names(const std::string& path, const std::string& what, bool first_word, std::int64_t classes,
                            const std::string& stream) {
  ClassNames names;
  const bool read = each_line(path, [&](std::size_t number, const std::string& line) {
    std::string_view rest = line;
    const std::string_view name = first_word ? take_word(rest) : trimmed(rest);
    if (!names.emplace(name, static_cast<std::int32_t>(names.size())).second)
      throw ConfigError(line_place(path, number, line, 0, line.size()), fmt::format("'{}' appears a second time", name),
                        fmt::format("every {} has one line, whose number is its class", what));
  });
  if (!read)
    throw ConfigError({}, fmt::format("the labelMappingFile '{}' cannot be read: {}", path, std::strerror(errno)),
                      fmt::format("it has one {} per line, whose number is the class", what));
  const auto count = static_cast<std::int64_t>(names.size());
  if (count > classes)
    throw ConfigError(
        {}, fmt::format("'{}' has {} {}s, more than labelDim = {} of stream '{}'", path, count, what, classes, stream),
        dim_fix("labelDim", count - 1, stream));
  return names;
}

}  // namespace tutti::reader

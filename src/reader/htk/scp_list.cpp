// SPDX-License-Identifier: Apache-2.0
// Script files.
#include "reader/htk/scp_list.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace tutti::reader {
namespace {

bool read_number(std::string_view text, std::uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// "[first,last]" at the end of the text is cut off and read; false when it is there and wrong.
bool cut_range(std::string_view& text, ScpEntry& entry) {
  if (!text.ends_with(']')) return true;
  const std::size_t open = text.rfind('['), comma = text.rfind(',');
  std::uint32_t first = 0, last = 0;
  if (open == std::string_view::npos || comma == std::string_view::npos || comma < open ||
      !read_number(text.substr(open + 1, comma - open - 1), first) ||
      !read_number(text.substr(comma + 1, text.size() - comma - 2), last) || last < first || last == UINT32_MAX)
    return false;
  entry.frames = {first, last};
  text = text.substr(0, open);
  return true;
}

}  // namespace

std::string without_extension(const std::string& path) {
  const std::size_t dot = path.rfind('.'), slash = path.find_last_of("/\\");
  return dot == std::string::npos || (slash != std::string::npos && dot < slash) ? path : path.substr(0, dot);
}

std::vector<ScpEntry> read_scp(const std::string& path, const std::string& prefix, FaultBudget& budget) {
  std::ifstream in(path);
  if (!in) throw Error(fmt::format("reading the script file '{}': {}", path, std::strerror(errno)));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  std::vector<ScpEntry> entries;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    while (!line.empty() && static_cast<unsigned char>(line.back()) <= ' ') line.pop_back();
    if (line.empty()) continue;
    ScpEntry e;
    e.line = number;
    e.text = line;
    std::string_view rest = line;
    const std::size_t equals = rest.find('=');
    if (!cut_range(rest, e) || rest.empty() || equals == 0 || equals + 1 == rest.size()) {
      budget.fault({line_place(path, number, line, 0, line.size()), fmt::format("'{}' names no utterance", line),
                    "a line is [logical.name=]file[firstFrame,lastFrame], both frames inclusive"});
      continue;
    }
    const bool named = equals != std::string_view::npos;
    e.path = named ? rest.substr(equals + 1) : rest;
    e.key = without_extension(named ? std::string(rest.substr(0, equals)) : e.path);
    if (!prefix.empty()) {
      if (e.path.front() != '/') e.path = prefix + (prefix.ends_with('/') ? "" : "/") + e.path;
    } else if (e.path.starts_with(".../")) {
      e.path = (folder.empty() ? std::string(".") : folder) + e.path.substr(3);
    }
    entries.push_back(std::move(e));
  }
  return entries;
}

}  // namespace tutti::reader

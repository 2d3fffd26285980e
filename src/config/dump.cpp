// SPDX-License-Identifier: Apache-2.0
// Prints the merged configuration: as config text (--dump-config) and as the lines of the log.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "config/command_line.h"
#include "config/state.h"

namespace tutti::config {
namespace {

std::string scalar_text(const Resolved& r) {
  if (r.alone) return "true";
  const TextRange& s = r.parts.back();
  const bool as_written =
      is_quoted(s) || (s.begin < s.end && std::string_view("([{").find(s.view()[0]) != std::string_view::npos);
  return as_written ? std::string(s.view()) : quoted_if_needed(r.value().text);
}

// Blanked comments leave blanks and empty lines behind; strings over several lines keep theirs.
std::string tidy(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (std::count(line.begin(), line.end(), '"') % 2) return text;
    const std::size_t last = line.find_last_not_of(" \t\r");
    if (last != std::string_view::npos) out += (out.empty() ? "" : "\n") + std::string(line.substr(0, last + 1));
    begin = end + 1;
  }
  return out;
}

void dump_level(const StatePtr& level, int indent, std::string& out) {
  const std::string lead(static_cast<std::size_t>(indent), ' ');
  for (const Entry& entry : level->entries) {
    Resolved r;
    try {
      r = level->resolve(entry);
      if (r.block && !is_network_body(entry.key)) {
        std::string members;
        dump_level(make_child(level, entry, r), indent + 2, members);
        out += fmt::format("{0}{1} = [\n{2}{0}]\n", lead, entry.key, members);
        continue;
      }
    } catch (const ConfigError&) {
      // A value that may never be read: with an unknown variable, or a block in another language.
      r = Resolved{false, false, {entry.written.back().value}};
    }
    out += fmt::format("{}{} = {}\n", lead, entry.key, tidy(scalar_text(r)));
  }
}

}  // namespace

std::string dump_config(const Record& record) {
  std::string out;
  dump_level(record.shared_state(), 0, out);
  return out;
}

std::vector<std::string> configuration_lines(const CommandLine& line) {
  std::string file;
  for (const auto& f : line.config_files)
    file += (file.empty() ? "" : "+") + std::filesystem::path(f).filename().string();
  std::vector<std::string> keys = line.config.keys();
  std::sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return to_lower(a) < to_lower(b); });
  std::vector<std::string> lines;
  for (const auto& key : keys) {
    const Record::State& top = line.config.state();
    std::string value;
    try {
      Resolved r = top.resolve(*top.own(key));
      if (r.block)
        for (TextRange& part : r.parts) part = substitute(part, top);
      value = r.value().text;
    } catch (const ConfigError&) {
      value = top.own(key)->written.back().value.view();  // as written: its variables are unknown
    }
    lines.push_back(fmt::format("configparameters: {}:{}={}", file, key, value));
  }
  return lines;
}

}  // namespace tutti::config

// SPDX-License-Identifier: Apache-2.0
// The merged configuration as the lines of the log.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "config/command_line.h"
#include "config/state.h"

namespace tutti::config {

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

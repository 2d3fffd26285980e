// SPDX-License-Identifier: Apache-2.0
#include "reader/stream_dims.h"

#include <fmt/format.h>

#include <regex>
#include <vector>

namespace tutti::reader {
namespace {

struct Setting {
  std::string stream;
  config::Value value;
};

// Wherever the block says `key`, in blocks within it as well.
void find_settings(const config::Record& block, const std::string& name, const std::string& key,
                   std::vector<Setting>& found) {
  if (const auto value = block.find_own(key)) found.push_back({name, *value});
  for (const std::string& inner : block.keys()) {
    if (!block.has_own(inner)) continue;
    try {
      for (const config::Record& r : block.blocks(inner)) find_settings(r, inner, key, found);
    } catch (const ConfigError&) {
      // a value, not a block
    }
  }
}

}  // namespace

std::string dim_fix(const std::string& key, std::int64_t number, const std::string& stream) {
  if (number < 0) return "correct it: numbers of classes begin at 0";
  return fmt::format("correct it, or {} = {}{}", key, number + 1,
                     stream.empty() ? "" : fmt::format(" of stream '{}'", stream));
}

ConfigError with_place_of_dim(const ConfigError& error, const config::Record& block) {
  static const std::regex wanted("correct it, or (labelDim|dim) = ([0-9]+)(?: of stream '(.*)')?");
  for (const Diagnostic& d : error.diagnostics()) {
    std::smatch parts;
    if (!std::regex_match(d.fix, parts, wanted)) continue;
    const std::string key = parts[1], stream = parts[3];
    std::vector<Setting> all, settings;
    find_settings(block, "", key, all);
    if (all.empty() && key == "labelDim") find_settings(block, "", "dim", all);  // its second name in speech readers
    for (const Setting& s : all)
      if (all.size() == 1 || stream.empty() || s.stream == stream) settings.push_back(s);
    if (settings.size() != 1) continue;
    std::vector<Diagnostic> both{
        {settings[0].value.where,
         fmt::format("{} = {} is too small for the data, which need {}", key, settings[0].value.text, parts[2].str()),
         fmt::format("{} = {}, or correct the data that the next error shows", key, parts[2].str())}};
    both.insert(both.end(), error.diagnostics().begin(), error.diagnostics().end());
    return ConfigError(std::move(both));
  }
  return error;
}

}  // namespace tutti::reader

// SPDX-License-Identifier: Apache-2.0
// The budget of tolerated errors, and places of what is wrong.
#include "reader/fault_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "base/pattern.h"

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

FaultBudget::FaultBudget(std::string title, std::int64_t max_errors, std::int64_t trace_level, std::string what)
    : title_(std::move(title)), what_(std::move(what)), max_errors_(max_errors), trace_level_(trace_level) {}

void FaultBudget::fault(Diagnostic d) { count(std::move(d), log::warning); }
void FaultBudget::fault_here(Diagnostic d) { count(std::move(d), log::warning_of_rank); }

void FaultBudget::warn(const Diagnostic& d, void (*say)(std::string_view)) const {
  if (trace_level_ < 1) return;
  std::string text = render(d, "warning");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.starts_with("warning: ")) text.erase(0, 9);  // without a place; the log says so anyway
  say(text);
}

void FaultBudget::count(Diagnostic d, void (*say)(std::string_view)) {
  const bool shown = shows_next();
  ++errors_;
  if (shown && errors_ <= max_errors_) warn(d, say);
  if (shown) first_.push_back(std::move(d));
  if (errors_ <= max_errors_) return;
  first_.push_back(
      {{},
       fmt::format("Reached the maximum number of allowed errors while reading {}.", title_),
       fmt::format("correct the {}; maxErrors = {} is how many errors are tolerated", what_, max_errors_)});
  throw ConfigError(first_);
}

void FaultBudget::summarize(std::size_t dropped) const {
  if (errors_ > 0 && trace_level_ >= 1)
    log::warning(fmt::format("{}: {} error{} tolerated (maxErrors = {}), {} sequence{} left out", title_, errors_,
                             errors_ == 1 ? "" : "s", max_errors_, dropped, dropped == 1 ? "" : "s"));
}

std::string printable(std::string_view text) {
  std::string shown(text);
  for (char& c : shown)
    if ((static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\r' && c != '\n') || c == '\x7f') c = '?';
  return shown;
}

SourcePos line_place(const std::string& path, std::size_t line, std::string_view text, std::size_t column,
                     std::size_t length) {
  constexpr std::size_t longest = 1000;  // enough to see; a line of data can be megabytes long
  const std::size_t from = column > longest / 2 ? column - longest / 2 : 0;
  auto source = std::make_shared<const Source>(Source{path, printable(text.substr(0, from + longest)), nullptr, line});
  return {std::move(source), column, std::max<std::size_t>(length, 1)};
}

std::string dim_fix(const std::string& key, std::int64_t number, const std::string& stream) {
  if (number < 0) return "correct it: numbers of classes begin at 0";
  if (number >= std::numeric_limits<std::int32_t>::max()) return "correct it: no stream has so many elements";
  return fmt::format("correct it, or {} = {}{}", key, number + 1,
                     stream.empty() ? "" : fmt::format(" of stream '{}'", stream));
}

ConfigError with_place_of_dim(const ConfigError& error, const config::Record& block) {
  static const Pattern wanted("correct it, or (labelDim|dim) = ([0-9]+)(?: of stream '(.*)')?");
  std::vector<Diagnostic> all_errors = error.diagnostics();
  for (auto d = all_errors.begin(); d != all_errors.end(); ++d) {
    const auto parts = wanted.match(d->fix);
    if (!parts) continue;
    const std::string &key = (*parts)[1], &needed = (*parts)[2], &stream = (*parts)[3];
    std::vector<Setting> all, settings;
    find_settings(block, "", key, all);
    if (all.empty() && key == "labelDim") find_settings(block, "", "dim", all);  // its second name in speech readers
    for (const Setting& s : all)
      if (all.size() == 1 || stream.empty() || s.stream == stream) settings.push_back(s);
    if (settings.size() != 1) continue;
    Diagnostic too_small{
        settings[0].value.where,
        fmt::format("{} = {} is too small for the data, which need {}", key, settings[0].value.text, needed),
        fmt::format("{} = {}, or correct the data that the next error shows", key, needed)};
    all_errors.insert(d, std::move(too_small));
    return ConfigError(std::move(all_errors));
  }
  return error;
}

}  // namespace tutti::reader

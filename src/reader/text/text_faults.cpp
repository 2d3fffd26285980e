// SPDX-License-Identifier: Apache-2.0
// Shows faults with their place and keeps the error budget.
#include "reader/text/text_faults.h"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/log.h"

namespace tutti::reader {
namespace {

constexpr std::size_t most_shown = 10;

std::string without_newline(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

TextFaults::TextFaults(std::string path, std::string_view text, const TextLayout& layout, std::int64_t max_errors,
                       std::int64_t trace_level)
    : path_(std::move(path)),
      text_(text),
      layout_(layout),
      max_errors_(max_errors),
      trace_level_(trace_level),
      counted_to_(text.data()) {}

Diagnostic TextFaults::diagnostic(const char* at, std::size_t length, std::string message, std::string fix) {
  const char* const begin = text_.data();
  const char* const end = begin + text_.size();
  if (at < counted_to_) {  // a sequence is judged at its end and shown at its start
    line_ -= static_cast<std::size_t>(std::count(at, counted_to_, '\n'));
  } else {
    line_ += static_cast<std::size_t>(std::count(counted_to_, at, '\n'));
  }
  counted_to_ = at;
  const char* from = at;
  while (from > begin && from[-1] != '\n') --from;
  const char* const to = std::find(at, end, '\n');
  auto line = std::make_shared<const Source>(Source{path_, std::string(from, to), nullptr, line_});
  return {{std::move(line), static_cast<std::size_t>(at - from), length}, std::move(message), std::move(fix)};
}

void TextFaults::show(const Diagnostic& d) {
  if (trace_level_ >= 1) log::warning(without_newline(render(d, "warning")));
}

void TextFaults::fault(const char* at, std::size_t length, std::string message, std::string fix) {
  ++errors_;
  if (first_.size() < most_shown || errors_ > max_errors_) {
    first_.push_back(diagnostic(at, length, std::move(message), std::move(fix)));
    if (errors_ <= max_errors_) show(first_.back());
  }
  if (errors_ <= max_errors_) return;
  first_.push_back(
      {{},
       fmt::format("Reached the maximum number of allowed errors while reading the input file ({}).", path_),
       fmt::format("correct the file; maxErrors = {} is how many errors are tolerated", max_errors_)});
  throw ConfigError(first_);
}

void TextFaults::fatal(const char* at, std::size_t length, std::string message, std::string fix) {
  throw ConfigError(std::vector<Diagnostic>{diagnostic(at, length, std::move(message), std::move(fix))});
}

void TextFaults::short_sample(const char* at, std::size_t stream, std::size_t numbers) {
  if (short_[stream]++ > 0) return;
  const auto& s = layout_.streams[stream];
  show(diagnostic(at, s.alias.size(),
                  fmt::format("stream '{}' has {} numbers here, but dim is {}; the rest is 0", s.alias, numbers, s.dim),
                  "correct dim or the data if that is not meant"));
}

void TextFaults::unknown_stream(const char* at, std::string_view name) {
  if (unknown_.contains(name)) return;
  unknown_.emplace(name);
  std::vector<std::string> known;
  for (const auto& s : layout_.streams) known.push_back(s.alias);
  const std::string near = nearest(name, known);
  show(diagnostic(at, name.size(), fmt::format("stream '{}' is in no block of input=[...] and is skipped", name),
                  near.empty() ? std::string{} : fmt::format("did you mean '{}'?", near)));
}

void TextFaults::summarize(std::size_t dropped) {
  if (trace_level_ < 1) return;
  for (const auto& [stream, count] : short_)
    if (count > 1)
      log::warning(fmt::format("{}: {} samples of stream '{}' are shorter than dim = {}; the rest of them is 0", path_,
                               count, layout_.streams[stream].alias, layout_.streams[stream].dim));
  if (errors_ > 0)
    log::warning(fmt::format("{}: {} errors tolerated (maxErrors = {}), {} sequences left out", path_, errors_,
                             max_errors_, dropped));
}

}  // namespace tutti::reader

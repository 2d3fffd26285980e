// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "reader/text/row_parser.h"

namespace tutti::reader {

TextFaults::TextFaults(const std::string& path, std::string_view text, const TextLayout& layout,
                       std::int64_t max_errors, std::int64_t trace_level)
    : path_(path),
      text_(text),
      layout_(layout),
      trace_level_(trace_level),
      budget_(fmt::format("the input file ({})", path), max_errors, trace_level, "file"),
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
  return {line_place(path_, line_, {from, to}, static_cast<std::size_t>(at - from), length), std::move(message),
          std::move(fix)};
}

void TextFaults::fault(const char* at, std::size_t length, std::string message, std::string fix) {
  budget_.fault(budget_.shows_next() ? diagnostic(at, length, std::move(message), std::move(fix)) : Diagnostic{});
}

void TextFaults::fatal(const char* at, std::size_t length, std::string message, std::string fix) {
  throw ConfigError(std::vector<Diagnostic>{diagnostic(at, length, std::move(message), std::move(fix))});
}

void TextFaults::short_sample(const char* at, std::size_t stream, std::size_t numbers) {
  if (short_[stream]++ > 0) return;
  const auto& s = layout_.streams[stream];
  budget_.warn(
      diagnostic(at, s.alias.size(),
                 fmt::format("stream '{}' has {} numbers here, but dim is {}; the rest is 0", s.alias, numbers, s.dim),
                 "correct dim or the data if that is not meant"));
}

void TextFaults::unknown_stream(const char* at, std::string_view name) {
  if (unknown_.contains(name)) return;
  unknown_.emplace(name);
  std::vector<std::string> known;
  for (const auto& s : layout_.streams) known.push_back(s.alias);
  budget_.warn(diagnostic(at, name.size(),
                          fmt::format("stream '{}' is in no block of input=[...] and is skipped", name),
                          did_you_mean(name, known)));
}

void TextFaults::summarize(std::size_t dropped) const {
  for (const auto& [stream, count] : short_)
    if (count > 1 && trace_level_ >= 1)
      log::warning(fmt::format("{}: {} samples of stream '{}' are shorter than dim = {}; the rest of them is 0", path_,
                               count, layout_.streams[stream].alias, layout_.streams[stream].dim));
  budget_.summarize(dropped);
}

}  // namespace tutti::reader

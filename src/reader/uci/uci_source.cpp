// SPDX-License-Identifier: Apache-2.0
// The whole file is parsed once to find faults; the numbers stay in memory if they fit.
#include "reader/uci/uci_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

#include "reader/stream_dims.h"

namespace tutti::reader {
namespace {

bool blank(char c) { return static_cast<unsigned char>(c) <= ' '; }

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && blank(s.back())) s.remove_suffix(1);
  return s;
}

std::string_view unquoted(std::string_view s) {
  if (s.size() >= 2 && s.front() == '"' && s.back() == '"') s = s.substr(1, s.size() - 2);
  return s;
}

}  // namespace

UciSource::UciSource(UciSourceOptions options)
    : options_(std::move(options)),
      file_(options_.path),
      budget_(options_.path, options_.max_errors, options_.trace_level) {
  maps_.resize(options_.streams.size());
  for (std::size_t s = 0; s < options_.streams.size(); ++s) {
    const UciStream& stream = options_.streams[s];
    infos_.push_back({stream.name, stream.classes > 0 ? static_cast<std::size_t>(stream.classes) : stream.columns,
                      stream.classes > 0 && stream.sparse});
    if (!stream.mapping.empty()) read_mapping(stream, maps_[s]);
    row_floats_ += stream.columns;
    least_columns_ = std::max(least_columns_, stream.start + stream.columns);
  }
  row_.resize(row_floats_);
}

void UciSource::read_mapping(const UciStream& stream, std::unordered_map<std::string, std::int32_t>& map) {
  std::ifstream in(stream.mapping);
  if (!in)
    throw ConfigError({},
                      fmt::format("the labelMappingFile '{}' cannot be read: {}", stream.mapping, std::strerror(errno)),
                      "it has one label per line, whose number is the class");
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    const std::string_view label = trimmed(line);
    if (label.empty()) continue;
    const auto next = static_cast<std::int32_t>(map.size());
    if (!map.emplace(label, next).second)
      throw ConfigError(line_place(stream.mapping, number, line, 0, line.size()),
                        fmt::format("'{}' appears a second time", label),
                        "every label has one line, whose number is its class");
  }
  if (static_cast<std::int64_t>(map.size()) > stream.classes)
    throw ConfigError({},
                      fmt::format("'{}' has {} labels, more than labelDim = {} of stream '{}'", stream.mapping,
                                  map.size(), stream.classes, stream.name),
                      dim_fix("labelDim", static_cast<std::int64_t>(map.size()) - 1, stream.name));
}

std::string_view UciSource::line_at(std::uint64_t offset) const {
  const std::string_view rest = file_.bytes().substr(offset);
  std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size()));
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

void UciSource::split(std::string_view line) {
  fields_.clear();
  if (options_.delimiter == 0) {
    for (;;) {
      line = trimmed(line);
      if (line.empty()) return;
      std::size_t end = 0;
      while (end < line.size() && !blank(line[end])) ++end;
      fields_.push_back(line.substr(0, end));
      line.remove_prefix(end);
    }
  }
  for (;;) {
    const std::size_t end = line.find(options_.delimiter);
    fields_.push_back(trimmed(line.substr(0, std::min(end, line.size()))));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

bool UciSource::number(std::string_view field, float& out) {
  field = unquoted(field);
  if (options_.decimal_point != '.' && field.find(options_.decimal_point) != std::string_view::npos) {
    scratch_ = field;
    std::replace(scratch_.begin(), scratch_.end(), options_.decimal_point, '.');
    field = scratch_;
  }
  if (field.starts_with('+')) field.remove_prefix(1);
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), out);
  if (error == std::errc::result_out_of_range && !field.empty()) {  // too small is 0, too large is no number
    out = std::strtof(std::string(field).c_str(), nullptr);
    return end == field.data() + field.size() && std::isfinite(out);
  }
  return error == std::errc() && end == field.data() + field.size() && std::isfinite(out);
}

std::optional<UciSource::Fault> UciSource::parse_class(const UciStream& stream, std::size_t s, std::string_view field,
                                                       float& out) const {
  const std::string label(unquoted(field));
  if (!stream.mapping.empty()) {
    const auto known = maps_[s].find(label);
    if (known == maps_[s].end())
      return Fault{field, fmt::format("the label '{}' is not in '{}'", label, stream.mapping),
                   "add it there, or correct the line"};
    out = static_cast<float>(known->second);
    return {};
  }
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
  if (error != std::errc() || end != label.data() + label.size() || number < 0 || number >= stream.classes)
    return Fault{field, fmt::format("the label '{}' is not a class from 0 to {}", label, stream.classes - 1),
                 number >= stream.classes ? dim_fix("labelDim", number, stream.name)
                                          : "labelMappingFile names a file with one label per line"};
  out = static_cast<float>(number);
  return {};
}

std::optional<UciSource::Fault> UciSource::parse(std::string_view line, float* out) {
  split(line);
  if (fields_.size() < least_columns_)
    return Fault{
        line,
        fmt::format("a line of {} column{}, {} are needed", fields_.size(), fields_.size() == 1 ? "" : "s",
                    least_columns_),
        options_.delimiter == 0 ? "columns are separated by blanks; set customDelimiter = \",\" for CSV files" : ""};
  for (std::size_t s = 0; s < options_.streams.size(); ++s) {
    const UciStream& stream = options_.streams[s];
    if (stream.classes > 0) {
      if (auto fault = parse_class(stream, s, fields_[stream.start], *out)) return fault;
      ++out;
      continue;
    }
    for (std::size_t c = stream.start; c < stream.start + stream.columns; ++c, ++out)
      if (!number(fields_[c], *out))
        return Fault{fields_[c], fmt::format("'{}' in column {} is not a finite number", fields_[c].substr(0, 40), c),
                     "columns count from 0"};
  }
  return {};
}

const SequenceIndex& UciSource::index() {
  if (index_.sequences() > 0) return index_;
  const std::string_view text = file_.bytes();
  std::size_t dropped = 0, line_number = 1;
  std::uint64_t chunk_begin = 0;
  file_.expect(MappedFile::Access::in_order);
  for (std::uint64_t at = 0; at < text.size(); ++line_number) {
    const std::string_view line = line_at(at);
    const std::uint64_t begin = at;
    const std::size_t end = text.find('\n', at);
    at = end == std::string_view::npos ? text.size() : end + 1;
    if (static_cast<std::int64_t>(line_number) <= options_.header_lines || trimmed(line).empty()) continue;
    if (const auto fault = parse(line, row_.data())) {
      const auto column = fault->at.data() == nullptr ? 0 : static_cast<std::size_t>(fault->at.data() - line.data());
      budget_.fault(
          {line_place(options_.path, line_number, line, column, fault->at.size()), fault->message, fault->fix});
      ++dropped;
      continue;
    }
    if (offsets_.empty() || begin - chunk_begin > static_cast<std::uint64_t>(options_.chunk_bytes)) {
      index_.begin_chunk();
      chunk_begin = begin;
    }
    if (index_.sequences() + 1 == SequenceIndex::most_sequences)
      throw Error(fmt::format("reading '{}': too many lines", options_.path));
    index_.add(1);
    offsets_.push_back(begin);
    keep_ = keep_ && (kept_.size() + row_floats_) * sizeof(float) <= options_.keep_bytes;
    if (keep_) kept_.append(row_.data(), row_floats_);
  }
  if (!keep_) kept_ = {};
  file_.expect(MappedFile::Access::unknown);
  file_.release(text.data(), text.data() + text.size());
  if (index_.sequences() == 0)
    throw ConfigError({}, fmt::format("{}: the file has no usable line", options_.path), "see docs/readers/tables.md");
  budget_.summarize(dropped);
  return index_;
}

std::string UciSource::place(std::uint32_t sequence) {
  const auto begin = file_.bytes().begin();
  return fmt::format("{}:{}", options_.path,
                     1 + std::count(begin, begin + static_cast<std::ptrdiff_t>(offsets_[sequence]), '\n'));
}

void UciSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  for (const std::uint32_t sequence : sequences) {
    const float* row = row_.data();
    if (keep_) {
      row = kept_.data() + sequence * row_floats_;
    } else {
      parse(line_at(offsets_[sequence]), row_.data());
    }
    for (std::size_t s = 0; s < options_.streams.size(); ++s) {
      if (options_.streams[s].classes > 0) {
        share[s].add_one_hot(static_cast<std::size_t>(*row++));
      } else {
        std::copy_n(row, options_.streams[s].columns, share[s].add_dense());
        row += options_.streams[s].columns;
      }
    }
  }
  share.end_single_samples(sequences.size());
}

}  // namespace tutti::reader

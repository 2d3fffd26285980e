// SPDX-License-Identifier: Apache-2.0
// Options of the reader of columns. The whole file is parsed once to find faults; the numbers stay in memory if they
// fit.
#include "reader/uci/uci_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "reader/fault_budget.h"
#include "reader/reader_row.h"

namespace tutti::reader {
namespace {

std::string_view unquoted(std::string_view s) {
  if (s.size() >= 2 && s.front() == '"' && s.back() == '"') s = s.substr(1, s.size() - 2);
  return trimmed(s);
}

// The one file of the block and its streams.
void find_file(UciReaderOptions& o, const config::Record& block, const ReaderContext& context) {
  if (!o.file.empty()) check_file(block, "file", o.file, context);
  for (const auto& [name, s] : o.streams) {
    if (s.file.empty()) continue;
    const config::Record own = block.block(name);
    if (o.file.empty()) {
      o.file = s.file;
      check_file(own, "file", o.file, context);
    } else if (o.file != s.file) {
      context.problems->add(Diagnostic{own.value("file").where,
                                       fmt::format("the streams come from two files, '{}' and '{}'", o.file, s.file),
                                       "all columns stand in one file"});
    }
  }
  if (o.file.empty())
    context.problems->add(Diagnostic{block.where(), "UCIFastReader has no file", "file = \"data.txt\""});
}

}  // namespace

UciSource::UciSource(UciReaderOptions options)
    : options_(std::move(options)),
      delimiter_(options_.delimiter == "\\t"                               ? '\t'
                 : options_.delimiter.empty() || options_.delimiter == " " ? '\0'
                                                                           : options_.delimiter[0]),
      file_(options_.file),
      budget_(options_.file, options_.max_errors, options_.trace_level) {
  for (const auto& [name, s] : options_.streams) {
    const bool category = s.is_category();
    infos_.push_back({name, static_cast<std::size_t>(category ? s.classes : s.dim), category && s.sparse});
    const bool mapped = category && !s.mapping.empty();
    maps_.push_back(mapped ? read_class_names(s.mapping, "label", false, s.classes, name) : ClassNames());
    row_floats_ += s.columns();
    least_columns_ = std::max(least_columns_, static_cast<std::size_t>(s.start) + s.columns());
  }
  row_.resize(row_floats_);
}

std::optional<LineFault> UciSource::split(std::string_view line) {
  if (delimiter_ == 0) {
    split_words(line, fields_);
  } else {
    split_at(line, delimiter_, fields_);
    for (std::string_view& f : fields_) f = trimmed(f);
  }
  for (std::size_t i = 0; i < std::min(fields_.size(), least_columns_); ++i)
    if (const std::string_view f = fields_[i]; f.size() > 1 && f.starts_with('"') && !f.ends_with('"'))
      return LineFault{f, "this field begins with a quote and does not end with one",
                       "delimiters within quotes are not supported: replace them, or write the file with another "
                       "customDelimiter"};
  if (fields_.size() < least_columns_)
    return LineFault{line,
                     fmt::format("a line of {} column{}, {} are needed", fields_.size(), fields_.size() == 1 ? "" : "s",
                                 least_columns_),
                     columns_fix(line)};
  return {};
}

// Names the delimiter that gives the line enough columns, if there is one.
std::string UciSource::columns_fix(std::string_view line) const {
  constexpr std::pair<char, const char*> known[] = {{';', ";"}, {',', ","}, {'\t', "\\t"}};
  for (const auto& [c, name] : known)
    if (c != delimiter_ && static_cast<std::size_t>(std::count(line.begin(), line.end(), c)) + 1 >= least_columns_)
      return fmt::format("customDelimiter = \"{}\" if it separates the columns", name);
  std::vector<std::string_view> words;
  split_words(line, words);
  if (words.size() >= least_columns_) return "customDelimiter = \"\" if blanks separate the columns";
  return "dim and start of the streams say which columns are needed";
}

bool UciSource::number(std::string_view field, float& out) {
  field = unquoted(field);
  if (const char point = options_.decimal_point[0]; point != '.') {
    if (field.find('.') != std::string_view::npos) return false;
    scratch_ = field;
    std::replace(scratch_.begin(), scratch_.end(), point, '.');
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

std::optional<LineFault> UciSource::parse_class(std::size_t s, std::string_view field, float& out) const {
  const auto& [name, stream] = options_.streams[s];
  const std::string label(unquoted(field));
  if (!stream.mapping.empty()) {
    const auto known = maps_[s].find(label);
    if (known == maps_[s].end())
      return LineFault{field, fmt::format("the label '{}' is not in '{}'", printable(label), stream.mapping),
                       "add it there, or correct the line"};
    out = static_cast<float>(known->second);
    return {};
  }
  std::int64_t number = -1;
  if (!read_whole(label, number) || number < 0 || number >= stream.classes)
    return LineFault{field,
                     fmt::format("the label '{}' is not a class from 0 to {}", printable(label), stream.classes - 1),
                     number >= stream.classes ? dim_fix("labelDim", number, name)
                                              : "labelMappingFile names a file with one label per line"};
  out = static_cast<float>(number);
  return {};
}

std::optional<LineFault> UciSource::parse(std::string_view line, float* out, bool first_line) {
  if (auto fault = split(line)) return fault;
  for (std::size_t s = 0; s < options_.streams.size(); ++s) {
    const UciStream& stream = options_.streams[s].second;
    const auto start = static_cast<std::size_t>(stream.start);
    if (stream.is_category()) {
      if (auto fault = parse_class(s, fields_[start], *out)) return fault;
      ++out;
      continue;
    }
    for (std::size_t c = start; c < start + stream.columns(); ++c, ++out)
      if (!number(fields_[c], *out))
        return LineFault{
            fields_[c], fmt::format("'{}' in column {} is not a finite number", printable(fields_[c].substr(0, 40)), c),
            number_fix(fields_[c], first_line)};
  }
  return {};
}

std::string UciSource::number_fix(std::string_view field, bool first_line) const {
  const bool point = options_.decimal_point != "." && field.find('.') != std::string_view::npos;
  if (point && field.find_first_not_of("0123456789.,+-eE\"") == std::string_view::npos)
    return fmt::format("customDecimalPoint = \"{}\": a number with '.' is none", options_.decimal_point);
  if (first_line) return "headerLines = 1 if this line names the columns; they count from 0";
  return "columns count from 0";
}

const SequenceIndex& UciSource::index() {
  if (index_.sequences() > 0) return index_;
  const std::string_view text = file_.bytes();
  refuse_gzip(options_.file, text);
  std::size_t dropped = 0;
  std::uint64_t chunk_begin = 0;
  file_.expect(MappedFile::Access::in_order);
  each_line_of(text, [&](std::size_t number, std::uint64_t begin, std::string_view line) {
    if (begin == 0) begin = byte_order_mark_size(line), line.remove_prefix(begin);
    if (static_cast<std::int64_t>(number) <= options_.header_lines || trimmed(line).empty()) return;
    if (const auto fault = parse(line, row_.data(), number == 1)) {
      budget_.fault({line_place(options_.file, number, line, fault->part), fault->message, fault->fix});
      ++dropped;
      return;
    }
    if (offsets_.empty() || begin - chunk_begin > static_cast<std::uint64_t>(options_.chunk_bytes)) {
      index_.begin_chunk();
      chunk_begin = begin;
    }
    if (index_.sequences() + 1 == SequenceIndex::most_sequences)
      throw Error(fmt::format("reading '{}': too many lines", options_.file));
    index_.add(1);
    offsets_.push_back(begin);
    keep_ = keep_ && (kept_.size() + row_floats_) * sizeof(float) <= static_cast<std::uint64_t>(options_.keep_bytes);
    if (keep_) kept_.append(row_.data(), row_floats_);
  });
  if (!keep_) kept_ = {};
  file_.expect(MappedFile::Access::unknown);
  file_.release(text.data(), text.data() + text.size());
  if (index_.sequences() == 0)
    throw ConfigError({}, fmt::format("{}: the file has no usable line", options_.file), "see docs/readers/tables.md");
  budget_.summarize(dropped);
  return index_;
}

std::string UciSource::place(std::uint32_t sequence) {
  return fmt::format("{}:{}", options_.file, line_number(file_.bytes(), offsets_[sequence]));
}

void UciSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  for (const std::uint32_t sequence : sequences) {
    const float* row = row_.data();
    if (keep_) {
      row = kept_.data() + sequence * row_floats_;
    } else {
      parse(line_at(file_.bytes(), offsets_[sequence]), row_.data());
    }
    for (std::size_t s = 0; s < options_.streams.size(); ++s) {
      const UciStream& stream = options_.streams[s].second;
      if (stream.is_category()) {
        share[s].add_one_hot(static_cast<std::size_t>(*row));
      } else {
        std::copy_n(row, stream.columns(), share[s].add_dense());
      }
      row += stream.columns();
    }
  }
  share.end_single_samples(sequences.size());
}

void UciStream::describe(config::Fields& f) {
  // They make a stream one of classes; further out they are variables, or meant for another stream.
  for (const char* key : {"labelDim", "labelType", "labelMappingFile"}) f.inherit_nothing(key);
  f("dim", dim, "columns of the stream");
  f("start", start, "its first column, counting from 0");
  f("file", file, "the data file, the same for all streams");
  f("labelDim", classes, "number of classes of a label column");
  f.choice("labelType", type, {{"category", Type::category}, {"regression", Type::regression}, {"none", Type::none}},
           "category: one-hot; regression: numbers as they are; none: no stream");
  f("labelMappingFile", mapping,
    "file with one label per line, whose number is the class; without it labels are class numbers");
  f.choice("format", sparse, {{"dense", false}, {"sparse", true}}, "format of one-hot vectors");
  f.no_effect("allowMapCreation", "a mapping made from one file would not fit the next; write the labelMappingFile");
  labels = labels || f.given("labelDim") || f.given("labelType") || f.given("labelMappingFile");
  if (start < 0) f.problem("start", "columns count from 0", "start = 0");
  if (labels && type == Type::none) return;
  if (labels && type == Type::category) {
    if (f.given("dim") && dim != 1) f.problem("dim", "a class stands in one column", "dim = 1");
    if (classes < 1 || classes > 16'777'216)
      f.problem("labelDim", "labelDim is the number of classes", "10 for digits");
    return;
  }
  if (dim < 1) f.problem("dim", "dim is the number of columns", "1 or more");
  if (sparse) f.problem("format", "only a stream of classes can be sparse", "set labelDim, or leave format out");
}

void UciReaderOptions::describe(config::Fields& f) {
  for (auto& [name, s] : streams) f.block(name, s, "columns of a stream");
  f("file", file, "the data file; it may also stand in the streams' blocks");
  f("customDelimiter", delimiter, "the character between columns, \",\" for CSV; \"\" = blanks and tabs");
  f("customDecimalPoint", decimal_point, "the character of decimal fractions");
  f("headerLines", header_lines, "lines at the start of the file that are no data");
  order.describe(f);
  describe_faults(f, "number of faulty lines to tolerate; they are skipped");
  describe_chunks(f, "the file is first shuffled in chunks of this size");
  describe_keep(f, "keep parsed data in memory, up to this size per rank");
  f.no_effect("minibatchMode", "minibatches end with the sweep, which is partial");
  f.no_effect("prefetch", "the next minibatches are always prepared in the background");
  f.no_effect("verbosity", "traceLevel decides what is shown");
  if (delimiter.size() > 1 && delimiter != "\\t")
    f.problem("customDelimiter", "the delimiter is one character", "\",\"");
  if (decimal_point.size() != 1) f.problem("customDecimalPoint", "the decimal point is one character", "\",\"");
  if (decimal_point == delimiter)
    f.problem("customDecimalPoint", "columns and fractions cannot have the same character", "customDelimiter = \";\"");
  if (header_lines < 0) f.problem("headerLines", "a number of lines is not negative", "1");
}

Made read_uci(const config::Record& block, const std::string& title, const ReaderContext& context) {
  const auto o = new_options<UciReaderOptions>(context);
  for (const std::string& key : block.keys())
    if (block.is_block(key)) o->streams.emplace_back(key, UciStream());
  read_block(*o, block, title, context);
  for (const auto& [name, s] : o->streams) {
    const config::Record own = block.block(name);
    if (s.labels && s.type == UciStream::Type::regression) {
      constexpr const char* why = "with labelType = regression";
      note_no_effect(own, "labelDim", why, "dim counts the columns", context);
      note_no_effect(own, "labelMappingFile", why, "labelType = \"category\" turns names into classes", context);
    } else if (!s.mapping.empty()) {
      check_file(own, "labelMappingFile", s.mapping, context);
    }
  }
  std::erase_if(o->streams, [](const auto& s) { return s.second.labels && s.second.type == UciStream::Type::none; });
  if (o->streams.empty())
    context.problems->add(
        Diagnostic{block.where(), "UCIFastReader has no streams", "add features = [ dim = 2 ; start = 0 ]"});
  find_file(*o, block, context);
  return made<UciSource>(o, o->order.randomization(trains(context)));
}

void describe_uci_reader(config::Fields& f) {
  UciReaderOptions o;
  o.streams = {{"features", {}}, {"labels", {}}};
  o.describe(f);
}

}  // namespace tutti::reader

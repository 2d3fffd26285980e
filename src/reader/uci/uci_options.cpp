// SPDX-License-Identifier: Apache-2.0
// Options of the reader of columns.
#include "reader/uci/uci_options.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::reader {

void UciStreamOptions::describe(config::Fields& f) {
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
  } else if (dim < 1) {
    f.problem("dim", "dim is the number of columns", "1 or more");
  }
}

UciStream UciStreamOptions::stream(const std::string& name) const {
  const bool category = labels && type == Type::category;
  return {name,
          static_cast<std::size_t>(start),
          category ? 1 : static_cast<std::size_t>(dim),
          category ? classes : 0,
          sparse,
          mapping};
}

void UciReaderOptions::describe(config::Fields& f) {
  for (auto& [name, s] : streams) f.block(name, s, "columns of a stream");
  describe_settings(f);
}

void UciReaderOptions::describe_settings(config::Fields& f) {
  f("file", file, "the data file; it may also stand in the streams' blocks");
  f("customDelimiter", delimiter, "the character between columns, \",\" for CSV; \"\" = blanks and tabs");
  f("customDecimalPoint", decimal_point, "the character of decimal fractions");
  f("headerLines", header_lines, "lines at the start of the file that are no data");
  order.describe(f);
  f("maxErrors", max_errors, "number of faulty lines to tolerate; they are skipped");
  f("traceLevel", trace_level, "0 = errors only, 1 = also warnings");
  f("chunkSizeInBytes", chunk_bytes, "the file is first shuffled in chunks of this size");
  f("keepLimitInBytes", keep_bytes, "keep parsed data in memory, up to this size per rank");
  f.no_effect("minibatchMode", "minibatches end with the sweep, which is partial");
  f.no_effect("prefetch", "the next minibatches are always prepared in the background");
  f.no_effect("verbosity", "traceLevel decides what is shown");
  if (delimiter.size() > 1 && delimiter != "\\t")
    f.problem("customDelimiter", "the delimiter is one character", "\",\"");
  if (decimal_point.size() != 1) f.problem("customDecimalPoint", "the decimal point is one character", "\",\"");
  if (decimal_point == delimiter)
    f.problem("customDecimalPoint", "columns and fractions cannot have the same character", "customDelimiter = \";\"");
  if (header_lines < 0) f.problem("headerLines", "a number of lines is not negative", "1");
  if (max_errors < 0) f.problem("maxErrors", "maxErrors is a count", "0 tolerates no error");
  if (chunk_bytes < 1) f.problem("chunkSizeInBytes", "chunkSizeInBytes must be at least 1", "the default is 33554432");
  if (keep_bytes < 0) f.problem("keepLimitInBytes", "keepLimitInBytes must not be negative", "0 keeps nothing");
}

namespace {

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

Made read_uci(const config::Record& block, const ReaderContext& context) {
  auto o = std::make_shared<UciReaderOptions>();
  o->trace_level = context.trace_level;
  std::vector<std::string> also{"readerType"};
  for (const std::string& key : block.keys()) {
    if (!block.is_block(key)) continue;
    also.push_back(key);
    UciStreamOptions s = config::read<UciStreamOptions>(block.block(key), key, *context.problems, *context.notices);
    if (const std::string& map = s.mapping; !map.empty())
      check_file(block.block(key), "labelMappingFile", map, context);
    if (!(s.labels && s.type == UciStreamOptions::Type::none)) o->streams.emplace_back(key, std::move(s));
  }
  config::read_fields(
      block, "UCIFastReader", [&](config::Fields& f) { o->describe_settings(f); }, *context.problems, *context.notices,
      also);
  if (o->streams.empty())
    context.problems->add(
        Diagnostic{block.where(), "UCIFastReader has no streams", "add features = [ dim = 2 ; start = 0 ]"});
  find_file(*o, block, context);
  return {[o](config::Fields& f) { o->describe(f); },
          [o] {
            UciSourceOptions s;
            s.path = o->file;
            for (const auto& [name, stream] : o->streams) s.streams.push_back(stream.stream(name));
            s.delimiter = o->delimiter == "\\t"                         ? '\t'
                          : o->delimiter.empty() || o->delimiter == " " ? '\0'
                                                                        : o->delimiter[0];
            s.decimal_point = o->decimal_point[0];
            s.header_lines = o->header_lines;
            s.max_errors = o->max_errors;
            s.trace_level = o->trace_level;
            s.chunk_bytes = o->chunk_bytes;
            s.keep_bytes = static_cast<std::uint64_t>(o->keep_bytes);
            return std::make_unique<UciSource>(std::move(s));
          },
          o->order.randomization(trains(context))};
}

void describe_uci_reader(config::Fields& f) {
  UciReaderOptions o;
  o.streams = {{"features", {}}, {"labels", {}}};
  o.describe(f);
}

}  // namespace tutti::reader

// SPDX-License-Identifier: Apache-2.0
#include "train/text_output.h"

#include <fmt/format.h>
#include <fmt/printf.h>

#include <algorithm>

#include "reader/lines.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti {
namespace {

std::string unescape(const std::string& s) {
  constexpr std::string_view letters = "nrts", meanings = "\n\r\t ";
  std::string r;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\\' || i + 1 == s.size()) {
      r += s[i];
      continue;
    }
    const std::size_t at = letters.find(s[++i]);
    r += at == letters.npos ? s.substr(i - 1, 2) : std::string(1, meanings[at]);
  }
  return r;
}

// The part between % and the conversion letter. Only flags, width and precision are allowed, because the user's text
// becomes part of a format.
bool is_precision(const std::string& s) { return s.find_first_not_of("0123456789.+-# ") == std::string::npos; }

}  // namespace

void OutputFormat::describe(config::Fields& f) {
  f.choice("type", type,
           {{"real", OutputType::real}, {"category", OutputType::category}, {"sparse", OutputType::sparse}},
           "real values, the index of the largest (category), or index:value of those not 0 (sparse)");
  f("labelMappingFile", label_mapping_file, "with type=category: line n of this file is printed for class n");
  f("transpose", transpose, "one line per sample; false: one line per row");
  f("prologue", prologue, "before everything");
  f("epilogue", epilogue, "after everything");
  f("sequencePrologue", sequence_prologue, "before each sequence");
  f("sequenceEpilogue", sequence_epilogue, "after each sequence");
  f("sequenceSeparator", sequence_separator, "between sequences");
  f("sampleSeparator", sample_separator, "between the samples of a sequence");
  f("elementSeparator", element_separator, "between the elements of a sample");
  f("precisionFormat", precision_format, "goes between % and f, as .4");
  if (!is_precision(precision_format))
    f.problem("precisionFormat", fmt::format("'{}' is not a width and precision", precision_format),
              "write for example .4 or 8.3");
}

TextOutput::TextOutput(std::ostream& out, const OutputFormat& format, std::string node, std::vector<std::string> labels)
    : out_(out), format_(format), node_(std::move(node)), labels_(std::move(labels)) {
  for (std::string* s : {&format_.prologue, &format_.epilogue, &format_.sequence_prologue, &format_.sequence_epilogue,
                         &format_.sequence_separator, &format_.sample_separator, &format_.element_separator})
    *s = unescape(*s);
  number_format_ = "%" + format_.precision_format;
}

std::string TextOutput::fill(const std::string& pattern, const Shape& shape) const {
  std::string r;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 's')
      r += node_;
    else if (next == 'n')
      r += fmt::to_string(minibatch_);
    else if (next == 'd')
      r += fmt::to_string(sequence_);
    else if (next == 'x')
      r += fmt::format("{}", fmt::join(shape.dims, " x "));
    else {
      r += pattern[i];
      continue;
    }
    ++i;
  }
  return r;
}

void TextOutput::write(const Network::Output& output, std::span<const std::int64_t> sequence_begin,
                       std::int64_t minibatch) {
  minibatch_ = minibatch;
  if (!begun_) out_ << fill(format_.prologue, output.shape);
  begun_ = true;
  const std::int64_t whole[] = {0, static_cast<std::int64_t>(output.columns)};
  if (!output.per_sample) sequence_begin = whole;
  for (std::size_t s = 0; s + 1 < sequence_begin.size(); ++s) {
    if (sequence_ > 0) out_ << fill(format_.sequence_separator, output.shape);
    out_ << fill(format_.sequence_prologue, output.shape);
    matrix(output, sequence_begin[s], sequence_begin[s + 1]);
    out_ << fill(format_.sequence_epilogue, output.shape);
    ++sequence_;
  }
}

void TextOutput::matrix(const Network::Output& output, std::int64_t first, std::int64_t last) {
  const auto n = output.shape.elements();
  if (format_.transpose || format_.type != OutputType::real) {
    for (auto c = first; c < last; ++c) {
      if (c > first) out_ << format_.sample_separator;
      sample(output.values.subspan(static_cast<std::size_t>(c) * n, n));
    }
    return;
  }
  for (std::size_t row = 0; row < n; ++row) {
    if (row > 0) out_ << format_.sample_separator;
    for (auto c = first; c < last; ++c)
      out_ << (c > first ? format_.element_separator : "")
           << fmt::sprintf(number_format_ + "f", output.values[static_cast<std::size_t>(c) * n + row]);
  }
}

void TextOutput::sample(std::span<const float> values) {
  if (format_.type == OutputType::category) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < values.size(); ++i)
      if (values[i] >= values[best]) best = i;  // among equals the last wins, as in the original
    if (!labels_.empty() && labels_.size() != values.size()) {
      log::warning(fmt::format("labelMappingFile has {} labels and node '{}' {} values: printing class numbers",
                               labels_.size(), node_, values.size()));
      labels_.clear();
    }
    if (labels_.empty())
      out_ << fmt::sprintf(number_format_ + "u", best);
    else
      out_ << fmt::sprintf(number_format_ + "s", labels_[best]);
    return;
  }
  bool first = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (format_.type == OutputType::sparse && values[i] == 0) continue;
    if (!first) out_ << format_.element_separator;
    first = false;
    if (format_.type == OutputType::sparse) out_ << i << ':';
    out_ << fmt::sprintf(number_format_ + "f", values[i]);
  }
}

void TextOutput::finish() {
  const Shape none;
  if (!begun_) out_ << fill(format_.prologue, none);
  out_ << fill(format_.epilogue, none);
  out_.flush();
}

void check_class_names(const std::string& lead, const std::string& path, std::size_t names, const std::string& node,
                       std::size_t values) {
  if (names == values) return;
  throw Error(
      fmt::format("{}'{}' names {} classes, but '{}' has {} values\nfix: one name per line, in the order of the labels",
                  lead, path, names, node, values));
}

std::vector<std::string> read_label_mapping(const std::string& path) {
  const auto names = reader::label_mapping_lines(path);
  if (!names) throw Error(fmt::format("cannot read the label mapping file '{}'", path));
  return *names;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "actions/predict_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>

#include "base/csv.h"
#include "interchange/json_scanner.h"
#include "interchange/npy.h"
#include "interchange/tensor_file.h"

namespace tutti::actions {
namespace {

// The elements with the largest values, the largest first; equal ones in their order.
std::vector<std::size_t> largest(std::span<const float> values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  count = std::min(count, order.size());
  std::ranges::partial_sort(
      order, order.begin() + static_cast<std::ptrdiff_t>(count),
      [&](std::size_t a, std::size_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  order.resize(count);
  return order;
}

std::string class_name(const PredictionStyle& style, std::size_t element) {
  return style.classes.empty() ? fmt::format("{}", element) : style.classes[element];
}

class CsvWriter final : public PredictionWriter {
 public:
  CsvWriter(const PredictionStyle& style, std::ostream& out) : style_(style), out_(out) { heading(); }

  void write(const PredictedSample& s) override {
    std::vector<std::string> fields;
    if (style_.sequences)
      fields = {fmt::format("{}", s.sequence), fmt::format("{}", s.step)};
    else
      fields = {style_.files ? csv_field(s.file) : fmt::format("{}", s.number)};
    if (style_.names_class())
      for (const std::size_t i : largest(s.values, std::max<std::size_t>(style_.top, 1)))
        fields.push_back(csv_field(class_name(style_, i))), fields.push_back(fmt::format("{}", s.values[i]));
    if (style_.top == 0)
      for (const float v : s.values) fields.push_back(fmt::format("{}", v));
    out_ << fmt::format("{}\n", fmt::join(fields, ","));
  }
  void finish() override { out_.flush(); }

 private:
  void heading() {
    std::vector<std::string> names;
    if (style_.sequences)
      names = {"sequence", "step"};
    else
      names = {style_.files ? "file" : "sample"};
    const std::size_t n = style_.shape.elements();
    if (style_.top > 0) {
      for (std::size_t i = 1; i <= std::min(style_.top, n); ++i)
        names.push_back(fmt::format("class{}", i)), names.push_back(fmt::format("score{}", i));
    } else {
      if (style_.names_class()) names.emplace_back("class"), names.emplace_back("score");
      for (std::size_t i = 0; i < n; ++i)
        names.push_back(!style_.classes.empty() ? csv_field(style_.classes[i])
                        : n == 1                ? csv_field(style_.node)
                                                : csv_field(fmt::format("{}[{}]", style_.node, i)));
    }
    out_ << fmt::format("{}\n", fmt::join(names, ","));
  }

  PredictionStyle style_;
  std::ostream& out_;
};

// JSON has no infinities: they, and NaN, are null.
std::string json_number(float v) { return std::isfinite(v) ? fmt::format("{}", v) : "null"; }

class JsonWriter final : public PredictionWriter {
 public:
  JsonWriter(const PredictionStyle& style, std::ostream& out) : style_(style), out_(out) {}

  void write(const PredictedSample& s) override {
    std::string text = first_ ? "[\n" : ",\n";
    first_ = false;
    if (style_.sequences)
      text += fmt::format("{{\"sequence\": {}, \"step\": {}", s.sequence, s.step);
    else if (style_.files)
      text += fmt::format("{{\"file\": {}", interchange::json_quoted(s.file));
    else
      text += fmt::format("{{\"sample\": {}", s.number);
    if (style_.top > 0) {
      std::vector<std::string> best;
      for (const std::size_t i : largest(s.values, style_.top))
        best.push_back(fmt::format("{{\"class\": {}, \"score\": {}}}", interchange::json_quoted(class_name(style_, i)),
                                   json_number(s.values[i])));
      text += fmt::format(", \"top\": [{}]", fmt::join(best, ", "));
    } else {
      if (style_.names_class()) {
        const std::size_t best = largest(s.values, 1).at(0);
        text += fmt::format(", \"class\": {}, \"score\": {}", interchange::json_quoted(class_name(style_, best)),
                            json_number(s.values[best]));
      }
      std::vector<std::string> values;
      for (const float v : s.values) values.push_back(json_number(v));
      text += fmt::format(", \"values\": [{}]", fmt::join(values, ", "));
    }
    out_ << text + "}";
  }
  void finish() override {
    out_ << (first_ ? "[]\n" : "\n]\n");
    out_.flush();
  }

 private:
  PredictionStyle style_;
  std::ostream& out_;
  bool first_ = true;
};

class NpyWriter final : public PredictionWriter {
 public:
  NpyWriter(const PredictionStyle& style, std::string path) : style_(style), path_(std::move(path)) {}
  void write(const PredictedSample& s) override {
    values_.insert(values_.end(), s.values.begin(), s.values.end());
    ++samples_;
  }
  void finish() override {
    auto shape = interchange::reversed_axes(style_.shape);
    shape.insert(shape.begin(), samples_);
    interchange::write_npy(path_, shape, values_);
  }

 private:
  PredictionStyle style_;
  std::string path_;
  std::vector<float> values_;
  std::uint64_t samples_ = 0;
};

}  // namespace

std::unique_ptr<PredictionWriter> csv_writer(const PredictionStyle& style, std::ostream& out) {
  return std::make_unique<CsvWriter>(style, out);
}
std::unique_ptr<PredictionWriter> json_writer(const PredictionStyle& style, std::ostream& out) {
  return std::make_unique<JsonWriter>(style, out);
}
std::unique_ptr<PredictionWriter> npy_writer(const PredictionStyle& style, const std::string& path) {
  return std::make_unique<NpyWriter>(style, path);
}

}  // namespace tutti::actions

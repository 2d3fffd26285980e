// SPDX-License-Identifier: Apache-2.0
#include "actions/confusion_table.h"
#include "base/csv.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::actions {
namespace {

std::size_t largest(std::span<const float> v) {
  return static_cast<std::size_t>(std::max_element(v.begin(), v.end()) - v.begin());
}

std::string name_of_class(const std::vector<std::string>& names, std::size_t c) {
  return c < names.size() ? names[c] : std::to_string(c);
}

double quotient(std::int64_t a, std::int64_t b) {
  return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0.0;
}

}  // namespace

void ConfusionTable::add(std::span<const float> labels, std::span<const float> scores) {
  ++counts_[largest(labels) * classes_ + largest(scores)];
}

void ConfusionTable::sum_over(Communicator& ranks) {
  std::vector<double> sums(counts_.begin(), counts_.end());
  ranks.all_reduce_sum(std::span(sums));
  std::transform(sums.begin(), sums.end(), counts_.begin(), [](double v) { return static_cast<std::int64_t>(v); });
}

ConfusionTable::Rates ConfusionTable::rates(std::size_t c) const {
  Rates r;
  for (std::size_t k = 0; k < classes_; ++k) r.samples += count(c, k), r.guesses += count(k, c);
  r.precision = quotient(count(c, c), r.guesses);
  r.recall = quotient(count(c, c), r.samples);
  r.f1 = quotient(2 * count(c, c), r.samples + r.guesses);
  return r;
}

std::string ConfusionTable::text(const std::vector<std::string>& names) const {
  const bool matrix = classes_ <= most_columns;
  std::size_t width = 5, cell = 6;
  for (std::size_t c = 0; c < classes_; ++c) width = std::max(width, name_of_class(names, c).size());
  width = std::min<std::size_t>(width, 24);
  for (const std::int64_t n : counts_) cell = std::max(cell, std::to_string(n).size() + 1);
  std::string out = fmt::format("Confusion table (rows: label{}):\n{:<{}} {:>9} {:>9} {:>9} {:>9}",
                                matrix ? "; columns: prediction" : "", "class", width, "samples", "precision", "recall",
                                "F1");
  for (std::size_t c = 0; matrix && c < classes_; ++c)
    out += fmt::format(" {:>{}.{}}", name_of_class(names, c), cell, cell);
  Rates mean;
  std::int64_t right = 0, present = 0;
  for (std::size_t c = 0; c < classes_; ++c) {
    const Rates r = rates(c);
    out += fmt::format("\n{:<{}.{}} {:>9} {:>9.4f} {:>9.4f} {:>9.4f}", name_of_class(names, c), width, width, r.samples,
                       r.precision, r.recall, r.f1);
    for (std::size_t k = 0; matrix && k < classes_; ++k) out += fmt::format(" {:>{}}", count(c, k), cell);
    right += count(c, c), mean.samples += r.samples;
    if (r.samples == 0) continue;
    ++present;
    mean.precision += r.precision, mean.recall += r.recall, mean.f1 += r.f1;
  }
  const double by = present > 0 ? static_cast<double>(present) : 1.0;
  return out + fmt::format("\n{:<{}} {:>9} {:>9.4f} {:>9.4f} {:>9.4f}\naccuracy {:.4f}; the mean is over the {} "
                           "classes that have samples",
                           "mean", width, mean.samples, mean.precision / by, mean.recall / by, mean.f1 / by,
                           quotient(right, mean.samples), present);
}

std::string ConfusionTable::csv(const std::vector<std::string>& names) const {
  std::string out = "class,samples,precision,recall,f1";
  for (std::size_t c = 0; c < classes_; ++c) out += "," + csv_field(name_of_class(names, c));
  for (std::size_t c = 0; c < classes_; ++c) {
    const Rates r = rates(c);
    out += fmt::format("\n{},{},{},{},{}", csv_field(name_of_class(names, c)), r.samples, r.precision, r.recall, r.f1);
    for (std::size_t k = 0; k < classes_; ++k) out += fmt::format(",{}", count(c, k));
  }
  return out + "\n";
}

std::optional<Classification> find_classification(const graph::Graph& graph) {
  for (const char* operation : {"ClassificationError", "CrossEntropyWithSoftmax"})
    for (const auto* set : {&graph.evaluations, &graph.criteria})
      for (const std::size_t index : *set) {
        const graph::Node& node = graph.nodes[index];
        if (node.operation == operation)
          return Classification{graph.nodes[node.inputs[0]].name, graph.nodes[node.inputs[1]].name};
      }
  return std::nullopt;
}

}  // namespace tutti::actions

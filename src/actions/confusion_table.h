// SPDX-License-Identifier: Apache-2.0
// confusion_table.h -- confusionTable = true of action test: how often each class was predicted as each other, with
// precision, recall and F1 of every class.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/graph.h"

namespace tutti::actions {

class ConfusionTable {
 public:
  static constexpr std::size_t most_classes = 2000;
  static constexpr std::size_t most_columns = 20;  // more classes are listed without the counts of their errors

  explicit ConfusionTable(std::size_t classes) : classes_(classes), counts_(classes * classes) {}

  // One sample each: the class is the first of the largest values.
  void add(std::span<const float> labels, std::span<const float> scores);
  void sum_over(Communicator&);  // collective

  std::int64_t count(std::size_t truth, std::size_t guess) const { return counts_[truth * classes_ + guess]; }
  // As lines; `names` by class, or empty for their numbers.
  std::string text(const std::vector<std::string>& names) const;
  // Comma-separated: class, samples, precision, recall, F1, and the guesses of each class.
  std::string csv(const std::vector<std::string>& names) const;

 private:
  struct Rates {
    std::int64_t samples = 0, guesses = 0;
    double precision = 0, recall = 0, f1 = 0;  // 0 where nothing is divided
  };
  Rates rates(std::size_t c) const;

  std::size_t classes_;
  std::vector<std::int64_t> counts_;
};

// The classification that a table is about: the first ClassificationError or CrossEntropyWithSoftmax among the
// evaluations and criteria.
struct Classification {
  std::string labels, scores;  // nodes
};
std::optional<Classification> find_classification(const graph::Graph&);

}  // namespace tutti::actions

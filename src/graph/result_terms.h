// SPDX-License-Identifier: Apache-2.0
// result_terms.h -- criteria and evaluations as sums of terms. Terms over samples add up over parts and over ranks. A
// term of parameters alone (a weight penalty written as a node) counts once per minibatch.
#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "graph/shapes.h"

namespace tutti::graph {

struct ResultTerms {
  // Terms of parameters alone: whole results, and inputs of a sum as pairs of the sum and the input.
  std::set<std::size_t> whole;
  std::set<std::pair<std::size_t, std::size_t>> inputs;
  std::vector<std::size_t> indivisible;  // nodes over samples that are no sum of such terms

  bool over_samples_only() const { return whole.empty() && inputs.empty() && indivisible.empty(); }
};

// `values` are from infer_graph.
ResultTerms find_terms(const Graph&, const std::vector<Value>& values, const std::vector<std::size_t>& results);

}  // namespace tutti::graph

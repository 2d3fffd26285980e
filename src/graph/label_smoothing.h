// SPDX-License-Identifier: Apache-2.0
// label_smoothing.h -- labelSmoothing of SGD: the criteria that are trained with labels (1 - amount) label + amount / K
// for K classes. Source: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (2016).
#pragma once

#include <cstddef>
#include <set>

#include "tutti/graph.h"

namespace tutti::graph {

struct LabelSmoothing {
  double amount = 0;            // 0 = none
  std::set<std::size_t> nodes;  // softmax with cross entropy
};

// For all CrossEntropyWithSoftmax nodes that the criterion depends on. Throws ConfigError if there are none, or if
// labels depend on trained parameters.
LabelSmoothing smooth_labels(const Graph&, std::size_t criterion, double amount);

}  // namespace tutti::graph

// SPDX-License-Identifier: Apache-2.0
// placement.h -- model parallelism in a lowered program: divides the layers that several ranks compute together, and
// inserts the conversions between placements (kernels/ranks.cpp).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/lower.h"
#include "tutti/network.h"
#include "tutti/placement.h"

namespace tutti::graph {

// `chosen`: what an earlier call for the same network has chosen; empty in the first.
void place_layers(Lowered& code, const std::vector<std::size_t>& roots, const ModelParallel& how, const Shards& chosen);

std::vector<DenseLayer> find_dense_layers(const Lowered& code);

}  // namespace tutti::graph

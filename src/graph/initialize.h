// SPDX-License-Identifier: Apache-2.0
// initialize.h -- first values of parameters, number for number as the original makes them.
#pragma once

#include <span>

#include "tutti/graph.h"

namespace tutti::graph {

// Fills `values` (first axis fastest) by the attributes of a LearnableParameter of this shape.
void initialize(const Node& parameter, const Shape& shape, std::span<float> values);

// The values that a node of a trained model brings along (node.start).
void start_from(const Node& node, const Shape& shape, std::span<float> values);

// Throws ConfigError when the attributes make no sense; reads files only to see that they are there.
void check_initializer(const Node& parameter);

}  // namespace tutti::graph
